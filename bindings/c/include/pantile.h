/* pantile.h - erasure codes as values: encode, reconstruct, update, check, locate, plan, prove;
 * streams of any length, chunks of other systems; and epochs of delayed parity in a served volume.
 *
 * A code says how many columns a stripe has and which equations its cells satisfy. A column is
 * what one device stores: `rows` elements one behind the other, each of `element_bytes` bytes.
 * Most codes (rs, raid6, cauchy, lrc, shec) have one row, so a column is one element. A stripe is
 * handed over as an array of pointers, one per column, in the order of the code: pointer c points
 * to rows(c) * element_bytes bytes. Equations hold byte by byte, so any element length is possible
 * and any range of bytes that is the same in all elements is a stripe by itself.
 *
 *     pantile_code *code;
 *     pantile_codec *codec;
 *     pantile_error why;
 *     if (pantile_code_parse("rs:4+2", &code, &why) != PANTILE_OK) return complain(why.message);
 *     if (pantile_codec_new(code, NULL, &codec, &why) != PANTILE_OK) return complain(why.message);
 *     pantile_encode(codec, columns, 6, 65536, &why);
 *
 * UNITS     Every length is in bytes, as size_t: stripes beyond 4 GiB are fine. Columns, rows,
 *           cells, equations and positions count from 0.
 * ERRORS    Every call returns PANTILE_OK or another status. A pantile_error, which may be NULL,
 *           gets a message of one line. After an error nothing was written, unless the call is
 *           documented otherwise; PANTILE_PANIC is a fault of the library, after which the content
 *           of the bytes to be written is unknown. A call that makes a handle sets it to NULL if it
 *           fails. The library keeps no error of its own: there is no errno here.
 * MEMORY    Buffers are the caller's, before and after. Handles are made by *_new, *_parse and
 *           *_from_text and given back with *_free, which takes NULL. Encoding, reconstructing,
 *           updating and verifying allocate nothing once a thread has seen the pattern of losses;
 *           docs/c.md says what a thread and a codec keep. If the system has no memory left, the
 *           process is ended.
 * LISTS     Calls that give a list or a text take the room there is, and always say in *need how
 *           many entries (or bytes, with the zero at the end) there are. With too little room,
 *           and so with NULL and 0 to ask for the size, they return PANTILE_TOO_SMALL and write
 *           no entry.
 * STRINGS   UTF-8. Input ends with a zero byte, or has its length beside it.
 * OVERLAP   Buffers that are written overlap no other buffer and no list of the call; that is
 *           checked. Numbers, lists and errors of the call are written outside of these; that is
 *           not checked. Buffers that are only read may overlap, may be in read-only memory, and
 *           may be read by other threads at the same time. Bytes need no alignment; 64 bytes are
 *           fastest. Lists, structures and results are aligned as C aligns their types.
 * THREADS   Handles never change and may be used by any number of threads at the same time; calls
 *           with one epoch wait for each other. Only *_free must be the last use. There is no
 *           state beside handles that a caller can see.
 * FORK      A child may use everything, if no other thread was inside a call when it was forked. An
 *           epoch stays open while a child that has it lives.
 */
#ifndef PANTILE_H
#define PANTILE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header; pantile_version() is that of the library. Within one soname
 * (libpantile.so.0) functions and fields are added, never changed. */
#define PANTILE_VERSION "0.1.0"

/* No code has more columns. */
#define PANTILE_COLUMNS_MOST 258

/* No more of them can be located. */
#define PANTILE_LOCATED_MOST 129

/* Bytes of a message, with the zero at the end; longer ones are cut at a character. */
#define PANTILE_MESSAGE_BYTES 1024

/* "No offset", the user position of a cell of parity, and the usual cache_bytes. */
#define PANTILE_NONE SIZE_MAX

/* ------------------------------------------------------------------------------------- errors */

/* The status of a call. */
typedef enum pantile_status {
    PANTILE_OK = 0,
    /* A pointer is NULL that must not be. */
    PANTILE_NULL_POINTER = 1,
    /* A count, a length, a number or an option is out of range. */
    PANTILE_BAD_ARGUMENT = 2,
    /* Memory that is written overlaps other memory of the call. */
    PANTILE_OVERLAP = 3,
    /* The text is not a code, or not UTF-8. */
    PANTILE_BAD_CODE = 4,
    /* Reading a code file costs more than was allowed. */
    PANTILE_TOO_MUCH_WORK = 5,
    /* Too much is lost: the code cannot recover the wanted columns. */
    PANTILE_NOT_RECOVERABLE = 6,
    /* The list or text has more entries than there is room for; *need says how many. */
    PANTILE_TOO_SMALL = 7,
    /* The code is here to be studied, and must not store. */
    PANTILE_STUDY_ONLY = 8,
    /* So much is absent that no equation is left to check the rest. */
    PANTILE_NOTHING_TO_CHECK = 9,
    /* A fault of the library. */
    PANTILE_PANIC = 10,
    /* Nothing serves the volume, or its sockets cannot be reached. */
    PANTILE_NOT_SERVED = 11,
    /* The volume refuses to begin an epoch. */
    PANTILE_REFUSED = 12,
    /* The epoch has ended: by its policy after a silence, or by an order. */
    PANTILE_EPOCH_OVER = 13,
    /* A device was lost with data of the epoch that had no parity yet. */
    PANTILE_EPOCH_LOST = 14,
    /* The server of the volume has gone or does not answer. */
    PANTILE_SERVER_GONE = 15,
    /* A stream cannot be read or written, or ends too soon. */
    PANTILE_IO = 16,
    /* Shards do not fit one another, and the wrong one cannot be located with certainty. */
    PANTILE_NOT_LOCATED = 17
} pantile_status;

/* Why a call failed: the same as it returned, and a sentence. After PANTILE_OK the message is
 * empty. */
typedef struct pantile_error {
    pantile_status status;
    char message[PANTILE_MESSAGE_BYTES];
} pantile_error;

/* The version of the library, such as "0.1.0". Never NULL. */
const char *pantile_version(void);

/* The name of a status, such as "PANTILE_OVERLAP"; "unknown" for other numbers. Never NULL. */
const char *pantile_status_name(int status);

/* -------------------------------------------------------------------------------------- codes */

/* A code: shape and equations. */
typedef struct pantile_code pantile_code;

/* The shape and the claim of a code. The caller sets struct_bytes to sizeof(pantile_shape). */
typedef struct pantile_shape {
    size_t struct_bytes;
    /* Columns, and cells of all of them. */
    size_t columns;
    size_t cells;
    /* Cells that hold user data, and cells that hold parity. */
    size_t data_cells;
    size_t parity_cells;
    size_t equations;
    /* The most cells of a column; 1 if columns are elements. */
    size_t rows_most;
    /* Any set of this many columns can be lost. */
    size_t tolerance;
    /* Equal codes have equal fingerprints. It does not resist a forger. */
    uint64_t fingerprint;
    /* 1 if no code survives more losses with this redundancy; else 0. */
    int is_mds;
    /* 1 if every coefficient is 1; else 0. */
    int is_xor;
    /* 0 if it is here to be studied only, else 1. */
    int may_store;
    /* The version of the construction: equations behind spec and version never change. */
    uint32_t version;
} pantile_shape;

/* A cell of a code. Cells are numbered column by column, each from row 0. */
typedef struct pantile_cell {
    size_t column;
    size_t row;
    /* Its place in user order; PANTILE_NONE if it holds parity. */
    size_t position;
} pantile_cell;

/* Coefficient times cell, over GF(2^8) with the polynomial 0x11d. */
typedef struct pantile_term {
    size_t cell;
    uint8_t coefficient;
} pantile_term;

/* The code that a spec names, such as "rs:10+4", "raid6:8", "dcode:7", "lrc:12,2,2".
 * Cost: well below a millisecond for usual codes, a tenth of a second for the largest. */
pantile_status pantile_code_parse(const char *spec, pantile_code **code, pantile_error *error);

/* The code that a code file defines, of text_bytes bytes (docs/code-files.md). The text need not
 * be trusted: solving its equations takes at most `steps` steps of about a microsecond, after which
 * PANTILE_TOO_MUCH_WORK says how many suffice; 0 stands for 1,000,000. Limits: 4 MiB of text, 258
 * columns, 65,536 cells. */
pantile_status pantile_code_from_text(const char *text, size_t text_bytes, uint64_t steps,
                                      pantile_code **code, pantile_error *error);

/* Gives a code back; NULL is fine. Codecs and plans that were made of it stay valid. */
void pantile_code_free(pantile_code *code);

/* The code as a code file, that pantile_code_from_text reads: a text with its zero. */
pantile_status pantile_code_text(const pantile_code *code, char *text, size_t room, size_t *need,
                                 pantile_error *error);

/* The canonical spec: a text with its zero. That of a code file identifies, and does not define. */
pantile_status pantile_code_spec(const pantile_code *code, char *text, size_t room, size_t *need,
                                 pantile_error *error);

/* Fills in the shape. */
pantile_status pantile_code_shape(const pantile_code *code, pantile_shape *shape,
                                  pantile_error *error);

/* The rows of a column: a column of a stripe has rows * element_bytes bytes. */
pantile_status pantile_code_rows(const pantile_code *code, size_t column, size_t *rows,
                                 pantile_error *error);

/* The place of a cell, and its kind. */
pantile_status pantile_code_cell(const pantile_code *code, size_t cell, pantile_cell *place,
                                 pantile_error *error);

/* The cells of user data, in user order. */
pantile_status pantile_code_data(const pantile_code *code, size_t *cells, size_t room, size_t *need,
                                 pantile_error *error);

/* The terms of an equation, ascending by cell: their sum is zero. */
pantile_status pantile_code_equation(const pantile_code *code, size_t equation,
                                     pantile_term *terms, size_t room, size_t *need,
                                     pantile_error *error);

/* The name of an equation in drawings, such as "3" or "B": a text with its zero. */
pantile_status pantile_code_label(const pantile_code *code, size_t equation, char *text,
                                  size_t room, size_t *need, pantile_error *error);

/* All sets of a number of lost columns. */
typedef struct pantile_level {
    size_t lost;
    /* How many sets there are, how many were looked at, and how many of these survive. */
    uint64_t sets;
    uint64_t looked_at;
    uint64_t survived;
    /* 1 if the level was counted; 0 if sets were drawn at random. */
    int is_exact;
} pantile_level;

/* How far a proof goes. The caller sets struct_bytes to sizeof(pantile_prove_options); in every
 * other field 0 stands for the default. */
typedef struct pantile_prove_options {
    size_t struct_bytes;
    /* The most columns lost; by default until no set survives. */
    size_t lost_most;
    /* Threads; usually 1, at most 1024, and fewer where the system has no more. The answer does not
     * depend on it. */
    size_t threads;
    /* Steps of about a nanosecond for each level; usually 20,000,000,000. */
    uint64_t work_most;
} pantile_prove_options;

/* Counts which losses of columns are survivable, level by level, from one column on.
 *
 * *tolerance (or NULL): any set of this many columns can be lost, proved. `fatal` (or NULL) gets
 * the columns of one smallest fatal set, ascending, if it has room, and *fatal_need their number, 0
 * if none was met. Too little room for either list is PANTILE_TOO_SMALL, and *tolerance is right
 * all the same; room for as many entries as the code has columns always suffices, so that nothing
 * is proved twice. Options may be NULL. Cost: up to minutes for wide codes of large tolerance;
 * work_most bounds it: levels that cost more are sampled, and prove nothing. A call cannot be
 * ended early. */
pantile_status pantile_prove(const pantile_code *code, const pantile_prove_options *options,
                             size_t *tolerance, pantile_level *levels, size_t room, size_t *need,
                             size_t *fatal, size_t fatal_room, size_t *fatal_need,
                             pantile_error *error);

/* ------------------------------------------------------------------------------ moving bytes */

/* A code ready for bytes, with the programs kept for patterns of losses. */
typedef struct pantile_codec pantile_codec;

/* How results are stored. */
typedef enum pantile_stores {
    /* As the size of the stripe suggests. */
    PANTILE_STORES_AUTO = 0,
    /* Through the caches: for results that are read again at once. */
    PANTILE_STORES_CACHED = 1,
    /* Past the caches: for results that go to a device. */
    PANTILE_STORES_STREAMING = 2
} pantile_stores;

/* How a codec works. The caller sets struct_bytes to sizeof(pantile_codec_options). */
typedef struct pantile_codec_options {
    size_t struct_bytes;
    /* The bound, in bytes, of each of four caches of programs for patterns of losses:
     * reconstructions, more of these, plans, checks. PANTILE_NONE stands for 16 MiB. */
    size_t cache_bytes;
    pantile_stores stores;
} pantile_codec_options;

/* A codec for a code. Options may be NULL.
 * Errors: PANTILE_STUDY_ONLY. Cost: below a millisecond; programs are made when first used. */
pantile_status pantile_codec_new(const pantile_code *code, const pantile_codec_options *options,
                                 pantile_codec **codec, pantile_error *error);

/* Gives a codec back; NULL is fine. Plans that were made of it stay valid. */
void pantile_codec_free(pantile_codec *codec);

/* Computes all parity of a stripe from its data.
 *
 * Cells of data are read, cells of parity are written. The columns of codes that have data and
 * parity in one column (dcode, xcode) are written in part. */
pantile_status pantile_encode(const pantile_codec *codec, void *const *columns,
                              size_t column_count, size_t element_bytes, pantile_error *error);

/* The state of a column when others are rebuilt. */
typedef enum pantile_column_state {
    /* Lost, and not wanted: its pointer is not read. */
    PANTILE_COLUMN_ABSENT = 0,
    /* There: read, if it is needed, and never written. */
    PANTILE_COLUMN_PRESENT = 1,
    /* Lost and wanted: its buffer is written. */
    PANTILE_COLUMN_WANTED = 2
} pantile_column_state;

/* Rebuilds the wanted columns from the others; `states` has a pantile_column_state per column.
 *
 * Reads the columns that are fastest to compute with. For the fewest reads see pantile_plan_new.
 * Errors: PANTILE_NOT_RECOVERABLE. Cost: the first call for a pattern plans for microseconds to
 * some milliseconds; later ones find the plan without a lock. */
pantile_status pantile_reconstruct(const pantile_codec *codec, void *const *columns,
                                   size_t column_count, size_t element_bytes,
                                   const uint8_t *states, pantile_error *error);

/* A small write: replaces `bytes` bytes at `offset` of the element at a user position, and keeps
 * all parity true.
 *
 * The stripe was true before. The columns of that element and of the parities that it reaches are
 * needed, others may be NULL. Two writes to one stripe must not run at the same time. */
pantile_status pantile_update(const pantile_codec *codec, void *const *columns,
                              size_t column_count, size_t element_bytes, size_t position,
                              size_t offset, const void *new_content, size_t bytes,
                              pantile_error *error);

/* As pantile_update, for parities stored apart from data: `change` is old content xor new
 * content, the data are not touched. A parity column that is NULL is left out, so that each keeper
 * of a parity updates its own: at least one that the element reaches must be there. */
pantile_status pantile_update_parity(const pantile_codec *codec, void *const *columns,
                                     size_t column_count, size_t element_bytes, size_t position,
                                     size_t offset, const void *change, size_t bytes,
                                     pantile_error *error);

/* Checks if a stripe satisfies its equations; a column that is NULL is absent.
 *
 * *fault is the first offset within an element at which it does not, or PANTILE_NONE.
 * Errors: PANTILE_NOTHING_TO_CHECK. Cost: as encoding. */
pantile_status pantile_verify(const pantile_codec *codec, const void *const *columns,
                              size_t column_count, size_t element_bytes, size_t *fault,
                              pantile_error *error);

/* The finding on bytes that fail a check. */
typedef enum pantile_verdict {
    /* These columns, and no others, explain every byte. */
    PANTILE_LOCATED = 0,
    /* Others would explain it as well: the columns are one of the explanations. */
    PANTILE_AMBIGUOUS = 1,
    /* No set of columns small enough explains it, or the search was cut short. */
    PANTILE_UNLOCATABLE = 2
} pantile_verdict;

/* A byte range, the same in every element, in which a stripe does not satisfy its equations. */
typedef struct pantile_finding {
    /* Its place within an element. */
    size_t offset;
    size_t bytes;
    pantile_verdict verdict;
    /* A larger error looks so less than once in 2 to this power. */
    uint32_t evidence_bits;
    /* 1 if that is less than once in 2^40, for all that is wrong in the stripe; else 0. */
    int is_certain;
    /* The columns that are wrong, ascending. */
    uint16_t column_count;
    uint16_t columns[PANTILE_LOCATED_MOST];
} pantile_finding;

/* Which columns lie, without checksums: a list of findings, empty if the stripe is true. A column
 * that is NULL is absent. Allocates. Errors: PANTILE_NOTHING_TO_CHECK. */
pantile_status pantile_locate(const pantile_codec *codec, const void *const *columns,
                              size_t column_count, size_t element_bytes,
                              pantile_finding *findings, size_t room, size_t *need,
                              pantile_error *error);

/* Corrects the certain findings of pantile_locate, after checking them again; the same columns
 * must be NULL. *corrected (or NULL) gets the bytes of an element that were corrected.
 * No other thread may read the columns meanwhile. Allocates. */
pantile_status pantile_correct(const pantile_codec *codec, void *const *columns,
                               size_t column_count, size_t element_bytes,
                               const pantile_finding *findings, size_t finding_count,
                               size_t *corrected, pantile_error *error);

/* ------------------------------------------------------------------------------ whole objects */

/* The least element_bytes with which one stripe holds data_bytes bytes; at least 1. */
pantile_status pantile_split_bytes(const pantile_codec *codec, size_t data_bytes,
                                   size_t *element_bytes, pantile_error *error);

/* Splits data into the columns of a stripe in user order, zeros behind it, parity included. */
pantile_status pantile_split(const pantile_codec *codec, const void *data, size_t data_bytes,
                             void *const *columns, size_t column_count, size_t element_bytes,
                             pantile_error *error);

/* Puts data together again. Columns without data may be NULL. Parity is not looked at. */
pantile_status pantile_join(const pantile_codec *codec, const void *const *columns,
                            size_t column_count, size_t element_bytes, void *data,
                            size_t data_bytes, pantile_error *error);

/* ------------------------------------------------------------------------------------ streams */

/* A stream is a descriptor: of a file, a pipe or a socket, that blocks. It is read or written from
 * its position on, and stays open. Every list has a descriptor for each column, and a negative one
 * where there is none: what open() gave for a lost shard. Memory: one stripe of element_bytes for
 * each cell, or of the chunks. After an error earlier output stays, which is right if shards are
 * checked. A write to a closed pipe raises SIGPIPE, as always.
 *
 * Shards that are read are checked against each other, stripe by stripe and before their data are
 * written, as far as more are there than decoding needs. One that is wrong is computed from the
 * others, and named. Errors: PANTILE_IO, which includes a shard that ends too soon;
 * PANTILE_NOT_RECOVERABLE; PANTILE_NOT_LOCATED. */

/* The treatment of shards that do not fit one another. */
typedef enum pantile_check {
    /* What is located with certainty is computed from the others; else PANTILE_NOT_LOCATED. */
    PANTILE_CHECK_CERTAIN = 0,
    /* What is located with some probability, too: a guess. */
    PANTILE_CHECK_PROBABLE = 1,
    /* No check, and only the shards that decoding needs are read: for callers with checksums. */
    PANTILE_CHECK_OFF = 2
} pantile_check;

/* A shard that was wrong, and was computed from the others. */
typedef struct pantile_wrong_column {
    size_t column;
    /* The offset of its first wrong byte, and the number of its wrong bytes. */
    uint64_t first;
    uint64_t bytes;
} pantile_wrong_column;

/* The result of reading shards. */
typedef struct pantile_checked {
    /* 1 if every shard that was read is in some equation that could be checked; else 0. */
    int is_complete;
    /* Of the verifications: how many stripes have an error that is not located, and the offset in
     * each shard of the first of them, or UINT64_MAX. */
    uint64_t doubts;
    uint64_t first_doubt;
    /* The shards that were wrong, ascending. */
    size_t wrong_count;
    pantile_wrong_column wrong[PANTILE_COLUMNS_MOST];
} pantile_checked;

/* Encodes data to their end: shard c gets column c of stripe after stripe. *data_bytes (or NULL)
 * is the length of the data, which decoding needs. The last stripe is filled up with zeros. */
pantile_status pantile_encode_stream(const pantile_codec *codec, int data, const int *shards,
                                     size_t column_count, size_t element_bytes,
                                     uint64_t *data_bytes, pantile_error *error);

/* Decodes shards to data_bytes bytes of data. `checked` may be NULL. */
pantile_status pantile_decode_stream(const pantile_codec *codec, const int *shards,
                                     size_t column_count, size_t element_bytes, int data,
                                     uint64_t data_bytes, pantile_check check,
                                     pantile_checked *checked, pantile_error *error);

/* Computes the shards that have a descriptor in `rebuilt`, lost or wrong, as they were encoded. */
pantile_status pantile_rebuild_stream(const pantile_codec *codec, const int *shards,
                                      const int *rebuilt, size_t column_count,
                                      size_t element_bytes, uint64_t data_bytes,
                                      pantile_check check, pantile_checked *checked,
                                      pantile_error *error);

/* Reads all shards that are there: *checked (or NULL) names those that are wrong, and counts the
 * errors that are not located, which end no verification. */
pantile_status pantile_verify_stream(const pantile_codec *codec, const int *shards,
                                     size_t column_count, size_t element_bytes,
                                     uint64_t data_bytes, pantile_checked *checked,
                                     pantile_error *error);

/* -------------------------------------------------------------------- chunks of other systems */

/* How another system cuts data into chunks, byte for byte: Ceph, HDFS, ISA-L, .. */
typedef struct pantile_chunks pantile_chunks;

/* The chunks of a profile, a name that docs/chunks.md lists: "ceph:plugin=isa k=4 m=2",
 * "hdfs:RS-6-3-1024k", "klauspost:RS(10,4)". chunk_bytes is the length of a chunk in one stripe; 0
 * for that of the system. Errors: PANTILE_BAD_CODE; PANTILE_BAD_ARGUMENT, if the system has no
 * such length or a stripe takes more than 1 GiB. */
pantile_status pantile_chunks_new(const char *profile, size_t chunk_bytes, pantile_chunks **chunks,
                                  pantile_error *error);

/* Gives chunks back; NULL is fine. */
void pantile_chunks_free(pantile_chunks *chunks);

/* The code, a handle of its own: its columns are the chunks. */
pantile_status pantile_chunks_code(const pantile_chunks *chunks, pantile_code **code,
                                   pantile_error *error);

/* The length of the whole chunk of a column, for data_bytes bytes of data. */
pantile_status pantile_chunks_bytes(const pantile_chunks *chunks, size_t column,
                                    uint64_t data_bytes, uint64_t *bytes, pantile_error *error);

/* As pantile_encode_stream, _decode_stream, _rebuild_stream and _verify_stream. Where chunks are
 * pieces of the whole data (ISA-L, Jerasure, klauspost, SeaweedFS), the data are a file, and are
 * all of it from byte 0; PANTILE_BAD_ARGUMENT for a pipe. Encoding: also PANTILE_STUDY_ONLY. */
pantile_status pantile_chunks_encode(const pantile_chunks *chunks, int data, const int *files,
                                     size_t column_count, uint64_t *data_bytes,
                                     pantile_error *error);
pantile_status pantile_chunks_decode(const pantile_chunks *chunks, const int *files,
                                     size_t column_count, int data, uint64_t data_bytes,
                                     pantile_check check, pantile_checked *checked,
                                     pantile_error *error);
pantile_status pantile_chunks_rebuild(const pantile_chunks *chunks, const int *files,
                                      const int *rebuilt, size_t column_count,
                                      uint64_t data_bytes, pantile_check check,
                                      pantile_checked *checked, pantile_error *error);
pantile_status pantile_chunks_verify(const pantile_chunks *chunks, const int *files,
                                     size_t column_count, uint64_t data_bytes,
                                     pantile_checked *checked, pantile_error *error);

/* ------------------------------------------------------------------------------ cheapest reads */

/* The reads for some ranges of columns while others are lost, and the computation from them. */
typedef struct pantile_plan pantile_plan;

/* Bytes of a column. */
typedef struct pantile_range {
    size_t column;
    size_t offset;
    size_t bytes;
} pantile_range;

/* Plans the cheapest reads for the wanted ranges of a stripe while `lost` columns cannot be read.
 *
 * `costs` has the cost of a byte of each column, 0 to 1,000,000, or is NULL for 1 each: give a
 * slow device a high cost. A wanted range of a column that is not lost is read, unless the others
 * yield it for less. Errors: PANTILE_NOT_RECOVERABLE. Limit: 1,024 ranges. Cost: microseconds for
 * codes of one row, up to some milliseconds for others; once for each pattern. */
pantile_status pantile_plan_new(const pantile_codec *codec, size_t element_bytes,
                                const size_t *lost, size_t lost_count, const pantile_range *wanted,
                                size_t wanted_count, const uint32_t *costs, size_t cost_count,
                                pantile_plan **plan, pantile_error *error);

/* Gives a plan back; NULL is fine. */
void pantile_plan_free(pantile_plan *plan);

/* The reads: ranges, ascending by column and offset, none of which touches another. */
pantile_status pantile_plan_reads(const pantile_plan *plan, pantile_range *reads, size_t room,
                                  size_t *need, pantile_error *error);

/* The sum of bytes times cost, and a proven lower bound: the plan is the cheapest if they are
 * equal. Either pointer may be NULL. */
pantile_status pantile_plan_cost(const pantile_plan *plan, uint64_t *cost, uint64_t *at_least,
                                 pantile_error *error);

/* Computes the wanted ranges in place.
 *
 * Pointer c is where byte 0 of column c is, or would be: only ranges that are read or wanted are
 * touched. Columns with neither may be NULL. Wanted ranges that are also read stay as they are. */
pantile_status pantile_plan_run(const pantile_plan *plan, void *const *columns,
                                size_t column_count, pantile_error *error);

/* ------------------------------------------------------------------- epochs of a served volume */

/* Delayed parity: between begin and end data go to the devices alone, the end writes the pending
 * parity and makes all of it count at once. Any number of processes write to the epoch, at the
 * offsets of the volume, by any NBD client and pantile_epoch_uri; other clients see the earlier
 * content until the end. Each process that writes flushes, and then one ends the epoch. */
typedef struct pantile_epoch pantile_epoch;

/* "However long", of pantile_epoch_options. */
#define PANTILE_NEVER UINT32_MAX

typedef struct pantile_epoch_options {
    size_t struct_bytes; /* sizeof(pantile_epoch_options) */
    /* The range, which becomes one of whole stripes; bytes 0 and offset 0: the volume. */
    uint64_t offset;
    uint64_t bytes;
    /* With more data pending, writers wait until some have their parity; 0: 256 MiB. */
    uint64_t pending_bytes_most;
    /* Seconds after which pending data get their parity; 0: 30, PANTILE_NEVER. */
    uint32_t age_most_s;
    /* Seconds without a request after which the epoch ends; 0: 300, PANTILE_NEVER. */
    uint32_t idle_most_s;
    /* How it ends then, and when its process dies: 0: aborted; other numbers: sealed. */
    int seals_when_idle;
} pantile_epoch_options;

/* Begins an epoch in the volume that 'pantile serve' serves from the folder `volume`; `options` may
 * be NULL. Waits for the server, as all calls here but _range, _uri and _free, at most 300 s.
 * Errors: PANTILE_NOT_SERVED, PANTILE_REFUSED (the range is not the volume's, or another epoch
 * holds a part), PANTILE_SERVER_GONE. */
pantile_status pantile_epoch_begin(const char *volume, const pantile_epoch_options *options,
                                   pantile_epoch **epoch, pantile_error *error);

/* Closes an epoch's connection; NULL is fine. One that is not ended ends by its policy. */
void pantile_epoch_free(pantile_epoch *epoch);

/* Its number and range. Pointers may be NULL. */
pantile_status pantile_epoch_range(const pantile_epoch *epoch, uint64_t *number, uint64_t *offset,
                                   uint64_t *bytes, pantile_error *error);

/* The URI of its export, for any number of NBD clients. Errors: PANTILE_NOT_SERVED, if the socket
 * of the NBD server is not in the folder. */
pantile_status pantile_epoch_uri(const pantile_epoch *epoch, char *uri, size_t room, size_t *need,
                                 pantile_error *error);

/* Writes pending parity and seals the epoch: all of it survives a crash and is seen by others.
 * Errors: PANTILE_EPOCH_LOST: the epoch is open, write the ranges of the message again and end it,
 * or abort it. PANTILE_EPOCH_OVER. PANTILE_SERVER_GONE: all of it counts or nothing. */
pantile_status pantile_epoch_end(const pantile_epoch *epoch, pantile_error *error);

/* Leaves everything as it was before the epoch. Errors: as pantile_epoch_end. */
pantile_status pantile_epoch_abort(const pantile_epoch *epoch, pantile_error *error);

#ifdef __cplusplus
}
#endif

#endif
