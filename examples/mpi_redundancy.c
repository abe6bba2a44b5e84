/* mpi_redundancy.c - a program with ranks whose checkpoints survive lost storage of some ranks.
 *
 *     mpirun -n 8 ./mpi_redundancy FOLDER CODE write GENERATION
 *     mpirun -n 8 ./mpi_redundancy FOLDER CODE recover
 *
 * The storage of rank N is FOLDER/rank.N; on a cluster FOLDER would be a disk of each node. `write`
 * writes the state of each rank to a file there, and computes its share of the parity of CODE,
 * which has one column for each rank: rs:6+2, raid5:7, lrc:4,2,2, clay:6,2,7 for 8 ranks. `recover`
 * brings back what is missing, and checks every number. Both print the bytes that ranks sent.
 *
 * Build: mpicc -I../bindings/c/mpi mpi_redundancy.c ../bindings/c/mpi/pantile_ranks.c
 * $(pkg-config --cflags --libs pantile)
 */
#include "pantile_ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int rank;

static void give_up(const char *what, const char *why)
{
    if (rank == 0)
        fprintf(stderr, "%s: %s\n", what, why);
    MPI_Finalize();
    exit(1);
}

/* Ranks have states of different lengths: about a MiB of numbers. */
static size_t numbers(void)
{
    return ((size_t)1 << 17) + (size_t)rank * 1000;
}

static uint64_t number(uint64_t generation, size_t i)
{
    return (generation << 40) + ((uint64_t)rank << 32) + i;
}

/* Writes or checks the state of this rank; 1 if that worked. */
static int state(const char *path, const char *mode, uint64_t generation)
{
    FILE *file = fopen(path, mode);
    int is_right = file != NULL;
    for (size_t i = 0; is_right && i < numbers(); i++) {
        uint64_t value = number(generation, i);
        if (mode[0] == 'w')
            is_right = fwrite(&value, sizeof value, 1, file) == 1;
        else
            is_right = fread(&value, sizeof value, 1, file) == 1 && value == number(generation, i);
    }
    return file != NULL && fclose(file) == 0 && is_right;
}

int main(int argc, char **argv)
{
    char folder[4096], path[4200];
    pantile_ranks *ranks;
    pantile_error why;
    uint64_t generation, sent, most;
    int works, all_work;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc < 4 || strcmp(argv[3], argc == 4 ? "recover" : "write") != 0)
        give_up("usage", "mpi_redundancy FOLDER CODE write GENERATION | ... recover");
    if (pantile_ranks_new(MPI_COMM_WORLD, argv[2], &ranks, &why) != PANTILE_OK)
        give_up(pantile_status_name(why.status), why.message);
    snprintf(folder, sizeof folder, "%s/rank.%d", argv[1], rank);
    snprintf(path, sizeof path, "%s/checkpoint", folder);
    mkdir(folder, 0700);

    if (argc > 4) {
        generation = strtoull(argv[4], NULL, 10);
        works = state(path, "wb", generation);
        if (works && rank == 0)
            printf("generation %llu is written\n", (unsigned long long)generation);
        if (pantile_ranks_encode(ranks, path, generation, &why) != PANTILE_OK)
            give_up(pantile_status_name(why.status), why.message);
    } else {
        pantile_ranks_recovered done;
        if (pantile_ranks_recover(ranks, path, &done, &why) != PANTILE_OK)
            give_up(pantile_status_name(why.status), why.message);
        generation = done.generation;
        if (rank == 0) {
            printf("all ranks have generation %llu; rebuilt:", (unsigned long long)generation);
            for (size_t i = 0; i < done.lost_count; i++)
                printf(" %d", done.lost[i]);
            printf(done.lost_count == 0 ? " none\n" : "\n");
        }
        works = state(path, "rb", generation);
    }
    MPI_Allreduce(&works, &all_work, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    if (!all_work)
        give_up("the state", "not written, or not the numbers that were written");
    pantile_ranks_traffic(ranks, &sent, NULL);
    MPI_Reduce(&sent, &most, 1, MPI_UINT64_T, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("a rank sent %llu bytes at most\n", (unsigned long long)most);
    pantile_ranks_free(ranks);
    MPI_Finalize();
    return 0;
}
