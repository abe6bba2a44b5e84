/* pantile_ranks.c - shares of parity across ranks; pantile_ranks.h says what they promise. */
#define _GNU_SOURCE
#include "pantile_ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* "PantRnk1" in the byte order of the machine. */
#define MAGIC UINT64_C(0x316b6e52746e6150)
#define BUFFERS_BYTES ((size_t)64 << 20)
#define WINDOW_LEAST ((size_t)4096)
#define TURNS_MOST 64

/* The words of a header. The table has those of each rank; then come the rank and a checksum. */
enum { AT_MAGIC, AT_FINGERPRINT, AT_RANKS, AT_GENERATION, AT_ELEMENT, AT_WINDOW, AT_TABLE };
enum { OF_LENGTH, OF_DATA, OF_PARITY, TABLE_WORDS };

/* A cell: its kind, and its number among those of this kind in its column. */
struct place {
    int is_parity;
    size_t index;
};

struct pantile_ranks {
    MPI_Comm comm;
    int rank, ranks;
    pantile_codec *codec;
    pantile_shape shape;
    /* The first cell of each column, and behind the last one the number of cells. */
    size_t *first;
    struct place *places;
    /* For each stripe the cells of data and of parity that this rank has in earlier stripes. */
    size_t (*before)[2];
    /* Of a header: words, and bytes. */
    size_t words, header_bytes;
    uint64_t sent, content;
    uint64_t crc[8][256];
};

/* The files of this rank in one call. */
struct files {
    const char *path;
    char share_name[PATH_MAX], new_share[PATH_MAX], new_data[PATH_MAX];
    int data, share;
    uint64_t data_bytes, element_bytes, window_bytes;
    pantile_error error;
};

/* ------------------------------------------------------------------------------------- errors */

/* Memory full of zeros; without it the process ends, as in libpantile. */
static void *room(size_t count, size_t bytes)
{
    void *memory = calloc(count + 1, bytes);
    if (memory == NULL) {
        fprintf(stderr, "pantile_ranks: no memory for %zu times %zu bytes\n", count, bytes);
        abort();
    }
    return memory;
}

static pantile_status set(pantile_error *error, pantile_status status, const char *what,
                          const char *why)
{
    if (error->status == PANTILE_OK) {
        error->status = status;
        snprintf(error->message, sizeof error->message, "%.500s: %.500s", what, why);
    }
    return status;
}

/* Gives every rank the error of the first one that has one, and its number if others have none:
 * collective. */
static pantile_status agree(MPI_Comm comm, uint64_t *sent, pantile_error *error)
{
    int rank, ranks, mine[2], least[2];
    char message[PANTILE_MESSAGE_BYTES];
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    mine[0] = error->status == PANTILE_OK ? ranks : rank;
    mine[1] = -mine[0];
    MPI_Allreduce(mine, least, 2, MPI_INT, MPI_MIN, comm);
    *sent += sizeof mine;
    if (least[0] == ranks)
        return PANTILE_OK;
    MPI_Bcast(error, (int)sizeof *error, MPI_BYTE, least[0], comm);
    if (rank == least[0])
        *sent += sizeof *error;
    memcpy(message, error->message, sizeof message);
    if (-least[1] == ranks)
        snprintf(error->message, sizeof error->message, "rank %d: %.*s", least[0],
                 PANTILE_MESSAGE_BYTES - 32, message);
    return error->status;
}

static pantile_status agreed(pantile_ranks *r, struct files *f)
{
    return agree(r->comm, &r->sent, &f->error);
}

/* Ends a call: what the caller sees of its error. */
static pantile_status answer(const pantile_error *error, pantile_error *out)
{
    if (out != NULL)
        *out = *error;
    return error->status;
}

static void gather(pantile_ranks *r, const uint64_t *mine, uint64_t *all, size_t words)
{
    MPI_Allgather(mine, (int)words, MPI_UINT64_T, all, (int)words, MPI_UINT64_T, r->comm);
    r->sent += words * sizeof *mine;
}

/* ----------------------------------------------------------------------------------- checksums */

/* CRC-64/XZ, eight bytes a step. */
static void make_crc(uint64_t (*crc)[256])
{
    for (int i = 0; i < 256; i++) {
        uint64_t v = (uint64_t)i;
        for (int bit = 0; bit < 8; bit++)
            v = v >> 1 ^ (v & 1 ? UINT64_C(0xc96c5795d7870f42) : 0);
        crc[0][i] = v;
    }
    for (int i = 0; i < 256; i++)
        for (int t = 1; t < 8; t++)
            crc[t][i] = crc[t - 1][i] >> 8 ^ crc[0][crc[t - 1][i] & 255];
}

static uint64_t sum(const pantile_ranks *r, uint64_t crc, const void *bytes, size_t count)
{
    const unsigned char *at = bytes;
    for (crc = ~crc; count >= 8; count -= 8, at += 8) {
        uint64_t next = 0;
        for (int t = 0; t < 8; t++)
            next ^= r->crc[7 - t][(crc >> 8 * t & 255) ^ at[t]];
        crc = next;
    }
    for (; count > 0; count--)
        crc = crc >> 8 ^ r->crc[0][(crc & 255) ^ *at++];
    return ~crc;
}

/* --------------------------------------------------------------------------------------- files */

/* Reads up to `count` bytes, fewer at the end of the file alone; -1 after an error. */
static ssize_t read_at(int fd, void *bytes, size_t count, uint64_t offset)
{
    size_t done = 0;
    while (done < count) {
        ssize_t got = pread(fd, (char *)bytes + done, count - done, (off_t)(offset + done));
        if (got == 0)
            break;
        if (got < 0 && errno != EINTR)
            return -1;
        done += got > 0 ? (size_t)got : 0;
    }
    return (ssize_t)done;
}

static int write_at(int fd, const void *bytes, size_t count, uint64_t offset)
{
    size_t done = 0;
    while (done < count) {
        ssize_t put = pwrite(fd, (const char *)bytes + done, count - done, (off_t)(offset + done));
        if (put < 0 && errno != EINTR)
            return -1;
        done += put > 0 ? (size_t)put : 0;
    }
    return 0;
}

/* The checksum of `count` bytes of a file; -1 if it cannot be read or is shorter. */
static int sum_of(const pantile_ranks *r, int fd, uint64_t offset, uint64_t count, uint64_t *crc)
{
    size_t most = (size_t)1 << 20;
    char *bytes = room(most, 1);
    int status = 0;
    *crc = 0;
    while (status == 0 && count > 0) {
        size_t some = count < most ? (size_t)count : most;
        if (read_at(fd, bytes, some, offset) != (ssize_t)some)
            status = -1;
        *crc = sum(r, *crc, bytes, some);
        offset += some;
        count -= some;
    }
    free(bytes);
    return status;
}

static void files_of(struct files *f, const char *path)
{
    memset(f, 0, sizeof *f);
    f->path = path == NULL ? "" : path;
    f->data = f->share = -1;
    if (f->path[0] == 0 || strlen(f->path) + sizeof ".pantile.data" > PATH_MAX) {
        set(&f->error, PANTILE_BAD_ARGUMENT, "the path", "empty or too long");
        f->path = "";
    }
    snprintf(f->share_name, PATH_MAX, "%s.pantile", f->path);
    snprintf(f->new_share, PATH_MAX, "%s.pantile.new", f->path);
    snprintf(f->new_data, PATH_MAX, "%s.pantile.data", f->path);
}

static void close_both(struct files *f)
{
    if (f->data >= 0)
        close(f->data);
    if (f->share >= 0)
        close(f->share);
    f->data = f->share = -1;
}

/* A new file that only its owner reads, in place of one that was left there. */
static int create(struct files *f, const char *name)
{
    int fd;
    unlink(name);
    fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        set(&f->error, PANTILE_IO, name, strerror(errno));
    return fd;
}

/* Syncs the folder of the files, so that renames last. */
static void sync_folder(struct files *f)
{
    char folder[PATH_MAX];
    char *slash;
    int fd;
    snprintf(folder, sizeof folder, "%s", f->path);
    slash = strrchr(folder, '/');
    if (slash == NULL)
        strcpy(folder, ".");
    else
        slash[slash == folder] = 0;
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0)
        set(&f->error, PANTILE_IO, folder, strerror(errno));
    if (fd >= 0)
        close(fd);
}

static void rename_to(struct files *f, const char *from, const char *to)
{
    if (f->error.status == PANTILE_OK && rename(from, to) != 0)
        set(&f->error, PANTILE_IO, to, strerror(errno));
}

/* Completes the new share of this rank: its header, and both files on the device. */
static void finish_share(const pantile_ranks *r, struct files *f, uint64_t *header)
{
    header[r->words - 2] = (uint64_t)r->rank;
    header[r->words - 1] = sum(r, 0, header, r->header_bytes - sizeof *header);
    if (write_at(f->share, header, r->header_bytes, 0) != 0 || fsync(f->share) != 0)
        set(&f->error, PANTILE_IO, f->new_share, strerror(errno));
}

static uint64_t windows_of(const struct files *f)
{
    return f->element_bytes == 0 ? 0 : f->element_bytes / f->window_bytes;
}

/* The bytes of parity of each rank. */
static uint64_t parity_bytes(const pantile_ranks *r, uint64_t element_bytes)
{
    return r->shape.parity_cells * element_bytes;
}

/* Lengths that this library writes: other ones are not divided by, nor given memory. */
static int is_sane(const pantile_ranks *r, const uint64_t *header)
{
    uint64_t element = header[AT_ELEMENT], window = header[AT_WINDOW];
    int is_sane = window == 0 ? element == 0
                              : window <= INT_MAX / r->shape.cells && element % window == 0;
    for (int i = 0; i < r->ranks; i++)
        is_sane &= header[AT_TABLE + TABLE_WORDS * i + OF_LENGTH] / r->shape.data_cells <= element;
    return is_sane && element <= INT64_MAX / r->shape.cells;
}

/* Opens a share and the data that it is of; 1 if both are whole. */
static int is_whole(const pantile_ranks *r, struct files *f, const char *name, uint64_t *header)
{
    struct stat share, data;
    uint64_t crc, *mine = header + AT_TABLE + TABLE_WORDS * (size_t)r->rank;
    close_both(f);
    f->share = open(name, O_RDONLY | O_CLOEXEC);
    f->data = open(f->path, O_RDONLY | O_CLOEXEC);
    return f->share >= 0 && f->data >= 0 &&
           read_at(f->share, header, r->header_bytes, 0) == (ssize_t)r->header_bytes &&
           header[r->words - 1] == sum(r, 0, header, r->header_bytes - sizeof *header) &&
           header[AT_MAGIC] == MAGIC && header[AT_FINGERPRINT] == r->shape.fingerprint &&
           header[AT_RANKS] == (uint64_t)r->ranks && header[r->words - 2] == (uint64_t)r->rank &&
           is_sane(r, header) &&
           fstat(f->share, &share) == 0 && fstat(f->data, &data) == 0 && S_ISREG(data.st_mode) &&
           (uint64_t)share.st_size == r->header_bytes + parity_bytes(r, header[AT_ELEMENT]) &&
           (uint64_t)data.st_size == mine[OF_LENGTH] &&
           sum_of(r, f->share, r->header_bytes, parity_bytes(r, header[AT_ELEMENT]), &crc) == 0 &&
           crc == mine[OF_PARITY] && sum_of(r, f->data, 0, mine[OF_LENGTH], &crc) == 0 &&
           crc == mine[OF_DATA];
}

/* -------------------------------------------------------------------------------- moving bytes */

/* The column of a rank in a stripe, and the rank of a column. */
static size_t column_of(const pantile_ranks *r, int rank, int stripe)
{
    return (size_t)((rank + stripe) % r->ranks);
}

static int rank_of(const pantile_ranks *r, size_t column, int stripe)
{
    return ((int)column + r->ranks - stripe) % r->ranks;
}

/* A range of a column of a stripe that its rank and the stripe's hub exchange. */
struct transfer {
    int stripe;
    pantile_range range;
};

struct transfers {
    struct transfer *list;
    size_t count, room;
};

/* The work of all stripes: hubs gather ranges, compute, and give ranges. The hub of a stripe
 * changes from window to window, in `turns` turns. */
struct work {
    int *hubs, turns;
    struct transfers in, out;
    /* A plan for each stripe; NULL: all parity is computed. */
    pantile_plan **plans;
};

static void add(struct transfers *t, int stripe, pantile_range range)
{
    if (t->count == t->room) {
        struct transfer *longer = room(t->room = t->room * 2 + 64, sizeof *longer);
        if (t->count > 0)
            memcpy(longer, t->list, t->count * sizeof *longer);
        free(t->list);
        t->list = longer;
    }
    t->list[t->count++] = (struct transfer){stripe, range};
}

static int hub_of(const struct work *w, int stripe, uint64_t window)
{
    return w->hubs[stripe * w->turns + (int)(window % (uint64_t)w->turns)];
}

static void work_free(const pantile_ranks *r, struct work *w)
{
    for (int s = 0; w->plans != NULL && s < r->ranks; s++)
        pantile_plan_free(w->plans[s]);
    free(w->plans);
    free(w->hubs);
    free(w->in.list);
    free(w->out.list);
    memset(w, 0, sizeof *w);
}

/* Reads or writes a range of this rank's column, window after window of its cells. */
static void touch(const pantile_ranks *r, struct files *f, const struct transfer *t,
                  uint64_t window, char *bytes, int writes)
{
    size_t width = f->window_bytes, offset = t->range.offset, left = t->range.bytes;
    while (left > 0) {
        struct place place = r->places[r->first[t->range.column] + offset / width];
        size_t inside = offset % width, some = left < width - inside ? left : width - inside;
        uint64_t at = (r->before[t->stripe][place.is_parity] + place.index) * f->element_bytes +
                      window * width + inside;
        size_t there = some;
        int fd = place.is_parity ? f->share : f->data;
        if (place.is_parity)
            at += r->header_bytes;
        else if (at + some > f->data_bytes)
            there = at < f->data_bytes ? (size_t)(f->data_bytes - at) : 0;
        errno = 0;
        if (writes ? write_at(fd, bytes, there, at) != 0
                   : read_at(fd, bytes, there, at) != (ssize_t)there)
            set(&f->error, PANTILE_IO, place.is_parity ? f->share_name : f->path,
                errno ? strerror(errno) : "it became shorter");
        if (!writes)
            memset(bytes + there, 0, some - there);
        bytes += some;
        offset += some;
        left -= some;
    }
}

/* Moves ranges of one window from their ranks to the hubs, or back. */
static void exchange(pantile_ranks *r, struct files *f, const struct work *w, int is_out,
                     uint64_t window, char *const *stripes, char *staging, MPI_Request *requests)
{
    const struct transfers *ts = is_out ? &w->out : &w->in;
    int pending = 0;
    for (int pass = 0; pass < 1 + is_out; pass++) {
        char *staged = staging;
        for (size_t i = 0; i < ts->count; i++) {
            const struct transfer *t = &ts->list[i];
            int owner = rank_of(r, t->range.column, t->stripe), hub = hub_of(w, t->stripe, window);
            char *at = staged;
            if (owner != r->rank && hub != r->rank)
                continue;
            if (hub == r->rank)
                at = stripes[t->stripe] + r->first[t->range.column] * f->window_bytes +
                     t->range.offset;
            else
                staged += t->range.bytes;
            if (owner == r->rank && pass == is_out)
                touch(r, f, t, window, at, is_out);
            if (owner == hub || pass > 0)
                continue;
            if (r->rank == (is_out ? hub : owner)) {
                MPI_Isend(at, (int)t->range.bytes, MPI_BYTE, is_out ? owner : hub, is_out, r->comm,
                          &requests[pending++]);
                r->sent += t->range.bytes;
                r->content += t->range.bytes;
            } else {
                MPI_Irecv(at, (int)t->range.bytes, MPI_BYTE, is_out ? hub : owner, is_out, r->comm,
                          &requests[pending++]);
            }
        }
        if (pass == 0)
            MPI_Waitall(pending, requests, MPI_STATUSES_IGNORE);
    }
}

/* Does the work, window by window: collective; errors of files are kept for the next agreement. */
static pantile_status run(pantile_ranks *r, struct files *f, const struct work *w)
{
    size_t columns = r->shape.columns, staged[2] = {0, 0}, requests = 0;
    char **stripes = room((size_t)r->ranks, sizeof *stripes), *staging;
    void **pointers = room(columns, sizeof *pointers);
    uint64_t windows = windows_of(f);
    MPI_Request *list;
    for (int is_out = 0; is_out < 2; is_out++) {
        const struct transfers *ts = is_out ? &w->out : &w->in;
        for (size_t i = 0; i < ts->count; i++)
            if (rank_of(r, ts->list[i].range.column, ts->list[i].stripe) == r->rank)
                staged[is_out] += ts->list[i].range.bytes;
        if (ts->count > requests)
            requests = ts->count;
    }
    staging = room(staged[0] > staged[1] ? staged[0] : staged[1], 1);
    list = room(requests, sizeof(MPI_Request));
    for (uint64_t window = 0; window < windows; window++) {
        for (int s = 0; s < r->ranks; s++)
            if (stripes[s] == NULL && hub_of(w, s, window) == r->rank)
                stripes[s] = room(r->shape.cells, f->window_bytes);
        exchange(r, f, w, 0, window, stripes, staging, list);
        for (int s = 0; s < r->ranks; s++) {
            pantile_error why;
            pantile_status status;
            if (hub_of(w, s, window) != r->rank)
                continue;
            for (size_t c = 0; c < columns; c++)
                pointers[c] = stripes[s] + r->first[c] * f->window_bytes;
            status = w->plans == NULL
                         ? pantile_encode(r->codec, pointers, columns, f->window_bytes, &why)
                         : pantile_plan_run(w->plans[s], pointers, columns, &why);
            if (status != PANTILE_OK)
                set(&f->error, status, "computing a stripe", why.message);
        }
        exchange(r, f, w, 1, window, stripes, staging, list);
    }
    for (int s = 0; s < r->ranks; s++)
        free(stripes[s]);
    free(stripes);
    free(pointers);
    free(staging);
    free(list);
    return agreed(r, f);
}

/* ------------------------------------------------------------------------------------- handles */

/* Fills in the places of cells. */
static pantile_status lay_out(pantile_ranks *r, const pantile_code *code, pantile_error *why)
{
    size_t columns = r->shape.columns, kinds[2];
    r->first = room(columns + 1, sizeof *r->first);
    r->places = room(r->shape.cells, sizeof *r->places);
    r->before = room(columns + 1, sizeof *r->before);
    for (size_t c = 0; c < columns; c++) {
        size_t rows;
        if (pantile_code_rows(code, c, &rows, why) != PANTILE_OK)
            return why->status;
        r->first[c + 1] = r->first[c] + rows;
        kinds[0] = kinds[1] = 0;
        for (size_t cell = r->first[c]; cell < r->first[c + 1]; cell++) {
            pantile_cell known;
            if (pantile_code_cell(code, cell, &known, why) != PANTILE_OK)
                return why->status;
            r->places[cell].is_parity = known.position == PANTILE_NONE;
            r->places[cell].index = kinds[r->places[cell].is_parity]++;
        }
    }
    for (int s = 0; s < r->ranks; s++) {
        size_t c = column_of(r, r->rank, s);
        memcpy(r->before[s + 1], r->before[s], sizeof r->before[s]);
        for (size_t cell = r->first[c]; cell < r->first[c + 1]; cell++)
            r->before[s + 1][r->places[cell].is_parity]++;
    }
    return PANTILE_OK;
}

static pantile_status open_code(pantile_ranks *r, const char *spec, pantile_error *why)
{
    pantile_code *code = NULL;
    r->shape.struct_bytes = sizeof r->shape;
    if (pantile_code_parse(spec, &code, why) == PANTILE_OK &&
        pantile_code_shape(code, &r->shape, why) == PANTILE_OK &&
        pantile_codec_new(code, NULL, &r->codec, why) == PANTILE_OK) {
        if (r->shape.columns != (size_t)r->ranks) {
            why->status = PANTILE_BAD_ARGUMENT;
            snprintf(why->message, sizeof why->message,
                     "%.200s has %zu columns, and the communicator has %d ranks: a code needs a "
                     "column for each rank",
                     spec, r->shape.columns, r->ranks);
        } else {
            lay_out(r, code, why);
        }
    }
    pantile_code_free(code);
    return why->status;
}

pantile_status pantile_ranks_new(MPI_Comm comm, const char *spec, pantile_ranks **ranks,
                                 pantile_error *error)
{
    pantile_error why = {PANTILE_OK, ""};
    pantile_ranks *r;
    uint64_t sent = 0, both[2], most[2];
    if (ranks == NULL)
        set(&why, PANTILE_NULL_POINTER, "the place of the handle", "NULL");
    else
        *ranks = NULL;
    if (agree(comm, &sent, &why) != PANTILE_OK)
        return answer(&why, error);
    r = room(1, sizeof *r);
    MPI_Comm_dup(comm, &r->comm);
    MPI_Comm_rank(r->comm, &r->rank);
    MPI_Comm_size(r->comm, &r->ranks);
    make_crc(r->crc);
    open_code(r, spec, &why);
    r->words = AT_TABLE + TABLE_WORDS * (size_t)r->ranks + 2;
    r->header_bytes = r->words * sizeof(uint64_t);
    if (agree(r->comm, &sent, &why) == PANTILE_OK) {
        both[0] = r->shape.fingerprint;
        both[1] = ~both[0];
        MPI_Allreduce(both, most, 2, MPI_UINT64_T, MPI_MAX, r->comm);
        sent += sizeof both;
        if (most[0] != ~most[1])
            set(&why, PANTILE_BAD_ARGUMENT, "the code", "not the same on all ranks");
        agree(r->comm, &sent, &why);
    }
    r->sent = sent;
    if (why.status != PANTILE_OK)
        pantile_ranks_free(r);
    else
        *ranks = r;
    return answer(&why, error);
}

void pantile_ranks_free(pantile_ranks *r)
{
    if (r == NULL)
        return;
    MPI_Comm_free(&r->comm);
    pantile_codec_free(r->codec);
    free(r->first);
    free(r->places);
    free(r->before);
    free(r);
}

void pantile_ranks_traffic(const pantile_ranks *r, uint64_t *sent, uint64_t *content)
{
    if (sent != NULL)
        *sent = r->sent;
    if (content != NULL)
        *content = r->content;
}

/* ------------------------------------------------------------------------------------ encoding */

/* Chooses lengths: windows of one length, and as many as make room for the longest data. */
static void lengths_for(const pantile_ranks *r, uint64_t data_bytes, uint64_t *element,
                        uint64_t *window)
{
    uint64_t wanted = data_bytes / r->shape.data_cells + (data_bytes % r->shape.data_cells != 0);
    uint64_t most = BUFFERS_BYTES / (r->shape.cells * (size_t)r->ranks), windows;
    if (most < WINDOW_LEAST)
        most = WINDOW_LEAST;
    windows = wanted / most + (wanted % most != 0);
    *window = windows == 0 ? 0 : wanted / windows + (wanted % windows != 0);
    *element = *window * windows;
}

/* All data cells to the hub and all parity cells back, in ranges as long as they can be. The hub is
 * the column with the most cells, the last one of these. */
static void plan_encoding(const pantile_ranks *r, size_t window, struct work *w)
{
    size_t hub = 0;
    w->turns = 1;
    w->hubs = room((size_t)r->ranks, sizeof *w->hubs);
    for (size_t c = 0; c < r->shape.columns; c++)
        if (r->first[c + 1] - r->first[c] >= r->first[hub + 1] - r->first[hub])
            hub = c;
    for (int s = 0; s < r->ranks; s++) {
        w->hubs[s] = rank_of(r, hub, s);
        for (size_t c = 0; c < r->shape.columns; c++)
            for (size_t from = r->first[c], to; from < r->first[c + 1]; from = to) {
                int is_parity = r->places[from].is_parity;
                for (to = from + 1; to < r->first[c + 1]; to++)
                    if (r->places[to].is_parity != is_parity)
                        break;
                add(is_parity ? &w->out : &w->in, s,
                    (pantile_range){c, (from - r->first[c]) * window, (to - from) * window});
            }
    }
}

static void open_data(struct files *f, struct stat *found)
{
    if (f->error.status != PANTILE_OK)
        return;
    f->data = open(f->path, O_RDONLY | O_CLOEXEC);
    if (f->data < 0 || fstat(f->data, found) != 0)
        set(&f->error, PANTILE_IO, f->path, strerror(errno));
    else if (!S_ISREG(found->st_mode))
        set(&f->error, PANTILE_BAD_ARGUMENT, f->path, "not a regular file");
    else
        f->data_bytes = (uint64_t)found->st_size;
}

/* Fills in the header but the checksums of parity: collective. */
static pantile_status begin_header(pantile_ranks *r, struct files *f, uint64_t generation,
                                   uint64_t *header, uint64_t *all)
{
    uint64_t mine[3] = {f->data_bytes, 0, generation}, longest = 0;
    if (sum_of(r, f->data, 0, f->data_bytes, &mine[1]) != 0)
        set(&f->error, PANTILE_IO, f->path, "it cannot be read to its end");
    gather(r, mine, all, 3);
    for (int i = 0; i < r->ranks; i++) {
        uint64_t *of = header + AT_TABLE + TABLE_WORDS * i;
        of[OF_LENGTH] = all[3 * i];
        of[OF_DATA] = all[3 * i + 1];
        longest = of[OF_LENGTH] > longest ? of[OF_LENGTH] : longest;
        if (all[3 * i + 2] != all[2])
            set(&f->error, PANTILE_BAD_ARGUMENT, "the generation", "not the same on all ranks");
    }
    lengths_for(r, longest, &f->element_bytes, &f->window_bytes);
    header[AT_MAGIC] = MAGIC;
    header[AT_FINGERPRINT] = r->shape.fingerprint;
    header[AT_RANKS] = (uint64_t)r->ranks;
    header[AT_GENERATION] = generation;
    header[AT_ELEMENT] = f->element_bytes;
    header[AT_WINDOW] = f->window_bytes;
    return agreed(r, f);
}

pantile_status pantile_ranks_encode(pantile_ranks *r, const char *path, uint64_t generation,
                                    pantile_error *error)
{
    struct files f;
    struct work w = {0};
    struct stat before, after;
    uint64_t *header = room(r->words, sizeof *header), *all = room((size_t)r->ranks * 3, 8), mine;
    int is_renaming = 0;
    files_of(&f, path);
    open_data(&f, &before);
    if (agreed(r, &f) != PANTILE_OK || begin_header(r, &f, generation, header, all) != PANTILE_OK)
        goto done;
    plan_encoding(r, f.window_bytes, &w);
    f.share = create(&f, f.new_share);
    if (agreed(r, &f) != PANTILE_OK || run(r, &f, &w) != PANTILE_OK)
        goto done;
    if (fstat(f.data, &after) != 0 || after.st_size != before.st_size ||
        after.st_mtim.tv_sec != before.st_mtim.tv_sec ||
        after.st_mtim.tv_nsec != before.st_mtim.tv_nsec)
        set(&f.error, PANTILE_IO, f.path, "it changed while it was encoded");
    if (fsync(f.data) != 0)
        set(&f.error, PANTILE_IO, f.path, strerror(errno));
    if (sum_of(r, f.share, r->header_bytes, parity_bytes(r, f.element_bytes), &mine) != 0)
        set(&f.error, PANTILE_IO, f.new_share, "what was written cannot be read");
    gather(r, &mine, all, 1);
    for (int i = 0; i < r->ranks; i++)
        header[AT_TABLE + TABLE_WORDS * i + OF_PARITY] = all[i];
    finish_share(r, &f, header);
    if (agreed(r, &f) != PANTILE_OK)
        goto done;
    is_renaming = 1;
    rename_to(&f, f.new_share, f.share_name);
    sync_folder(&f);
    agreed(r, &f);
done:
    /* A complete share stays once another rank may have renamed its own. */
    if (f.share >= 0 && !is_renaming)
        unlink(f.new_share);
    close_both(&f);
    work_free(r, &w);
    free(header);
    free(all);
    return answer(&f.error, error);
}

/* ---------------------------------------------------------------------------------- recovering */

/* Plans all stripes without the lost ranks. The hub of a stripe is the rank for which the fewest
 * bytes move; of several, the one that receives the least so far. The same on all ranks. */
static pantile_status plan_recovery(const pantile_ranks *r, const char *is_lost,
                                    const struct files *f, struct work *w, pantile_error *why)
{
    uint64_t windows = windows_of(f);
    size_t window = windows > 0 ? f->window_bytes : 1;
    size_t columns = r->shape.columns, cells = r->shape.cells, count;
    pantile_range *wanted = room(columns, sizeof *wanted), *reads = room(cells, sizeof *reads);
    size_t *lost = room(columns, sizeof *lost), *moved = room(columns, sizeof *moved);
    uint64_t *load = room((size_t)r->ranks, sizeof *load);
    pantile_status status = PANTILE_OK;
    w->turns = windows > TURNS_MOST ? TURNS_MOST : windows > 0 ? (int)windows : 1;
    w->hubs = room((size_t)(r->ranks * w->turns), sizeof *w->hubs);
    for (int i = 0; i < r->ranks; i++)
        load[i] = is_lost[i] ? cells * window * (uint64_t)w->turns : 0;
    w->plans = room((size_t)r->ranks, sizeof *w->plans);
    for (int s = 0; status == PANTILE_OK && s < r->ranks; s++) {
        size_t read = 0, losses = 0;
        memset(moved, 0, columns * sizeof *moved);
        for (size_t c = 0; c < columns; c++)
            if (is_lost[rank_of(r, c, s)]) {
                wanted[losses] = (pantile_range){c, 0, (r->first[c + 1] - r->first[c]) * window};
                lost[losses++] = c;
            }
        status = pantile_plan_new(r->codec, window, lost, losses, wanted, losses, NULL, 0,
                                  &w->plans[s], why);
        if (status == PANTILE_OK)
            status = pantile_plan_reads(w->plans[s], reads, cells, &count, why);
        if (status != PANTILE_OK)
            break;
        for (size_t i = 0; i < count + losses; i++) {
            pantile_range range = i < count ? reads[i] : wanted[i - count];
            moved[range.column] += range.bytes;
            read += i < count ? range.bytes : 0;
            add(i < count ? &w->in : &w->out, s, range);
        }
        for (int turn = 0; turn < w->turns; turn++) {
            size_t best = 0;
            for (size_t c = 1; c < columns; c++)
                if (moved[c] > moved[best] ||
                    (moved[c] == moved[best] &&
                     load[rank_of(r, c, s)] < load[rank_of(r, best, s)]))
                    best = c;
            w->hubs[s * w->turns + turn] = rank_of(r, best, s);
            load[rank_of(r, best, s)] += read - moved[best];
        }
    }
    free(wanted);
    free(reads);
    free(lost);
    free(moved);
    free(load);
    return status;
}

/* Names the lost ranks in front of the reason. */
static void name_lost(const pantile_ranks *r, const char *is_lost, pantile_error *why)
{
    char names[PANTILE_MESSAGE_BYTES / 2] = "lost ranks";
    pantile_error plain = *why;
    for (int i = 0; i < r->ranks; i++) {
        size_t used = strlen(names);
        if (is_lost[i])
            snprintf(names + used, sizeof names - used, " %d", i);
    }
    why->status = PANTILE_OK;
    set(why, plain.status, names, plain.message);
}

/* An offer of a rank, of its share or of the new one beside it: 1 if that is whole, the generation
 * and a checksum of what the header says. */
enum { IS_WHOLE, GENERATION, TABLE_SUM, OFFER_WORDS };

static int is_newer(const uint64_t *offer, const uint64_t *than)
{
    return offer[GENERATION] != than[GENERATION] ? offer[GENERATION] > than[GENERATION]
                                                 : offer[TABLE_SUM] > than[TABLE_SUM];
}

/* The first of the newest offers that are older than offer `than` (-1: any), or -1. Rank i makes
 * the offers 2 i and 2 i + 1. */
static int newest(const pantile_ranks *r, const uint64_t *offers, int than)
{
    const uint64_t *best = NULL, *limit = offers + OFFER_WORDS * than;
    for (int i = 2 * r->ranks - 1; i >= 0; i--) {
        const uint64_t *offer = offers + OFFER_WORDS * i;
        if (offer[IS_WHOLE] && (than < 0 || is_newer(limit, offer)) &&
            (best == NULL || !is_newer(best, offer)))
            best = offer;
    }
    return best == NULL ? -1 : (int)((best - offers) / OFFER_WORDS);
}

/* Checks the rebuilt files against the checksums of the header, and completes them. */
static void finish_lost(const pantile_ranks *r, struct files *f, uint64_t *header)
{
    uint64_t data, parity, *mine = header + AT_TABLE + TABLE_WORDS * (size_t)r->rank;
    uint64_t share_bytes = parity_bytes(r, f->element_bytes);
    if (f->error.status != PANTILE_OK)
        return;
    if (sum_of(r, f->data, 0, f->data_bytes, &data) != 0 || data != mine[OF_DATA] ||
        sum_of(r, f->share, r->header_bytes, share_bytes, &parity) != 0 ||
        parity != mine[OF_PARITY])
        set(&f->error, PANTILE_IO, f->path, "what was rebuilt does not have its checksum");
    else if (fsync(f->data) != 0)
        set(&f->error, PANTILE_IO, f->new_data, strerror(errno));
    else
        finish_share(r, f, header);
}

pantile_status pantile_ranks_recover(pantile_ranks *r, const char *path,
                                     pantile_ranks_recovered *recovered, pantile_error *error)
{
    struct files f;
    struct work w = {0};
    uint64_t *headers[2], *header = room(r->words, sizeof *header);
    uint64_t *offers = room((size_t)r->ranks, 2 * OFFER_WORDS * sizeof *offers);
    char *is_lost = room((size_t)r->ranks, 1);
    uint64_t mine[2][OFFER_WORDS] = {{0}};
    pantile_error why = {PANTILE_OK, ""};
    int from, is_new = 0, losses = 0, fewest = r->ranks + 1, is_rebuilt = 0, is_renaming = 0;
    headers[0] = room(r->words, sizeof *header);
    headers[1] = room(r->words, sizeof *header);
    files_of(&f, path);
    if (agreed(r, &f) != PANTILE_OK)
        goto done;
    for (int i = 0; i < 2; i++) {
        mine[i][IS_WHOLE] = (uint64_t)is_whole(r, &f, i ? f.new_share : f.share_name, headers[i]);
        mine[i][GENERATION] = headers[i][AT_GENERATION];
        mine[i][TABLE_SUM] = sum(r, 0, headers[i], r->header_bytes - 2 * sizeof *header);
    }
    gather(r, mine[0], offers, 2 * OFFER_WORDS);
    if ((from = newest(r, offers, -1)) < 0)
        set(&f.error, PANTILE_NOT_RECOVERABLE, f.path,
            "no rank has a whole share of this code and the data that it is of");
    for (; from >= 0; from = newest(r, offers, from)) {
        const uint64_t *chosen = offers + OFFER_WORDS * from;
        /* The lengths come first, as plans are made for them. */
        if (r->rank == from / 2) {
            memcpy(header, headers[from % 2], r->header_bytes);
            r->sent += r->header_bytes;
        }
        MPI_Bcast(header, (int)r->words, MPI_UINT64_T, from / 2, r->comm);
        for (int i = losses = 0; i < r->ranks; i++) {
            const uint64_t *offer = offers + 2 * OFFER_WORDS * i;
            is_lost[i] = memcmp(offer, chosen, sizeof mine[0]) != 0 &&
                         memcmp(offer + OFFER_WORDS, chosen, sizeof mine[0]) != 0;
            losses += is_lost[i];
        }
        is_new = memcmp(mine[0], chosen, sizeof mine[0]) != 0;
        f.element_bytes = header[AT_ELEMENT];
        f.window_bytes = header[AT_WINDOW];
        f.data_bytes = header[AT_TABLE + TABLE_WORDS * r->rank + OF_LENGTH];
        if (losses == 0 || plan_recovery(r, is_lost, &f, &w, &why) == PANTILE_OK) {
            f.error.status = PANTILE_OK;
            break;
        }
        /* Older generations are tried; if none can be recovered, the nearest to it says why. */
        name_lost(r, is_lost, &why);
        if (losses < fewest) {
            f.error = why;
            fewest = losses;
        }
        work_free(r, &w);
    }
    if (agreed(r, &f) != PANTILE_OK)
        goto done;
    close_both(&f);
    if (is_lost[r->rank]) {
        is_rebuilt = 1;
        f.data = create(&f, f.new_data);
        f.share = create(&f, f.new_share);
    } else {
        f.data = open(f.path, O_RDONLY | O_CLOEXEC);
        f.share = open(is_new ? f.new_share : f.share_name, O_RDONLY | O_CLOEXEC);
        if (f.data < 0 || f.share < 0)
            set(&f.error, PANTILE_IO, f.path, strerror(errno));
    }
    if (agreed(r, &f) != PANTILE_OK || (losses > 0 && run(r, &f, &w) != PANTILE_OK))
        goto done;
    if (is_rebuilt)
        finish_lost(r, &f, header);
    if (agreed(r, &f) != PANTILE_OK)
        goto done;
    is_renaming = 1;
    if (is_rebuilt)
        rename_to(&f, f.new_data, f.path);
    if (is_new) {
        rename_to(&f, f.new_share, f.share_name);
        sync_folder(&f);
    } else {
        unlink(f.new_share);
    }
    if (agreed(r, &f) == PANTILE_OK && recovered != NULL) {
        recovered->generation = header[AT_GENERATION];
        recovered->lost_count = 0;
        for (int i = 0; i < r->ranks; i++)
            if (is_lost[i])
                recovered->lost[recovered->lost_count++] = i;
    }
done:
    if (is_rebuilt && !is_renaming) {
        unlink(f.new_data);
        unlink(f.new_share);
    }
    close_both(&f);
    work_free(r, &w);
    free(header);
    free(headers[0]);
    free(headers[1]);
    free(offers);
    free(is_lost);
    return answer(&f.error, error);
}
