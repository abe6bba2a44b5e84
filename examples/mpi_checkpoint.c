/* mpi_checkpoint.c - a program with ranks that keeps its state in a served volume of Pantile.
 *
 *     mpirun -n 8 ./mpi_checkpoint VOL STEPS [DIES-AT]
 *     mpirun -n 8 ./mpi_checkpoint VOL check
 *
 * The state is one slice of numbers per rank, all of which change in every step. After a step all
 * ranks write their slices as one epoch of delayed parity: rank 0 begins it over the control socket
 * of the volume, every rank writes its slice to the epoch by NBD, and rank 0 ends it once all have
 * flushed. Data go to the devices at once, parity follows at the end, and the end seals all slices
 * together. If any rank dies before that, mpirun ends the others, the control connection closes,
 * and the volume leaves everything as it was before the epoch: `check` finds all slices of the last
 * step that was ended.
 *
 * With DIES-AT the last rank kills itself in the middle of its slice in that step.
 *
 * Build: mpicc mpi_checkpoint.c $(pkg-config --cflags --libs libnbd)
 * The volume: pantile create VOL --code raid6:4 --size 256M; pantile serve VOL. What
 * an epoch replaces needs spare places: of more than 128 MiB or an eighth of the volume, ask for
 * them by pantile create --epochs SIZE.
 */
#include <libnbd.h>
#include <mpi.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* The slice of a rank: a MiB of numbers, written in pieces as if memory were short. */
#define SLICE_BYTES ((size_t)1 << 20)
#define PIECE_BYTES ((size_t)128 << 10)
#define NUMBERS (SLICE_BYTES / sizeof(uint64_t))

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

/* ------------------------------------------------------------- orders, which rank 0 gives alone */

/* A connection to the control socket. It stays open as long as epochs shall: what this process has
 * begun and not ended is dropped when it closes. */
static int control_open(const char *volume)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int at = socket(AF_UNIX, SOCK_STREAM, 0);
    int length = snprintf(address.sun_path, sizeof address.sun_path, "%s/control.sock", volume);
    if (length < 0 || (size_t)length >= sizeof address.sun_path)
        give_up(volume, "the path of a socket has at most 107 bytes; use a shorter one");
    if (at < 0 || connect(at, (struct sockaddr *)&address, sizeof address) != 0) {
        perror(address.sun_path);
        give_up(volume, "is not served; run pantile serve first");
    }
    return at;
}

/* Gives an order, a line of JSON, and takes the answer, another. */
static void control_order(int at, const char *order, char *answer, size_t room)
{
    size_t have = 0;
    if (write(at, order, strlen(order)) != (ssize_t)strlen(order))
        give_up("the control socket", "cannot be written");
    while (have == 0 || answer[have - 1] != '\n') {
        ssize_t got = have + 1 < room ? read(at, answer + have, room - have - 1) : -1;
        if (got <= 0)
            give_up("the control socket", "was closed without an answer");
        have += (size_t)got;
    }
    answer[have] = '\0';
    if (strstr(answer, "\"answer\":\"fault\"") != NULL)
        give_up("the volume refuses", answer);
}

/* Begins an epoch that holds the slices of all ranks; its number. */
static uint64_t epoch_begin(int at, int ranks)
{
    char order[256], answer[4096];
    snprintf(order, sizeof order,
             "{\"do\":\"delayed-start\",\"offset\":0,\"len-bytes\":%zu,\"on-timeout\":\"abort\"}\n",
             (size_t)ranks * SLICE_BYTES);
    control_order(at, order, answer, sizeof answer);
    const char *number = strstr(answer, "\"epoch\":");
    if (number == NULL)
        give_up("the answer has no epoch", answer);
    while (*number < '0' || *number > '9')
        number++;
    return strtoull(number, NULL, 10);
}

/* Seals an epoch: parity is made, and all that was written counts. */
static void epoch_end(int at, uint64_t epoch)
{
    char order[128], answer[4096];
    snprintf(order, sizeof order, "{\"do\":\"delayed-end\",\"epoch\":%llu}\n",
             (unsigned long long)epoch);
    control_order(at, order, answer, sizeof answer);
}

/* ----------------------------------------------------------------- bytes, which all ranks move */

/* A connection to an export of the volume: the volume itself is "". */
static struct nbd_handle *nbd_open(const char *volume, const char *export)
{
    char path[4096];
    struct nbd_handle *nbd = nbd_create();
    snprintf(path, sizeof path, "%s/nbd.sock", volume);
    if (nbd == NULL || nbd_set_export_name(nbd, export) != 0 || nbd_connect_unix(nbd, path) != 0)
        give_up(path, nbd_get_error());
    return nbd;
}

static void nbd_done(struct nbd_handle *nbd)
{
    nbd_shutdown(nbd, 0);
    nbd_close(nbd);
}

/* Writes the slice of this rank to an epoch, and makes it durable. */
static void write_slice(const char *volume, uint64_t epoch, const uint64_t *slice, int dies)
{
    char export[64];
    snprintf(export, sizeof export, "epoch-%llu", (unsigned long long)epoch);
    struct nbd_handle *nbd = nbd_open(volume, export);
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
    struct nbd_handle *nbd = nbd_open(volume, "");
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
        int at = rank == 0 ? control_open(volume) : -1;
        while (step < last) {
            uint64_t epoch = 0;
            step++;
            for (size_t i = 0; i < NUMBERS; i++)
                slice[i] = value(rank, step, i);
            if (rank == 0)
                epoch = epoch_begin(at, ranks);
            MPI_Bcast(&epoch, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
            write_slice(volume, epoch, slice, step == dies_at && rank == ranks - 1);
            MPI_Barrier(MPI_COMM_WORLD);
            if (rank == 0) {
                epoch_end(at, epoch);
                printf("step %llu is sealed\n", (unsigned long long)step);
                fflush(stdout);
            }
            MPI_Barrier(MPI_COMM_WORLD);
        }
        if (rank == 0)
            close(at);
    }
    free(slice);
    MPI_Finalize();
    return 0;
}
