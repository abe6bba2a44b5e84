/* Plans the reads for 4 KiB of a lost disk while another disk is slow, and computes them. */
#include <pantile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 16, ELEMENT = 65536 };

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
    pantile_error why;
    pantile_code *code;
    pantile_codec *codec;
    pantile_plan *plan;
    pantile_range wanted = {4, 8192, 4096}, reads[COLUMNS];
    uint32_t costs[COLUMNS];
    size_t lost = 4, count, i, c;
    uint64_t cost, at_least;
    void *columns[COLUMNS];
    unsigned char before[4096];

    /* Twelve data in two groups, a parity for each group, and two for all. */
    must(pantile_code_parse("lrc:12,2,2", &code, &why), &why);
    must(pantile_codec_new(code, NULL, &codec, &why), &why);
    for (c = 0; c < COLUMNS; c++) {
        for (i = 0; i < ELEMENT; i++)
            shards[c][i] = (unsigned char)(c * 91 + i / 5);
        columns[c] = shards[c];
        costs[c] = 1;
    }
    must(pantile_encode(codec, columns, COLUMNS, ELEMENT, &why), &why);

    /* A byte of column 0 is as dear as a hundred of the others. */
    costs[0] = 100;
    must(pantile_plan_new(codec, ELEMENT, &lost, 1, &wanted, 1, costs, COLUMNS, &plan, &why), &why);
    must(pantile_plan_cost(plan, &cost, &at_least, &why), &why);
    must(pantile_plan_reads(plan, reads, COLUMNS, &count, &why), &why);
    printf("%zu reads, cost %llu%s:", count, (unsigned long long)cost,
           cost == at_least ? ", and none is cheaper" : "");
    for (i = 0; i < count; i++)
        printf(" %zu", reads[i].column);
    printf("\n");

    memcpy(before, shards[4] + wanted.offset, wanted.bytes);
    memset(shards[4], 0, ELEMENT);
    must(pantile_plan_run(plan, columns, COLUMNS, &why), &why);
    c = memcmp(before, shards[4] + wanted.offset, wanted.bytes) == 0;
    printf("4 KiB of column 4 %s\n", c ? "are back" : "are wrong");
    pantile_plan_free(plan);
    pantile_codec_free(codec);
    pantile_code_free(code);
    return c ? 0 : 1;
}
