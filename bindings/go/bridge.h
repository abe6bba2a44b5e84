/* Bridge between Go and the C library: tables of columns passed by value, answers without output
 * parameters.
 *
 * Go may not pass a table in Go's memory that points to Go's memory. A structure that is an argument
 * may contain such pointers: cgo keeps its buffers in place until the call returns. So no buffer is
 * copied and none is pinned, with any version of Go. */
#ifndef PANTILE_GO_BRIDGE_H
#define PANTILE_GO_BRIDGE_H

#include <pantile.h>

/* Pointers of one crossing: a stripe of a usual code, or many stripes or the widest code. */
#define PANTILE_GO_FEW 32
#define PANTILE_GO_MANY 1024

typedef struct pantile_go_few {
    uint8_t *columns[PANTILE_GO_FEW];
} pantile_go_few;

typedef struct pantile_go_many {
    uint8_t *columns[PANTILE_GO_MANY];
} pantile_go_many;

typedef enum pantile_go_call {
    PANTILE_GO_ENCODE,
    PANTILE_GO_RECONSTRUCT,
    PANTILE_GO_VERIFY,
    PANTILE_GO_UPDATE,
    PANTILE_GO_UPDATE_PARITY,
    PANTILE_GO_SPLIT,
    PANTILE_GO_JOIN,
    PANTILE_GO_LOCATE,
    PANTILE_GO_CORRECT,
    PANTILE_GO_RUN
} pantile_go_call;

/* Arguments beside the columns; each call reads those that it has. */
typedef struct pantile_go_request {
    pantile_go_call call;
    uintptr_t handle; /* a codec, or the plan to run: memory of C */
    size_t columns, stripes, element;
    size_t position, offset;
    uint8_t *content;
    size_t bytes;
    uint8_t *states;
    pantile_finding *findings;
    size_t room;
} pantile_go_request;

/* The result: NULL or an error that the caller frees, and the number that the call returns. */
typedef struct pantile_go_answer {
    pantile_error *why;
    size_t number; /* bytes, a fault or a count; of an encoding the stripes that are done */
} pantile_go_answer;

pantile_go_answer pantile_go_with_few(pantile_go_request request, pantile_go_few table);
pantile_go_answer pantile_go_with_many(pantile_go_request request, pantile_go_many table);

#endif
