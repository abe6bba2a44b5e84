/* pantile_ranks.h - any code of Pantile across the ranks of an MPI communicator: each rank keeps
 * its checkpoint and a share of the parity, and what lost ranks had comes back from the others.
 *
 * A rank has a file of any length, zero included, in storage that no other rank loses with it. The
 * code has one column for each rank (rs:6+2 for 8 ranks). There are as many stripes as ranks, and
 * rank r has column (r + s) % ranks of stripe s: every rank stores all its data, in place, and the
 * same share of parity, in a file beside it: PATH.pantile. The communicator names the group: split
 * a large one so that the ranks of a group are on different nodes (MPI_Comm_split).
 *
 * NETWORK   Each rank computes one stripe, as its hub: a stripe of k + m columns costs k + m - 1
 *           columns sent, the fewest that can connect them. A rebuild sends what the code's
 *           cheapest plan reads; its hub is the rank for which the fewest bytes move, and such
 *           ranks take turns.
 * ERRORS    Every call but _traffic is collective, and every rank gets the same status and message:
 *           those of the first rank that failed. Errors of MPI go to the handler of the
 *           communicator, which ends the program unless the caller has set another one.
 * FILES     Mode 0600, written under a temporary name, synced, and renamed once all ranks have
 *           theirs: PATH.pantile.new and PATH.pantile.data. A complete share under the first name
 *           counts, so that a crash between the renames of the ranks loses nothing.
 * SHARES    A share names its code, ranks, generation, and length and checksum (CRC-64/XZ) of all
 *           data and parities. A rank with a torn, changed or older share or data counts as lost.
 *           No checksum resists a forger.
 * MEMORY    About 64 MiB for a rank, and 4 KiB for each cell of all stripes if that is more. If the
 *           system has none left, the process is ended.
 * RANKS     All use one build of libpantile and one byte order, and one thread at a time.
 *
 * Build: pantile_ranks.c is compiled with the program: mpicc program.c pantile_ranks.c
 * $(pkg-config --cflags --libs pantile).
 */
#ifndef PANTILE_RANKS_H
#define PANTILE_RANKS_H

#include <mpi.h>
#include <pantile.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A communicator with a code across its ranks. */
typedef struct pantile_ranks pantile_ranks;

/* Makes a handle of a duplicate of `comm`, for a code with as many columns as it has ranks. */
pantile_status pantile_ranks_new(MPI_Comm comm, const char *spec, pantile_ranks **ranks,
                                 pantile_error *error);

/* Gives a handle back; NULL is fine. Collective, as MPI_Comm_free is. */
void pantile_ranks_free(pantile_ranks *ranks);

/* Writes the share of every rank for the file that each has at its own `path`, of a generation that
 * is the same on all ranks. The data are read and synced, never written, and must not change
 * meanwhile.
 *
 * After an error the shares of before are there. Data of another generation want another path, or
 * those of before cannot be recovered once they are replaced. */
pantile_status pantile_ranks_encode(pantile_ranks *ranks, const char *path, uint64_t generation,
                                    pantile_error *error);

/* The result of a recovery, the same on all ranks. */
typedef struct pantile_ranks_recovered {
    /* The generation that all ranks have now. */
    uint64_t generation;
    /* The ranks whose data and share were rebuilt, ascending. */
    size_t lost_count;
    int lost[PANTILE_COLUMNS_MOST];
} pantile_ranks_recovered;

/* Rebuilds the data and share of every rank that has not both of them whole, for the newest
 * generation that enough ranks have. `recovered` may be NULL.
 *
 * A rank whose storage is gone gives the path where its file shall be, in a folder that exists. A
 * file of another generation there is replaced. Errors: PANTILE_NOT_RECOVERABLE, with the ranks
 * that are lost; nothing was replaced then, nor after other errors before the renames. */
pantile_status pantile_ranks_recover(pantile_ranks *ranks, const char *path,
                                     pantile_ranks_recovered *recovered, pantile_error *error);

/* The bytes that this rank gave to MPI for other ranks, and the share of these that were content of
 * checkpoints or parity, since _new. Pointers may be NULL. */
void pantile_ranks_traffic(const pantile_ranks *ranks, uint64_t *sent, uint64_t *content);

#ifdef __cplusplus
}
#endif

#endif
