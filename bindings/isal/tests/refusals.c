/* What ISA-L's interface cannot say: each number is one call, and the test says how it has to end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <isa-l.h>

enum { K = 4, ROWS = 2, LEN = 256 };

int main(int argc, char **argv)
{
    static unsigned char block[K + ROWS][LEN], generator[(K + ROWS) * K], tables[32 * K * ROWS];
    unsigned char *data[K], *coding[ROWS], *none[K] = {0};
    void *array[K + ROWS];
    int which = argc > 1 ? atoi(argv[1]) : 0;
    for (int i = 0; i < K + ROWS; i++) {
        array[i] = block[i];
        memset(block[i], i + 1, LEN);
        *(i < K ? &data[i] : &coding[i - K]) = block[i];
    }
    gf_gen_cauchy1_matrix(generator, K + ROWS, K);
    ec_init_tables(K, ROWS, generator + K * K, tables);
    switch (which) {
    case 1: /* aborts: no table at all */
        memset(tables, 0x55, sizeof tables);
        ec_encode_data(LEN, K, ROWS, tables, data, coding);
        return 0;
    case 2: /* aborts: null source */
        ec_encode_data(LEN, K, ROWS, tables, none, coding);
        return 0;
    case 3: /* aborts: a source that does not exist */
        ec_encode_data_update(LEN, K, ROWS, K, tables, data[0], coding);
        return 0;
    case 4: { /* an answer: null vector */
        array[1] = NULL;
        return xor_gen(K + 1, LEN, array) == 1 && pq_check(K + ROWS, LEN, array) == 1 ? 40 : 0;
    }
    case 5: { /* right: parity over its own sources */
        unsigned char want[2][LEN];
        ec_encode_data(LEN, K, ROWS, tables, data, coding);
        memcpy(want, block[K], sizeof want);
        ec_encode_data(LEN, K, ROWS, tables, data, data);
        return memcmp(want, block[0], sizeof want) == 0 ? 40 : 0;
    }
    case 6: /* right: nothing to do, nothing touched */
        ec_encode_data(0, K, ROWS, tables, none, none);
        ec_encode_data(-1, K, ROWS, tables, none, none);
        return block[K][0] == K + 1 ? 40 : 0;
    case 7: /* passed on, or aborts where there is no real library */
        printf("%08x\n", crc32_ieee(0, block[0], LEN));
        return 40;
    }
    return 2;
}
