#include "bridge.h"

#include <stdlib.h>

static pantile_status run(const pantile_go_request *r, uint8_t *const *table, size_t *number,
                          pantile_error *why)
{
    const pantile_codec *codec = (const pantile_codec *)r->handle;
    void *const *columns = (void *const *)table;
    const void *const *seen = (const void *const *)table;
    pantile_status status = PANTILE_OK;

    switch (r->call) {
    case PANTILE_GO_ENCODE:
        for (*number = 0; *number < r->stripes && status == PANTILE_OK; columns += r->columns) {
            status = pantile_encode(codec, columns, r->columns, r->element, why);
            *number += status == PANTILE_OK;
        }
        return status;
    case PANTILE_GO_RECONSTRUCT:
        return pantile_reconstruct(codec, columns, r->columns, r->element, r->states, why);
    case PANTILE_GO_VERIFY:
        return pantile_verify(codec, seen, r->columns, r->element, number, why);
    case PANTILE_GO_UPDATE:
        return pantile_update(codec, columns, r->columns, r->element, r->position, r->offset,
                              r->content, r->bytes, why);
    case PANTILE_GO_UPDATE_PARITY:
        return pantile_update_parity(codec, columns, r->columns, r->element, r->position,
                                     r->offset, r->content, r->bytes, why);
    case PANTILE_GO_SPLIT:
        return pantile_split(codec, r->content, r->bytes, columns, r->columns, r->element, why);
    case PANTILE_GO_JOIN:
        return pantile_join(codec, seen, r->columns, r->element, r->content, r->bytes, why);
    case PANTILE_GO_LOCATE:
        return pantile_locate(codec, seen, r->columns, r->element, r->findings, r->room, number,
                              why);
    case PANTILE_GO_CORRECT:
        return pantile_correct(codec, columns, r->columns, r->element, r->findings, r->room,
                               number, why);
    case PANTILE_GO_RUN:
        return pantile_plan_run((const pantile_plan *)r->handle, columns, r->columns, why);
    }
    abort();
}

static pantile_go_answer answer(const pantile_go_request *request, uint8_t *const *table)
{
    pantile_go_answer answer = {NULL, 0};
    pantile_error why;

    if (run(request, table, &answer.number, &why) != PANTILE_OK) {
        answer.why = malloc(sizeof why);
        if (answer.why == NULL)
            abort();
        *answer.why = why;
    }
    return answer;
}

pantile_go_answer pantile_go_with_few(pantile_go_request request, pantile_go_few table)
{
    return answer(&request, table.columns);
}

pantile_go_answer pantile_go_with_many(pantile_go_request request, pantile_go_many table)
{
    return answer(&request, table.columns);
}
