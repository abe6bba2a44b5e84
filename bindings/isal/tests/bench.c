/* Times ec_encode_data of several libraries in one interleaved run: bench NAME=PATH ... prints, for
 * each shape and length, GB/s of data, medians of rounds in which every library has its turn. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef void (*encode_fn)(int, int, int, unsigned char *, unsigned char **, unsigned char **);
typedef void (*init_fn)(int, int, unsigned char *, unsigned char *);
typedef void (*matrix_fn)(unsigned char *, int, int);

enum { LIBRARIES = 4, ROUNDS = 41, MOST = 32 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    encode_fn encode[LIBRARIES];
    init_fn init[LIBRARIES];
    matrix_fn matrix = NULL;
    int n = argc - 1;
    static const int shapes[][2] = {{10, 4}, {16, 4}};
    if (n < 1 || n > LIBRARIES)
        return 2;
    for (int i = 0; i < n; i++) {
        void *library = dlopen(strchr(argv[i + 1], '=') + 1, RTLD_NOW | RTLD_LOCAL);
        if (!library)
            return fprintf(stderr, "%s\n", dlerror()), 1;
        encode[i] = (encode_fn)dlsym(library, "ec_encode_data");
        init[i] = (init_fn)dlsym(library, "ec_init_tables");
        matrix = (matrix_fn)dlsym(library, "gf_gen_cauchy1_matrix");
    }
    printf("%-8s %8s", "code", "length");
    for (int i = 0; i < n; i++)
        printf(" %10.*s", (int)(strchr(argv[i + 1], '=') - argv[i + 1]), argv[i + 1]);
    puts("");
    for (int s = 0; s < 2; s++) {
        int k = shapes[s][0], rows = shapes[s][1];
        unsigned char generator[MOST * MOST], tables[LIBRARIES][32 * MOST * MOST];
        matrix(generator, k + rows, k);
        for (int i = 0; i < n; i++)
            init[i](k, rows, generator + k * k, tables[i]);
        for (int len = 4096; len <= 1 << 20; len *= 4) {
            unsigned char *data[MOST], *coding[MOST];
            double took[LIBRARIES][ROUNDS];
            for (int i = 0; i < k + rows; i++) {
                unsigned char *buffer = aligned_alloc(64, len);
                for (int b = 0; b < len; b++)
                    buffer[b] = (b * 31 + i) % 251;
                *(i < k ? &data[i] : &coding[i - k]) = buffer;
            }
            int repeats = 1 + (4 << 20) / (len * k);
            for (int round = 0; round < ROUNDS; round++)
                for (int turn = 0; turn < n; turn++) {
                    int i = (turn + round) % n;
                    double start = now();
                    for (int r = 0; r < repeats; r++)
                        encode[i](len, k, rows, tables[i], data, coding);
                    took[i][round] = now() - start;
                }
            printf("(%d,%d)%*s %8d", k, rows, 8 - (int)strlen("(10,4)"), "", len);
            for (int i = 0; i < n; i++) {
                qsort(took[i], ROUNDS, sizeof(double), by_size);
                printf(" %10.2f", (double)len * k * repeats / took[i][ROUNDS / 2] / 1e9);
            }
            puts("");
            for (int i = 0; i < k; i++)
                free(data[i]);
            for (int i = 0; i < rows; i++)
                free(coding[i]);
        }
    }
    return 0;
}
