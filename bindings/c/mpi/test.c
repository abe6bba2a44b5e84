/* test.c - eight ranks lose their storage in every way that pantile_ranks.h names, and get it back.
 *
 *     mpirun -n 8 ./test FOLDER
 *     mpirun -n 8 ./test FOLDER killed MICROSECONDS    protects until rank 5 is killed
 *     mpirun -n 8 ./test FOLDER after GENERATION       recovers this generation or a later one
 */
#define _GNU_SOURCE
#include "pantile_ranks.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

enum { RANKS = 8 };

static int rank;
static char path[4096], share[4200], unfinished[4200];
/* The share as it was encoded. */
static char *kept;
static size_t kept_bytes;

#define MUST(true_thing, ...) \
    do { \
        if (!(true_thing)) { \
            fprintf(stderr, "rank %d, line %d: ", rank, __LINE__); \
            fprintf(stderr, __VA_ARGS__); \
            fputc('\n', stderr); \
            MPI_Abort(MPI_COMM_WORLD, 1); \
            exit(1); \
        } \
    } while (0)

static void put(const char *name, const void *bytes, size_t count)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    MUST(fd >= 0 && write(fd, bytes, count) == (ssize_t)count && close(fd) == 0, "%s", name);
}

static char *get(const char *name, size_t *count)
{
    struct stat found;
    int fd = open(name, O_RDONLY);
    char *bytes;
    MUST(fd >= 0 && fstat(fd, &found) == 0, "%s is missing", name);
    *count = (size_t)found.st_size;
    bytes = malloc(*count + 1);
    MUST(bytes != NULL && read(fd, bytes, *count) == (ssize_t)*count, "%s", name);
    close(fd);
    return bytes;
}

/* The checkpoint of a rank: its bytes depend on rank and generation. */
static char *content(size_t bytes, uint64_t generation)
{
    char *made = malloc(bytes + 1);
    uint64_t x = generation * 1000 + (uint64_t)rank + 1;
    MUST(made != NULL, "no memory");
    for (size_t i = 0; i < bytes; i++) {
        x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        made[i] = (char)(x >> 56);
    }
    return made;
}

/* A checkpoint and its shares. */
static void encode(pantile_ranks *ranks, size_t bytes, uint64_t generation)
{
    pantile_error why;
    char *made = content(bytes, generation);
    put(path, made, bytes);
    free(made);
    MUST(pantile_ranks_encode(ranks, path, generation, &why) == PANTILE_OK, "%s", why.message);
    free(kept);
    kept = get(share, &kept_bytes);
}

/* Data and share are those of the generation, byte for byte. */
static void same(size_t bytes, uint64_t generation)
{
    size_t count;
    char *made = content(bytes, generation), *found = get(path, &count);
    MUST(count == bytes && memcmp(made, found, bytes) == 0, "other data");
    free(found);
    found = get(share, &count);
    MUST(count == kept_bytes && memcmp(kept, found, count) == 0, "another share");
    free(found);
    free(made);
}

/* Recovers, and holds the ranks in the set `lost` to be those that were rebuilt. */
static void recover(pantile_ranks *ranks, unsigned lost, size_t bytes, uint64_t generation)
{
    pantile_ranks_recovered done;
    pantile_error why;
    unsigned rebuilt = 0;
    struct stat found;
    MUST(pantile_ranks_recover(ranks, path, &done, &why) == PANTILE_OK, "%s", why.message);
    for (size_t i = 0; i < done.lost_count; i++)
        rebuilt |= 1u << done.lost[i];
    MUST(rebuilt == lost && done.generation == generation,
         "rebuilt %x instead of %x, generation %d", rebuilt, lost, (int)done.generation);
    same(bytes, generation);
    MUST(stat(share, &found) == 0 && (found.st_mode & 07777) == 0600, "the mode of a share");
    if (lost >> rank & 1)
        MUST(stat(path, &found) == 0 && (found.st_mode & 07777) == 0600, "the mode of data");
    MUST(access(unfinished, F_OK) != 0, "a temporary file is left");
}

static void lose(unsigned lost)
{
    if (lost >> rank & 1) {
        unlink(path);
        unlink(share);
    }
}

static pantile_ranks *open_code(const char *spec)
{
    pantile_ranks *ranks;
    pantile_error why;
    MUST(pantile_ranks_new(MPI_COMM_WORLD, spec, &ranks, &why) == PANTILE_OK, "%s", why.message);
    return ranks;
}

/* All ranks have the same error. */
static void refused(pantile_status status, pantile_status expected, const pantile_error *why,
                    const char *says)
{
    char of_0[PANTILE_MESSAGE_BYTES];
    MUST(status == expected && why->status == expected, "status %d: %s", status, why->message);
    MUST(strstr(why->message, says) != NULL, "'%s' does not say '%s'", why->message, says);
    memcpy(of_0, why->message, sizeof of_0);
    MPI_Bcast(of_0, sizeof of_0, MPI_CHAR, 0, MPI_COMM_WORLD);
    MUST(strcmp(of_0, why->message) == 0, "another message than rank 0: %s", why->message);
}

static void flip(const char *name, off_t offset)
{
    char byte;
    int fd = open(name, O_RDWR);
    MUST(fd >= 0 && pread(fd, &byte, 1, offset) == 1, "%s", name);
    byte ^= 16;
    MUST(pwrite(fd, &byte, 1, offset) == 1 && close(fd) == 0, "%s", name);
}

/* Every set of `most` ranks, or the few that follow, is lost. */
static void losses(const char *spec, size_t bytes, int every_pair, const unsigned *few)
{
    pantile_ranks *ranks = open_code(spec);
    encode(ranks, bytes, 7);
    for (unsigned a = 0; every_pair && a < RANKS; a++)
        for (unsigned b = a; b < RANKS; b++) {
            lose(1u << a | 1u << b);
            recover(ranks, 1u << a | 1u << b, bytes, 7);
        }
    for (; few != NULL && *few != 0; few++) {
        lose(*few);
        recover(ranks, *few, bytes, 7);
    }
    pantile_ranks_free(ranks);
}

static void wrong_shares(size_t bytes)
{
    pantile_ranks *ranks = open_code("rs:6+2"), *other;
    pantile_error why;
    char *old_share, *old_data;
    size_t share_count, data_count;
    encode(ranks, bytes, 1);
    recover(ranks, 0, bytes, 1);

    /* A byte of a share, of its header, and of data is flipped; a share is torn. */
    if (rank == 2)
        flip(share, (off_t)kept_bytes - 5);
    if (rank == 5)
        flip(share, 40);
    recover(ranks, 1u << 2 | 1u << 5, bytes, 1);
    if (rank == 6)
        flip(path, (off_t)bytes / 2);
    if (rank == 7)
        MUST(truncate(share, (off_t)kept_bytes - 1) == 0, "truncate");
    recover(ranks, 1u << 6 | 1u << 7, bytes, 1);

    /* Two ranks are a generation behind, with their data or without. */
    old_share = get(share, &share_count);
    old_data = get(path, &data_count);
    encode(ranks, bytes, 2);
    if (rank == 3 || rank == 4)
        put(share, old_share, share_count);
    if (rank == 3)
        put(path, old_data, data_count);
    recover(ranks, 1u << 3 | 1u << 4, bytes, 2);

    /* Three are: no generation has enough ranks, and nothing is replaced. */
    if (rank < 3) {
        put(share, old_share, share_count);
        put(path, old_data, data_count);
    }
    refused(pantile_ranks_recover(ranks, path, NULL, &why), PANTILE_NOT_RECOVERABLE, &why,
            "lost ranks 0 1 2: ");
    if (rank < 3) {
        size_t count;
        char *found = get(path, &count);
        MUST(count == data_count && memcmp(found, old_data, count) == 0, "data were replaced");
        free(found);
        put(share, kept, kept_bytes);
        put(path, found = content(bytes, 2), bytes);
        free(found);
    }

    /* The program was killed when five of the ranks had renamed their shares. */
    if (rank < 5) {
        put(share, old_share, share_count);
        put(unfinished, kept, kept_bytes);
        MUST(chmod(unfinished, 0600) == 0, "chmod");
    } else if (rank == 6) {
        put(unfinished, kept, kept_bytes / 2);
        lose(1u << 6);
    }
    recover(ranks, 1u << 6, bytes, 2);

    /* It was killed when one rank had completed the next share; two others lose their storage. */
    MUST(pantile_ranks_encode(ranks, path, 9, &why) == PANTILE_OK, "%s", why.message);
    if (rank == 3)
        MUST(rename(share, unfinished) == 0, "rename");
    put(share, kept, kept_bytes);
    MUST(chmod(share, 0600) == 0, "chmod");
    lose(1u << 0 | 1u << 7);
    recover(ranks, 1u << 0 | 1u << 7, bytes, 2);

    /* Shares of another code. */
    other = open_code("raid6:6");
    refused(pantile_ranks_recover(other, path, NULL, &why), PANTILE_NOT_RECOVERABLE, &why,
            "no rank has a whole share");
    pantile_ranks_free(other);
    recover(ranks, 0, bytes, 2);
    free(old_share);
    free(old_data);
    pantile_ranks_free(ranks);
}

/* One rank's fault is the error of all. */
static void errors(size_t bytes)
{
    char new_data[4200];
    pantile_ranks *ranks;
    pantile_error why;
    refused(pantile_ranks_new(MPI_COMM_WORLD, "rs:4+2", &ranks, &why), PANTILE_BAD_ARGUMENT, &why,
            "rs:4+2 has 6 columns, and the communicator has 8 ranks");
    MUST(ranks == NULL, "a handle");
    refused(pantile_ranks_new(MPI_COMM_WORLD, rank == 4 ? "no-code" : "rs:6+2", &ranks, &why),
            PANTILE_BAD_CODE, &why, "rank 4: ");
    refused(pantile_ranks_new(MPI_COMM_WORLD, rank == 4 ? "rs:5+3" : "rs:6+2", &ranks, &why),
            PANTILE_BAD_ARGUMENT, &why, "not the same on all ranks");
    ranks = open_code("rs:6+2");
    encode(ranks, bytes, 1);
    if (rank == 5)
        unlink(path);
    refused(pantile_ranks_encode(ranks, path, 2, &why), PANTILE_IO, &why, "rank 5: ");
    recover(ranks, 1u << 5, bytes, 1);
    refused(pantile_ranks_encode(ranks, rank == 1 ? NULL : path, 2, &why), PANTILE_BAD_ARGUMENT,
            &why, "rank 1: ");
    refused(pantile_ranks_encode(ranks, path, rank == 1 ? 3 : 2, &why), PANTILE_BAD_ARGUMENT, &why,
            "the generation");
    refused(pantile_ranks_recover(ranks, rank == 2 ? "/nowhere/file" : path, NULL, &why),
            PANTILE_IO, &why, "rank 2: /nowhere/file");
    recover(ranks, 0, bytes, 1);

    /* One rank cannot write: the others leave no temporary file. */
    if (rank == 1)
        MUST(mkdir(unfinished, 0700) == 0, "mkdir");
    refused(pantile_ranks_encode(ranks, path, 2, &why), PANTILE_IO, &why, "rank 1: ");
    if (rank == 1)
        rmdir(unfinished);
    snprintf(new_data, sizeof new_data, "%s.pantile.data", path);
    lose(1u << 3 | 1u << 6);
    if (rank == 6)
        MUST(mkdir(new_data, 0700) == 0, "mkdir");
    refused(pantile_ranks_recover(ranks, path, NULL, &why), PANTILE_IO, &why, "rank 6: ");
    if (rank == 6)
        rmdir(new_data);
    MUST(access(unfinished, F_OK) != 0 && access(new_data, F_OK) != 0, "a temporary file is left");
    recover(ranks, 1u << 3 | 1u << 6, bytes, 1);
    pantile_ranks_free(ranks);
}

/* The fewest bytes: k + m - 1 columns for a stripe, and for a rebuild what the plan reads. */
static void traffic(const char *spec, size_t lost_sixths)
{
    enum { COLUMN = 4032, BYTES = 6 * COLUMN };
    pantile_ranks *ranks = open_code(spec);
    uint64_t before, after, all;
    encode(ranks, BYTES, 3);
    pantile_ranks_traffic(ranks, NULL, &before);
    MUST(before == 7 * COLUMN, "%d bytes for a share", (int)before);
    lose(1u << 3);
    recover(ranks, 1u << 3, BYTES, 3);
    pantile_ranks_traffic(ranks, NULL, &after);
    after -= before;
    MPI_Allreduce(&after, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    MUST(all == RANKS * lost_sixths * COLUMN / 6, "%d bytes for a lost rank", (int)all);
    pantile_ranks_free(ranks);
}

static void known_checksum(void)
{
    pantile_ranks *ranks = open_code("raid5:7");
    pantile_error why;
    uint64_t of_rank_0;
    put(path, "123456789", 9);
    MUST(pantile_ranks_encode(ranks, path, 1, &why) == PANTILE_OK, "%s", why.message);
    free(kept);
    kept = get(share, &kept_bytes);
    memcpy(&of_rank_0, kept + 7 * sizeof of_rank_0, sizeof of_rank_0);
    MUST(of_rank_0 == UINT64_C(0x995dc9bbdf1939fa), "not CRC-64/XZ");
    pantile_ranks_free(ranks);
}

static void die(int signal)
{
    (void)signal;
    kill(getpid(), SIGKILL);
}

/* Protects the same data in one generation after another; rank 0 prints those that have ended. */
static void protect_until_killed(size_t bytes, long microseconds)
{
    pantile_ranks *ranks = open_code("rs:6+2");
    pantile_error why;
    struct itimerval at = {.it_value = {microseconds / 1000000, microseconds % 1000000}};
    encode(ranks, bytes, 1);
    signal(SIGALRM, die);
    MUST(rank != 5 || setitimer(ITIMER_REAL, &at, NULL) == 0, "a timer");
    for (uint64_t generation = 2;; generation++) {
        MUST(pantile_ranks_encode(ranks, path, generation, &why) == PANTILE_OK, "%s", why.message);
        if (rank == 0)
            printf("%d\n", (int)generation);
        fflush(stdout);
    }
}

static void recover_after(size_t bytes, uint64_t generation)
{
    pantile_ranks *ranks = open_code("rs:6+2");
    pantile_ranks_recovered done;
    pantile_error why;
    size_t count;
    char *made = content(bytes, 1), *found;
    MUST(pantile_ranks_recover(ranks, path, &done, &why) == PANTILE_OK, "%s", why.message);
    found = get(path, &count);
    MUST(count == bytes && memcmp(made, found, bytes) == 0, "other data");
    MUST(done.generation >= generation, "generation %d", (int)done.generation);
    free(made);
    free(found);
    pantile_ranks_free(ranks);
}

int main(int argc, char **argv)
{
    static const unsigned pairs[] = {0x81, 0x06, 0x28, 0}, threes[] = {0x83, 0x52, 0x0d, 0},
                          one[] = {0x10, 0x01, 0};
    int count;
    size_t bytes;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &count);
    MUST((argc == 2 || argc == 4) && count == RANKS, "the arguments");
    snprintf(path, sizeof path, "%s/rank.%d", argv[1], rank);
    mkdir(path, 0700);
    strcat(path, "/checkpoint");
    snprintf(share, sizeof share, "%s.pantile", path);
    snprintf(unfinished, sizeof unfinished, "%s.pantile.new", path);

    /* Ranks have different lengths, and one has none. */
    bytes = (size_t)rank * 1777 + (rank == 6 ? 5000 : 0);
    if (argc == 4 && strcmp(argv[2], "killed") == 0)
        protect_until_killed(bytes, strtol(argv[3], NULL, 10));
    if (argc == 4) {
        recover_after(bytes, strtoull(argv[3], NULL, 10));
        MPI_Finalize();
        return 0;
    }
    losses("raid6:6", bytes, 1, NULL);
    losses("rs:5+3", bytes, 0, threes);
    losses("lrc:4,2,2", bytes, 0, threes);
    losses("shec:5,3,c=2", bytes, 0, pairs);
    losses("clay:6,2,7", bytes, 0, pairs);
    losses("dcode:8", bytes, 0, pairs);
    losses("raid5:7", bytes, 0, one);
    /* More than a window: 1 MiB of a column. */
    losses("rs:6+2", rank == 1 ? ((size_t)13 << 20) + 1 : bytes, 0, pairs);
    losses("rs:6+2", 0, 0, pairs);
    losses("rs:6+2", rank == 7, 0, pairs);
    wrong_shares((size_t)rank * 999 + 500);
    errors(bytes);
    traffic("rs:6+2", 36);
    traffic("clay:6,2,7", 21);
    known_checksum();
    if (rank == 0)
        printf("every loss came back\n");
    free(kept);
    MPI_Finalize();
    return 0;
}
