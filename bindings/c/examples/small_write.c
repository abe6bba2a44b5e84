/* A small write: 512 bytes of one element change, and the parities that it reaches. */
#include <pantile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 10, ELEMENT = 4096 };

static unsigned char shards[COLUMNS][ELEMENT];

static void must(pantile_status status, const pantile_error *why)
{
    if (status != PANTILE_OK) {
        fprintf(stderr, "%s: %s\n", pantile_status_name(status), why->message);
        exit(1);
    }
}

int main(void)
{
    unsigned char new_content[512], change[512];
    pantile_error why;
    pantile_code *code;
    pantile_codec *codec;
    void *columns[COLUMNS];
    void *only_q[COLUMNS] = {NULL};
    const void *to_read[COLUMNS];
    size_t fault, i, c;

    /* Eight data, P and Q. */
    must(pantile_code_parse("raid6:8", &code, &why), &why);
    must(pantile_codec_new(code, NULL, &codec, &why), &why);
    for (c = 0; c < COLUMNS; c++) {
        memset(shards[c], (int)c + 1, ELEMENT);
        columns[c] = shards[c];
        to_read[c] = shards[c];
    }
    must(pantile_encode(codec, columns, COLUMNS, ELEMENT, &why), &why);

    /* Everything is at hand: columns 3, P and Q are changed, the others may be NULL. */
    memset(new_content, 0x77, sizeof new_content);
    must(pantile_update(codec, columns, COLUMNS, ELEMENT, 3, 1024, new_content, sizeof new_content,
                        &why),
         &why);
    must(pantile_verify(codec, to_read, COLUMNS, ELEMENT, &fault, &why), &why);
    printf("after a write to column 3: %s\n", fault == PANTILE_NONE ? "true" : "not true");
    if (fault != PANTILE_NONE)
        return 1;

    /* Data, P and Q are stored apart: each store gets the change only. */
    memset(new_content, 0x33, sizeof new_content);
    for (i = 0; i < sizeof change; i++)
        change[i] = (unsigned char)(shards[5][i] ^ new_content[i]);
    memcpy(shards[5], new_content, sizeof new_content);
    only_q[9] = shards[9];
    must(pantile_update_parity(codec, only_q, COLUMNS, ELEMENT, 5, 0, change, sizeof change, &why),
         &why);
    only_q[9] = NULL;
    only_q[8] = shards[8];
    must(pantile_update_parity(codec, only_q, COLUMNS, ELEMENT, 5, 0, change, sizeof change, &why),
         &why);
    must(pantile_verify(codec, to_read, COLUMNS, ELEMENT, &fault, &why), &why);
    printf("after a change that was sent around: %s\n",
           fault == PANTILE_NONE ? "true" : "not true");
    pantile_codec_free(codec);
    pantile_code_free(code);
    return fault == PANTILE_NONE ? 0 : 1;
}
