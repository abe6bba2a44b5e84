/* Data become shards; two of them are lost and come back. */
#include <pantile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(pantile_status status, const pantile_error *why)
{
    if (status != PANTILE_OK) {
        fprintf(stderr, "%s: %s\n", pantile_status_name(status), why->message);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    const char *spec = argc > 1 ? argv[1] : "rs:10+4";
    static const char text[] = "what must not be lost";
    char again[sizeof text];
    pantile_error why;
    pantile_code *code;
    pantile_codec *codec;
    pantile_shape shape;
    void **columns;
    const void **to_read;
    uint8_t *states;
    size_t element, c, rows;

    must(pantile_code_parse(spec, &code, &why), &why);
    must(pantile_codec_new(code, NULL, &codec, &why), &why);
    shape.struct_bytes = sizeof shape;
    must(pantile_code_shape(code, &shape, &why), &why);
    must(pantile_split_bytes(codec, sizeof text, &element, &why), &why);

    columns = (void **)calloc(shape.columns, sizeof *columns);
    to_read = (const void **)calloc(shape.columns, sizeof *to_read);
    states = (uint8_t *)calloc(shape.columns, 1);
    for (c = 0; c < shape.columns; c++) {
        must(pantile_code_rows(code, c, &rows, &why), &why);
        columns[c] = malloc(rows * element);
        to_read[c] = columns[c];
        states[c] = PANTILE_COLUMN_PRESENT;
    }
    must(pantile_split(codec, text, sizeof text, columns, shape.columns, element, &why), &why);

    /* The disks of columns 0 and 1 are gone. */
    for (c = 0; c < 2; c++) {
        must(pantile_code_rows(code, c, &rows, &why), &why);
        memset(columns[c], 0xee, rows * element);
        states[c] = PANTILE_COLUMN_WANTED;
    }
    must(pantile_reconstruct(codec, columns, shape.columns, element, states, &why), &why);
    must(pantile_join(codec, to_read, shape.columns, element, again, sizeof again, &why), &why);
    printf("%s, without columns 0 and 1: %s\n", spec, again);

    for (c = 0; c < shape.columns; c++)
        free(columns[c]);
    free(columns);
    free((void *)to_read);
    free(states);
    pantile_codec_free(codec);
    pantile_code_free(code);
    return strcmp(text, again) == 0 ? 0 : 1;
}
