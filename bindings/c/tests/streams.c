/* Streams and chunks by descriptor: what they give back with shards lost and wrong, from pipes and
 * files, and what they refuse. */
#define _POSIX_C_SOURCE 200809L
#include <pantile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 16, BYTES = 300001 };

static unsigned char data[BYTES], read_back[BYTES + 1];
static pantile_checked checked;
static pantile_error why;
static FILE *files[MOST], *again[MOST], *source, *target;
static int lists[3][MOST]; /* of files, of files that are not all there, of again */

#define HOLDS(claim)                                                                               \
    do {                                                                                           \
        if (!(claim)) {                                                                            \
            fprintf(stderr, "streams.c:%d: %s: %s\n", __LINE__, #claim, why.message);              \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static int from_start(FILE *file)
{
    HOLDS(lseek(fileno(file), 0, SEEK_SET) == 0);
    return fileno(file);
}

static FILE *fresh(FILE *old)
{
    FILE *new = tmpfile();
    HOLDS(new);
    if (old)
        fclose(old);
    return new;
}

/* All files empty, and the data in `source`. */
static void begin(size_t columns)
{
    size_t c;
    HOLDS(columns <= MOST);
    source = fresh(source);
    target = fresh(target);
    HOLDS(write(fileno(source), data, BYTES) == BYTES);
    from_start(source);
    for (c = 0; c < columns; c++) {
        files[c] = fresh(files[c]);
        again[c] = fresh(again[c]);
        lists[0][c] = fileno(files[c]);
        lists[2][c] = -1;
    }
}

/* Files from their start, without `lost`; `wrong` has other bytes. MOST is no file. */
static const int *there(size_t columns, size_t lost, size_t wrong)
{
    size_t c;
    for (c = 0; c < columns; c++)
        lists[1][c] = c == lost ? -1 : from_start(files[c]);
    if (wrong < MOST)
        HOLDS(pwrite(fileno(files[wrong]), "no byte of this was here before, surely", 39, 5000) == 39);
    from_start(target);
    HOLDS(ftruncate(fileno(target), 0) == 0);
    return lists[1];
}

static int is_back(void)
{
    return pread(fileno(target), read_back, BYTES + 1, 0) == BYTES && memcmp(data, read_back, BYTES) == 0;
}

static int are_same(FILE *a, FILE *b)
{
    static unsigned char x[BYTES], y[BYTES];
    ssize_t have = pread(fileno(a), x, BYTES, 0);
    return have > 0 && pread(fileno(b), y, BYTES, 0) == have && memcmp(x, y, (size_t)have) == 0;
}

static int is_named(size_t column)
{
    return checked.wrong_count == 1 && checked.wrong[0].column == column &&
           checked.wrong[0].first >= 5000 && checked.wrong[0].first < 5039 &&
           checked.wrong[0].bytes > 20 && checked.wrong[0].bytes <= 39;
}

static void streams(void)
{
    enum { COLUMNS = 10, ELEMENT = 8192 };
    pantile_code *code;
    pantile_codec *codec;
    uint64_t bytes = 0;
    int ends[2];

    HOLDS(pantile_code_parse("rs:6+4", &code, &why) == PANTILE_OK);
    HOLDS(pantile_codec_new(code, NULL, &codec, &why) == PANTILE_OK);
    begin(COLUMNS);
    HOLDS(pantile_encode_stream(codec, fileno(source), lists[0], COLUMNS, ELEMENT, &bytes, &why) == PANTILE_OK);
    HOLDS(bytes == BYTES && lseek(fileno(files[9]), 0, SEEK_CUR) == 7 * ELEMENT);
#define DECODE(lost, wrong, check)                                                                 \
    pantile_decode_stream(codec, there(COLUMNS, lost, wrong), COLUMNS, ELEMENT, fileno(target), BYTES, check, \
                          &checked, &why)
    HOLDS(DECODE(MOST, MOST, PANTILE_CHECK_CERTAIN) == PANTILE_OK && is_back());
    HOLDS(checked.wrong_count == 0 && checked.is_complete && checked.doubts == 0);
    HOLDS(DECODE(3, 8, PANTILE_CHECK_CERTAIN) == PANTILE_OK && is_back() && is_named(8));
    HOLDS(DECODE(3, 0, PANTILE_CHECK_CERTAIN) == PANTILE_NOT_LOCATED && why.message[0]);
    HOLDS(DECODE(3, 0, PANTILE_CHECK_OFF) == PANTILE_OK && !is_back());

    /* Column 0 and 8 are wrong now, in one place. With all shards there, two can be located. */
    lists[2][0] = fileno(again[0]);
    lists[2][8] = fileno(again[8]);
    HOLDS(pantile_rebuild_stream(codec, there(COLUMNS, MOST, MOST), lists[2], COLUMNS, ELEMENT, BYTES,
                                 PANTILE_CHECK_CERTAIN, &checked, &why) == PANTILE_OK);
    HOLDS(checked.wrong_count == 2 && checked.wrong[0].column == 0 && checked.wrong[1].column == 8);
    HOLDS(pantile_verify_stream(codec, there(COLUMNS, 3, MOST), COLUMNS, ELEMENT, BYTES, &checked, &why) ==
          PANTILE_OK);
    HOLDS(checked.doubts == 1 && checked.first_doubt == 0);
    lists[1][0] = from_start(again[0]);
    lists[1][8] = from_start(again[8]);
    HOLDS(pantile_decode_stream(codec, there(COLUMNS, MOST, MOST), COLUMNS, ELEMENT, fileno(target), BYTES,
                                PANTILE_CHECK_CERTAIN, NULL, NULL) == PANTILE_OK && is_back());

    /* A pipe in, of fewer bytes than its buffer has, and a shard that ends too soon. */
    HOLDS(pipe(ends) == 0 && write(ends[1], data, 20000) == 20000 && close(ends[1]) == 0);
    begin(COLUMNS);
    HOLDS(pantile_encode_stream(codec, ends[0], lists[0], COLUMNS, ELEMENT, &bytes, &why) == PANTILE_OK);
    HOLDS(bytes == 20000 && close(ends[0]) == 0);
    HOLDS(DECODE(MOST, MOST, PANTILE_CHECK_CERTAIN) == PANTILE_IO && strstr(why.message, "column 0 ends before"));

    /* What is refused, before anything is read or written. */
#define REFUSED(expected, call) HOLDS((call) == (expected) && why.status == (expected) && why.message[0])
    REFUSED(PANTILE_BAD_ARGUMENT, pantile_encode_stream(codec, -1, lists[0], COLUMNS, ELEMENT, NULL, &why));
    REFUSED(PANTILE_BAD_ARGUMENT, pantile_encode_stream(codec, fileno(source), lists[0], 9, ELEMENT, NULL, &why));
    REFUSED(PANTILE_BAD_ARGUMENT, pantile_encode_stream(codec, fileno(source), lists[0], COLUMNS, 0, NULL, &why));
    REFUSED(PANTILE_BAD_ARGUMENT, pantile_encode_stream(codec, fileno(source), there(COLUMNS, 4, MOST), COLUMNS,
                                                        ELEMENT, NULL, &why));
    REFUSED(PANTILE_NULL_POINTER, pantile_encode_stream(codec, fileno(source), NULL, COLUMNS, ELEMENT, NULL, &why));
    REFUSED(PANTILE_NULL_POINTER, pantile_encode_stream(NULL, fileno(source), lists[0], COLUMNS, ELEMENT, NULL, &why));
    REFUSED(PANTILE_BAD_ARGUMENT, DECODE(MOST, MOST, (pantile_check)3));
    HOLDS(lseek(fileno(source), 0, SEEK_CUR) == 0);
    lists[2][0] = lists[2][8] = -1;
    REFUSED(PANTILE_NOT_RECOVERABLE,
            pantile_decode_stream(codec, lists[2], COLUMNS, ELEMENT, fileno(target), 1, PANTILE_CHECK_OFF, NULL, &why));
    REFUSED(PANTILE_IO, pantile_encode_stream(codec, 9999, lists[0], COLUMNS, ELEMENT, NULL, &why));
    pantile_codec_free(codec);
    pantile_code_free(code);
}

/* All columns of a profile, with one lost and one wrong where the code has that to spare. */
static void chunks_of(const char *profile, size_t chunk_bytes)
{
    pantile_chunks *chunks;
    pantile_code *code;
    pantile_shape shape;
    uint64_t bytes, whole;
    size_t c, lost, wrong;

    HOLDS(pantile_chunks_new(profile, chunk_bytes, &chunks, &why) == PANTILE_OK);
    HOLDS(pantile_chunks_code(chunks, &code, &why) == PANTILE_OK);
    shape.struct_bytes = sizeof shape;
    HOLDS(pantile_code_shape(code, &shape, &why) == PANTILE_OK);
    begin(shape.columns);
    HOLDS(pantile_chunks_encode(chunks, fileno(source), lists[0], shape.columns, &bytes, &why) == PANTILE_OK);
    HOLDS(bytes == BYTES);
    for (c = 0; c < shape.columns; c++) {
        HOLDS(pantile_chunks_bytes(chunks, c, BYTES, &whole, &why) == PANTILE_OK);
        HOLDS(lseek(fileno(files[c]), 0, SEEK_END) == (off_t)whole);
    }
    HOLDS(pantile_chunks_bytes(chunks, shape.columns, BYTES, &whole, &why) == PANTILE_BAD_ARGUMENT);

    lost = shape.tolerance > 2 ? 1 : MOST;
    wrong = shape.tolerance > 1 ? shape.columns - 1 : MOST;
    lists[2][0] = fileno(again[0]);
    HOLDS(pantile_chunks_rebuild(chunks, there(shape.columns, 0, MOST), lists[2], shape.columns, BYTES,
                                 PANTILE_CHECK_CERTAIN, &checked, &why) == PANTILE_OK);
    HOLDS(are_same(files[0], again[0]));
    HOLDS(pantile_chunks_decode(chunks, there(shape.columns, lost, wrong), shape.columns, fileno(target), BYTES,
                                PANTILE_CHECK_CERTAIN, &checked, &why) == PANTILE_OK && is_back());
    HOLDS(wrong == MOST ? checked.wrong_count == 0 : is_named(wrong));
    HOLDS(pantile_chunks_verify(chunks, there(shape.columns, lost, MOST), shape.columns, BYTES, &checked, &why) ==
          PANTILE_OK);
    HOLDS(wrong == MOST ? checked.wrong_count == 0 : is_named(wrong));
    pantile_code_free(code);
    pantile_chunks_free(chunks);
}

static void refusals_of_chunks(void)
{
    pantile_chunks *chunks;
    int ends[2];

    REFUSED(PANTILE_BAD_CODE, pantile_chunks_new("rs:4+2", 0, &chunks, &why));
    HOLDS(chunks == NULL);
    REFUSED(PANTILE_BAD_ARGUMENT, pantile_chunks_new("ceph:plugin=isa k=4 m=2", 33, &chunks, &why));
    HOLDS(pantile_chunks_new("isal:cauchy k=4 m=2", 0, &chunks, &why) == PANTILE_OK && pipe(ends) == 0);
    begin(6);
    REFUSED(PANTILE_BAD_ARGUMENT, pantile_chunks_encode(chunks, ends[0], lists[0], 6, NULL, &why));
    REFUSED(PANTILE_BAD_ARGUMENT,
            pantile_chunks_decode(chunks, lists[0], 6, ends[1], 1, PANTILE_CHECK_CERTAIN, NULL, &why));
    REFUSED(PANTILE_BAD_ARGUMENT, pantile_chunks_encode(chunks, fileno(source), lists[0], 5, NULL, &why));
    close(ends[0]);
    close(ends[1]);
    pantile_chunks_free(chunks);
    HOLDS(pantile_chunks_new("jerasure:blaum_roth k=4 w=7 packetsize=8", 0, &chunks, &why) == PANTILE_OK);
    REFUSED(PANTILE_STUDY_ONLY, pantile_chunks_encode(chunks, fileno(source), lists[0], 6, NULL, &why));
    pantile_chunks_free(chunks);
    pantile_chunks_free(NULL);
}

int main(void)
{
    size_t i;
    for (i = 0; i < BYTES; i++)
        data[i] = (unsigned char)(i * 7 + i / 251 + i / 65537);
    streams();
    chunks_of("ceph:plugin=isa k=8 m=4 technique=cauchy", 0);
    chunks_of("ceph:plugin=clay k=4 m=2", 4096);
    chunks_of("hdfs:RS-6-3-64k", 0);
    chunks_of("hdfs:XOR-2-1-1k", 0);
    chunks_of("isal:cauchy k=10 m=4", 0);
    chunks_of("jerasure:cauchy_good k=6 m=3 w=8 packetsize=64", 0);
    chunks_of("klauspost:RS(10,4)", 4096);
    refusals_of_chunks();
    for (i = 0; i < MOST; i++) {
        if (files[i])
            fclose(files[i]);
        if (again[i])
            fclose(again[i]);
    }
    fclose(source);
    fclose(target);
    printf("streams and chunks are right\n");
    return 0;
}
