/* Finds a corrupt shard without checksums. */
#include <pantile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 12, ELEMENT = 8192 };

static unsigned char shards[COLUMNS][ELEMENT];

static void must(pantile_status status, const pantile_error *why)
{
    if (status != PANTILE_OK) {
        fprintf(stderr, "%s: %s\n", pantile_status_name(status), why->message);
        exit(1);
    }
}

int main(void)
{
    pantile_error why;
    pantile_code *code;
    pantile_codec *codec;
    pantile_finding findings[8];
    void *columns[COLUMNS];
    const void *to_read[COLUMNS];
    size_t fault, count, corrected, i, c;

    /* Four parities: two wrong shards can be named, wherever they are. */
    must(pantile_code_parse("rs:8+4", &code, &why), &why);
    must(pantile_codec_new(code, NULL, &codec, &why), &why);
    for (c = 0; c < COLUMNS; c++) {
        for (i = 0; i < ELEMENT; i++)
            shards[c][i] = (unsigned char)(c * 37 + i / 3);
        columns[c] = shards[c];
        to_read[c] = shards[c];
    }
    must(pantile_encode(codec, columns, COLUMNS, ELEMENT, &why), &why);

    memset(shards[2] + 100, 0x5a, 64);
    memset(shards[9] + 4000, 0xa5, 64);
    must(pantile_verify(codec, to_read, COLUMNS, ELEMENT, &fault, &why), &why);
    printf("the shards do not fit one another from byte %zu on\n", fault);

    must(pantile_locate(codec, to_read, COLUMNS, ELEMENT, findings, 8, &count, &why), &why);
    for (i = 0; i < count; i++)
        printf("bytes %zu to %zu: shard %u is wrong%s\n", findings[i].offset,
               findings[i].offset + findings[i].bytes - 1, (unsigned)findings[i].columns[0],
               findings[i].is_certain ? ", certainly" : "");

    must(pantile_correct(codec, columns, COLUMNS, ELEMENT, findings, count, &corrected, &why),
         &why);
    must(pantile_verify(codec, to_read, COLUMNS, ELEMENT, &fault, &why), &why);
    printf("%zu bytes corrected; %s\n", corrected,
           fault == PANTILE_NONE ? "all shards fit" : "something is still wrong");
    pantile_codec_free(codec);
    pantile_code_free(code);
    return fault == PANTILE_NONE && count == 2 ? 0 : 1;
}
