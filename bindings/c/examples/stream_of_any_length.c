/* Stores a stream as shards in bounded memory; a lost and a wrong one do no harm. */
#define _POSIX_C_SOURCE 200809L
#include <pantile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COLUMNS = 9, ELEMENT = 4096, LINES = 20000 };

static void must(pantile_status status, const pantile_error *why)
{
    if (status != PANTILE_OK) {
        fprintf(stderr, "%s: %s\n", pantile_status_name(status), why->message);
        exit(1);
    }
}

/* A new file, and its descriptor at the beginning. */
static int begin(FILE *file)
{
    fflush(file);
    rewind(file);
    return fileno(file);
}

int main(void)
{
    static pantile_checked checked;
    pantile_error why;
    pantile_code *code;
    pantile_codec *codec;
    FILE *data = tmpfile(), *back = tmpfile(), *shards[COLUMNS];
    int descriptors[COLUMNS], c, differs;
    char line[32], other[32];
    uint64_t bytes;

    /* One of nine lost and one wrong: 2 x 1 + 1 is at most 3. */
    must(pantile_code_parse("rs:6+3", &code, &why), &why);
    must(pantile_codec_new(code, NULL, &codec, &why), &why);
    for (c = 0; c < LINES; c++)
        fprintf(data, "line %d\n", c);
    for (c = 0; c < COLUMNS; c++) {
        shards[c] = tmpfile();
        descriptors[c] = fileno(shards[c]);
    }
    must(pantile_encode_stream(codec, begin(data), descriptors, COLUMNS, ELEMENT, &bytes, &why), &why);
    printf("%llu bytes are stored\n", (unsigned long long)bytes);

    if (pwrite(fileno(shards[2]), "these bytes are not those that were written", 43, 10000) != 43)
        return 1;
    for (c = 0; c < COLUMNS; c++)
        descriptors[c] = begin(shards[c]);
    descriptors[7] = -1; /* as open() has it for a file that is lost */
    must(pantile_decode_stream(codec, descriptors, COLUMNS, ELEMENT, fileno(back), bytes,
                               PANTILE_CHECK_CERTAIN, &checked, &why), &why);
    for (c = 0; c < (int)checked.wrong_count; c++)
        printf("shard %zu was wrong from byte %llu on\n", checked.wrong[c].column,
               (unsigned long long)checked.wrong[c].first);

    begin(data);
    begin(back);
    for (differs = 0, c = 0; c < LINES && !differs; c++)
        differs = !fgets(line, sizeof line, data) || !fgets(other, sizeof other, back) || strcmp(line, other);
    printf("the data %s\n", differs ? "differ" : "are right");
    for (c = 0; c < COLUMNS; c++)
        fclose(shards[c]);
    fclose(data);
    fclose(back);
    pantile_codec_free(codec);
    pantile_code_free(code);
    return differs || checked.wrong_count != 1;
}
