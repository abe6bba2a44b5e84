/* bytes.c - counts the bytes that ranks send for redundancy across them, of Pantile and of redset.
 *
 *     mpirun -n 8 ./bytes FOLDER MIB
 *
 * Every MPI call that sends is counted here, below both libraries: what a rank hands to MPI for
 * other ranks, by MPI's profiling interface. A collective counts as its own contribution.
 * Without -DWITH_REDSET Pantile is counted alone.
 */
#define _GNU_SOURCE
#include "pantile_ranks.h"
#ifdef WITH_REDSET
#include <redset.h>
#endif

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int rank, ranks;
static size_t data_bytes;
static char folder[4096], file[4200];
static uint64_t sent, received;

/* ------------------------------------------------------------------------------------- counting */

static uint64_t bytes_of(int count, MPI_Datatype type)
{
    int size;
    PMPI_Type_size(type, &size);
    return (uint64_t)count * (uint64_t)size;
}

/* Bytes to or from another rank of a communicator; to itself a rank sends nothing. */
static uint64_t to_other(int count, MPI_Datatype type, int peer, MPI_Comm comm)
{
    int me;
    PMPI_Comm_rank(comm, &me);
    return peer == me || peer == MPI_PROC_NULL ? 0 : bytes_of(count, type);
}

int MPI_Send(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)
{
    sent += to_other(count, type, dest, comm);
    return PMPI_Send(buf, count, type, dest, tag, comm);
}

int MPI_Isend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    sent += to_other(count, type, dest, comm);
    return PMPI_Isend(buf, count, type, dest, tag, comm, request);
}

int MPI_Recv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
             MPI_Status *status)
{
    received += to_other(count, type, source, comm);
    return PMPI_Recv(buf, count, type, source, tag, comm, status);
}

int MPI_Irecv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    received += to_other(count, type, source, comm);
    return PMPI_Irecv(buf, count, type, source, tag, comm, request);
}

int MPI_Sendrecv(const void *sendbuf, int sendcount, MPI_Datatype sendtype, int dest, int sendtag,
                 void *recvbuf, int recvcount, MPI_Datatype recvtype, int source, int recvtag,
                 MPI_Comm comm, MPI_Status *status)
{
    sent += to_other(sendcount, sendtype, dest, comm);
    received += to_other(recvcount, recvtype, source, comm);
    return PMPI_Sendrecv(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype,
                         source, recvtag, comm, status);
}

int MPI_Bcast(void *buf, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    int me;
    PMPI_Comm_rank(comm, &me);
    sent += me == root ? bytes_of(count, type) : 0;
    return PMPI_Bcast(buf, count, type, root, comm);
}

int MPI_Allreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm)
{
    sent += bytes_of(count, type);
    return PMPI_Allreduce(sendbuf, recvbuf, count, type, op, comm);
}

int MPI_Scan(const void *sendbuf, void *recvbuf, int count, MPI_Datatype type, MPI_Op op,
             MPI_Comm comm)
{
    sent += bytes_of(count, type);
    return PMPI_Scan(sendbuf, recvbuf, count, type, op, comm);
}

int MPI_Allgather(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
                  int recvcount, MPI_Datatype recvtype, MPI_Comm comm)
{
    sent += bytes_of(sendcount, sendtype);
    return PMPI_Allgather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
}

/* ---------------------------------------------------------------------------------------- files */

static void must(int true_thing, const char *what, const char *why)
{
    if (!true_thing) {
        fprintf(stderr, "rank %d: %s: %s\n", rank, what, why);
        MPI_Abort(MPI_COMM_WORLD, 1);
        exit(1);
    }
}

/* Deletes all files of this rank: its storage is lost. */
static void lose(void)
{
    char command[2 * sizeof folder + 32];
    snprintf(command, sizeof command, "rm -rf '%s' && mkdir '%s'", folder, folder);
    must(system(command) == 0, folder, "cannot be emptied");
}

/* The byte of a checkpoint at an offset, by the megabyte: no two are alike. */
static void fill(uint64_t *words, size_t count, uint64_t from)
{
    for (size_t i = 0; i < count; i++)
        words[i] = ((uint64_t)rank << 40 ^ (from + i)) * UINT64_C(0x9e3779b97f4a7c15);
}

enum { WORDS = 1 << 17 };

static void write_data(void)
{
    static uint64_t words[WORDS];
    int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    for (size_t done = 0; done < data_bytes; done += sizeof words) {
        fill(words, WORDS, done / 8);
        must(write(fd, words, sizeof words) == (ssize_t)sizeof words, file, "cannot be written");
    }
    must(close(fd) == 0, file, "cannot be written");
}

static void check_data(void)
{
    static uint64_t words[WORDS], right[WORDS];
    struct stat found;
    int fd = open(file, O_RDONLY);
    must(fstat(fd, &found) == 0 && (size_t)found.st_size == data_bytes, file, "not its length");
    for (size_t done = 0; done < data_bytes; done += sizeof words) {
        fill(right, WORDS, done / 8);
        must(read(fd, words, sizeof words) == (ssize_t)sizeof words &&
                 memcmp(words, right, sizeof words) == 0,
             file, "not what was written");
    }
    close(fd);
}

/* --------------------------------------------------------------------------------------- turns */

/* Prints a line of the table: the bytes since `begun`. */
static void print(const char *program, const char *code, const char *step, double begun)
{
    double mine[3] = {(double)sent, (double)received, PMPI_Wtime() - begun}, most[3], all[3];
    double mib = 1 << 20;
    PMPI_Reduce(mine, most, 3, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    PMPI_Reduce(mine, all, 3, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("| %s | %s | %s | %.2f | %.2f | %.2f | %.2f |\n", program, code, step,
               all[0] / mib, most[0] / mib, most[1] / mib, most[2]);
    fflush(stdout);
}

static double begin(void)
{
    PMPI_Barrier(MPI_COMM_WORLD);
    sent = received = 0;
    return PMPI_Wtime();
}

static const char *const steps[] = {"protect", "1 lost", "2 lost", "3 lost"};

/* The ranks that are lost are far from one another. */
static int is_lost(int losses)
{
    return rank == 2 || (losses > 1 && rank == 5) || (losses > 2 && rank == 0);
}

static void pantile(const char *spec, int losses_most)
{
    pantile_ranks *handle;
    pantile_error why;
    uint64_t before, after;
    double begun;
    must(pantile_ranks_new(MPI_COMM_WORLD, spec, &handle, &why) == PANTILE_OK, spec, why.message);
    lose();
    write_data();
    for (int losses = 0; losses <= losses_most; losses++) {
        if (losses > 0 && is_lost(losses))
            lose();
        pantile_ranks_traffic(handle, &before, NULL);
        begun = begin();
        must((losses == 0 ? pantile_ranks_encode(handle, file, 1, &why)
                          : pantile_ranks_recover(handle, file, NULL, &why)) == PANTILE_OK,
             spec, why.message);
        pantile_ranks_traffic(handle, &after, NULL);
        must(after - before == sent, spec, "it counts other bytes than MPI's interface");
        print("Pantile", spec, steps[losses], begun);
        check_data();
    }
    pantile_ranks_free(handle);
}

#ifdef WITH_REDSET
/* redset with a number of encoding blocks; 0 stands for its XOR. */
static void redset_of(const char *name, int blocks, int losses_most)
{
    char group[32], prefix[4200];
    const char *files[1] = {file};
    redset set;
    double begun;
    snprintf(group, sizeof group, "rank %d", rank);
    snprintf(prefix, sizeof prefix, "%s/", folder);
    must((blocks == 0 ? redset_create_xor(MPI_COMM_WORLD, group, ranks, &set)
                      : redset_create_rs(MPI_COMM_WORLD, group, ranks, blocks, &set)) ==
             REDSET_SUCCESS,
         name, "is not made");
    lose();
    write_data();
    for (int losses = 0; losses <= losses_most; losses++) {
        redset again = NULL;
        if (losses > 0 && is_lost(losses))
            lose();
        begun = begin();
        must((losses == 0 ? redset_apply(1, files, prefix, set)
                          : redset_recover(MPI_COMM_WORLD, prefix, &again)) == REDSET_SUCCESS,
             name, "fails");
        print("redset", name, steps[losses], begun);
        check_data();
        if (again != NULL)
            redset_delete(&again);
    }
    redset_delete(&set);
}
#else
#define redset_init()
#define redset_of(name, blocks, losses_most)
#define redset_finalize()
#endif

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    must(argc == 3 && ranks == 8, "usage", "mpirun -n 8 ./bytes FOLDER MIB");
    snprintf(folder, sizeof folder, "%.4000s/rank.%d", argv[1], rank);
    snprintf(file, sizeof file, "%s/checkpoint", folder);
    data_bytes = strtoul(argv[2], NULL, 10) << 20;
    redset_init();
    redset_of("XOR", 0, 1);
    pantile("raid5:7", 1);
    redset_of("RS, 2 blocks", 2, 2);
    pantile("rs:6+2", 2);
    pantile("raid6:6", 2);
    pantile("clay:6,2,7", 2);
    pantile("dcode:8", 2);
    redset_of("RS, 3 blocks", 3, 3);
    pantile("rs:5+3", 3);
    pantile("shec:5,3,c=2", 2);
    pantile("lrc:4,2,2", 3);
    redset_finalize();
    MPI_Finalize();
    return 0;
}
