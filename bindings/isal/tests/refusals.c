/* Calls that ISA-L's interface cannot refuse, one for each number; bindings/isal/test has the
 * expected end of each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <isa-l.h>

enum { K = 4, ROWS = 2, LEN = 4096 };

int main(int argc, char **argv)
{
    static unsigned char block[K + ROWS][LEN], generator[(K + ROWS) * K], tables[32 * K * ROWS];
    unsigned char *data[K], *coding[ROWS], *none[K] = {0};
    void *array[K + ROWS];
    int which = argc > 1 ? atoi(argv[1]) : 0;
    for (int i = 0; i < K + ROWS; i++) {
        array[i] = block[i];
        for (int b = 0; b < LEN; b++)
            block[i][b] = b ? (b * 31 + i) % 251 : i + 1;
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
    case 5: { /* right: parity into the midst of its sources */
        unsigned char want[ROWS][LEN / 2], *midst[ROWS] = {block[0] + 64, block[1] + 192};
        unsigned char *apart[ROWS] = {want[0], want[1]};
        ec_encode_data(LEN / 2, K, ROWS, tables, data, apart);
        ec_encode_data(LEN / 2, K, ROWS, tables, data, midst);
        return memcmp(want[0], midst[0], LEN / 2) == 0 && memcmp(want[1], midst[1], LEN / 2) == 0 ? 40 : 0;
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
