/* mpi_checkpoint.c - a program with ranks that keeps its state in a served volume of Pantile.
 *
 *     mpirun -n 8 ./mpi_checkpoint VOL STEPS [DIES-AT]
 *     mpirun -n 8 ./mpi_checkpoint VOL check
 *
 * The state is one slice of numbers per rank, all of which change in every step. After a step all
 * ranks write their slices as one epoch of delayed parity: rank 0 begins it, every rank writes its
 * slice to the epoch by NBD, and rank 0 ends it once all have flushed. Data go to the devices at
 * once, parity follows at the end, and the end seals all slices together. If any rank dies before
 * that, mpirun ends the others, rank 0's connection to the volume closes, and the volume leaves
 * everything as it was before the epoch: `check` finds all slices of the last step that was ended.
 *
 * With DIES-AT the last rank kills itself in the middle of its slice in that step.
 *
 * Build: mpicc mpi_checkpoint.c $(pkg-config --cflags --libs libnbd pantile)
 * The volume: pantile create VOL --code raid6:4 --size 256M; pantile serve VOL. What
 * an epoch replaces needs spare places: of more than 128 MiB or an eighth of the volume, ask for
 * them by pantile create --epochs SIZE.
 */
#include <libnbd.h>
#include <mpi.h>
#include <pantile.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The slice of a rank: a MiB of numbers, written in pieces as if memory were short. */
#define SLICE_BYTES ((size_t)1 << 20)
#define PIECE_BYTES ((size_t)128 << 10)
#define NUMBERS (SLICE_BYTES / sizeof(uint64_t))
#define URI_BYTES 4096

static int rank;

/* Ends all ranks with a sentence. */
static void give_up(const char *what, const char *why)
{
    fprintf(stderr, "rank %d: %s: %s\n", rank, what, why);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

/* Number `i` of a rank's slice after a step; none is 0, which is what a new volume holds. */
static uint64_t value(int of_rank, uint64_t step, size_t i)
{
    return (step << 40) + ((uint64_t)of_rank << 32) + i + 1;
}

/* Begins an epoch that holds the slices of all ranks, and gives the URI where they write. It is
 * dropped if this rank dies before its end. */
static pantile_epoch *epoch_begin(const char *volume, int ranks, char *uri, size_t room)
{
    pantile_epoch_options options = {.struct_bytes = sizeof options,
                                     .bytes = (uint64_t)ranks * SLICE_BYTES};
    pantile_epoch *epoch;
    pantile_error why;
    size_t need;
    if (pantile_epoch_begin(volume, &options, &epoch, &why) != PANTILE_OK ||
        pantile_epoch_uri(epoch, uri, room, &need, &why) != PANTILE_OK)
        give_up("no epoch", why.message);
    return epoch;
}

/* Seals an epoch: parity is made, and all that was written counts. */
static void epoch_end(pantile_epoch *epoch)
{
    pantile_error why;
    if (pantile_epoch_end(epoch, &why) != PANTILE_OK)
        give_up("the epoch is not sealed", why.message);
    pantile_epoch_free(epoch);
}

/* ----------------------------------------------------------------- bytes, which all ranks move */

/* A connection to an export of the volume. */
static struct nbd_handle *nbd_open(const char *uri)
{
    struct nbd_handle *nbd = nbd_create();
    if (nbd == NULL || nbd_connect_uri(nbd, uri) != 0)
        give_up(uri, nbd_get_error());
    return nbd;
}

static void nbd_done(struct nbd_handle *nbd)
{
    nbd_shutdown(nbd, 0);
    nbd_close(nbd);
}

/* Writes the slice of this rank to an epoch, and makes it durable. */
static void write_slice(const char *uri, const uint64_t *slice, int dies)
{
    struct nbd_handle *nbd = nbd_open(uri);
    for (size_t done = 0; done < SLICE_BYTES; done += PIECE_BYTES) {
        uint64_t offset = (uint64_t)rank * SLICE_BYTES + done;
        if (nbd_pwrite(nbd, (const char *)slice + done, PIECE_BYTES, offset, 0) != 0)
            give_up("writing", nbd_get_error());
        if (dies && done >= SLICE_BYTES / 2)
            raise(SIGKILL);
    }
    if (nbd_flush(nbd, 0) != 0)
        give_up("flushing", nbd_get_error());
    nbd_done(nbd);
}

/* The step that the slice of this rank is of: 0 if it was never written. */
static uint64_t read_slice(const char *volume, uint64_t *slice)
{
    char uri[URI_BYTES];
    snprintf(uri, sizeof uri, "nbd+unix:///?socket=%s/nbd.sock", volume);
    struct nbd_handle *nbd = nbd_open(uri);
    if (nbd_pread(nbd, slice, SLICE_BYTES, (uint64_t)rank * SLICE_BYTES, 0) != 0)
        give_up("reading", nbd_get_error());
    nbd_done(nbd);
    uint64_t step = slice[0] >> 40;
    for (size_t i = 0; i < NUMBERS; i++)
        if (slice[i] != (slice[0] == 0 ? 0 : value(rank, step, i)))
            give_up("a number", "is of another step than the first of its slice");
    return step;
}

int main(int argc, char **argv)
{
    int ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc < 3)
        give_up("usage", "mpi_checkpoint VOL STEPS [DIES-AT] | mpi_checkpoint VOL check");
    const char *volume = argv[1];
    uint64_t *slice = malloc(SLICE_BYTES);
    if (slice == NULL)
        give_up("a slice of 1 MiB", "no memory");

    /* Go on from the last checkpoint: all slices must be of the same step. */
    uint64_t step = read_slice(volume, slice), least, most;
    MPI_Allreduce(&step, &least, 1, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD);
    MPI_Allreduce(&step, &most, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
    if (least != most)
        give_up("the checkpoint", "slices of different steps");
    if (rank == 0)
        printf("all %d slices are of step %llu\n", ranks, (unsigned long long)step);

    if (strcmp(argv[2], "check") != 0) {
        uint64_t last = step + strtoull(argv[2], NULL, 10);
        uint64_t dies_at = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
        while (step < last) {
            pantile_epoch *epoch = NULL;
            char uri[URI_BYTES] = "";
            step++;
            for (size_t i = 0; i < NUMBERS; i++)
                slice[i] = value(rank, step, i);
            if (rank == 0)
                epoch = epoch_begin(volume, ranks, uri, sizeof uri);
            MPI_Bcast(uri, sizeof uri, MPI_CHAR, 0, MPI_COMM_WORLD);
            write_slice(uri, slice, step == dies_at && rank == ranks - 1);
            MPI_Barrier(MPI_COMM_WORLD);
            if (rank == 0) {
                epoch_end(epoch);
                printf("step %llu is sealed\n", (unsigned long long)step);
                fflush(stdout);
            }
            MPI_Barrier(MPI_COMM_WORLD);
        }
    }
    free(slice);
    MPI_Finalize();
    return 0;
}
