/* A sequence of calls, right ones and wrong ones, from a seed: sequence SEED ROUNDS.
 *
 * Every buffer has its exact length, so that valgrind or AddressSanitizer sees a byte outside.
 * Results of right calls are compared with a copy of the stripe; wrong calls must be refused and
 * change nothing. */
#include <pantile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state;
static unsigned long seed, steps;

static size_t below(size_t bound)
{
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (size_t)((z ^ z >> 31) % bound);
}

#define HOLDS(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "seed %lu, step %lu, line %d: %s (%s)\n", seed, steps, __LINE__,      \
                    #what, why.message);                                                           \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static pantile_error why;
static pantile_code *code;
static pantile_codec *codec;
static pantile_shape shape;
static size_t element;
static size_t lens[PANTILE_COLUMNS_MOST];
static void *columns[PANTILE_COLUMNS_MOST];
static unsigned char *truth[PANTILE_COLUMNS_MOST];

static const void *const *shared(void) { return (const void *const *)columns; }

static int is_true(void)
{
    size_t c;
    for (c = 0; c < shape.columns; c++)
        if (memcmp(columns[c], truth[c], lens[c]) != 0)
            return 0;
    return 1;
}

static void learn(void)
{
    size_t c;
    for (c = 0; c < shape.columns; c++)
        memcpy(truth[c], columns[c], lens[c]);
}

static void restore(void)
{
    size_t c;
    for (c = 0; c < shape.columns; c++)
        memcpy(columns[c], truth[c], lens[c]);
}

static unsigned char *painted(size_t bytes)
{
    unsigned char *made = (unsigned char *)malloc(bytes ? bytes : 1);
    size_t i;
    for (i = 0; i < bytes; i++)
        made[i] = (unsigned char)below(256);
    return made;
}

static void begin(void)
{
    static const char *const specs[] = {"rs:4+2",     "rs:10+4",    "raid6:5",    "dcode:5",   "dcode:7",
                                        "evenodd:5",  "lrc:12,2,2", "shec:6,4,3", "raidp:5",   "raidq:6+4",
                                        "mirror:3",   "raid5:4",    "crs:4+2",    "lch:20+8",  "xcode:5"};
    const char *spec = specs[below(sizeof specs / sizeof *specs)];
    pantile_codec_options options;
    size_t c, rows, bytes;
    unsigned char *data;

    HOLDS(pantile_code_parse(spec, &code, &why) == PANTILE_OK);
    memset(&options, 0, sizeof options);
    options.struct_bytes = sizeof options;
    options.cache_bytes = below(2) ? PANTILE_NONE : below(20000);
    options.stores = (pantile_stores)below(3);
    HOLDS(pantile_codec_new(code, below(2) ? &options : NULL, &codec, &why) == PANTILE_OK);
    shape.struct_bytes = sizeof shape;
    HOLDS(pantile_code_shape(code, &shape, &why) == PANTILE_OK);
    element = 1 + (below(4) ? below(300) : below(70000 / shape.rows_most));
    for (c = 0; c < shape.columns; c++) {
        HOLDS(pantile_code_rows(code, c, &rows, &why) == PANTILE_OK);
        lens[c] = rows * element;
        columns[c] = painted(lens[c]);
        truth[c] = (unsigned char *)malloc(lens[c]);
    }
    bytes = element * shape.data_cells - below(element);
    data = painted(bytes);
    HOLDS(pantile_split(codec, data, bytes, columns, shape.columns, element, &why) == PANTILE_OK);
    learn();
    {
        unsigned char *again = (unsigned char *)malloc(bytes);
        HOLDS(pantile_join(codec, shared(), shape.columns, element, again, bytes, &why) == PANTILE_OK);
        HOLDS(memcmp(data, again, bytes) == 0);
        free(again);
    }
    free(data);
}

static void end(void)
{
    size_t c;
    for (c = 0; c < shape.columns; c++) {
        free(columns[c]);
        free(truth[c]);
    }
    pantile_code_free(code);
    pantile_codec_free(codec);
}

/* Some are lost, and some of these are wanted. */
static void reconstruct(void)
{
    uint8_t states[PANTILE_COLUMNS_MOST];
    void *given[PANTILE_COLUMNS_MOST];
    size_t c, lost = below(shape.tolerance + 2);
    pantile_status status;

    memset(states, PANTILE_COLUMN_PRESENT, shape.columns);
    memcpy(given, columns, sizeof given);
    for (; lost > 0; lost--) {
        c = below(shape.columns);
        states[c] = below(3) ? PANTILE_COLUMN_WANTED : PANTILE_COLUMN_ABSENT;
        given[c] = states[c] == PANTILE_COLUMN_ABSENT ? NULL : columns[c];
        memset(columns[c], 0xee, lens[c]);
    }
    status = pantile_reconstruct(codec, given, shape.columns, element, states, &why);
    HOLDS(status == PANTILE_OK || status == PANTILE_NOT_RECOVERABLE);
    for (c = 0; c < shape.columns; c++)
        if (states[c] == PANTILE_COLUMN_ABSENT || status != PANTILE_OK)
            memcpy(columns[c], truth[c], lens[c]);
    HOLDS(is_true());
}

static void update(void)
{
    size_t position = below(shape.data_cells), offset = below(element), c, fault;
    size_t bytes = below(element - offset + 1), cells[4096], need;
    unsigned char *content = painted(bytes);
    pantile_cell place;
    unsigned char *at;

    HOLDS(pantile_code_data(code, cells, 4096, &need, &why) == PANTILE_OK && need == shape.data_cells);
    HOLDS(pantile_code_cell(code, cells[position], &place, &why) == PANTILE_OK);
    HOLDS(place.position == position);
    at = (unsigned char *)columns[place.column] + place.row * element + offset;
    if (below(2)) {
        HOLDS(pantile_update(codec, columns, shape.columns, element, position, offset, content,
                             bytes, &why) == PANTILE_OK);
        HOLDS(memcmp(at, content, bytes) == 0);
    } else {
        /* Each column by itself, those that the element does not reach in vain. */
        for (c = 0; c < shape.columns; c++) {
            void *one[PANTILE_COLUMNS_MOST] = {NULL};
            pantile_status status;
            one[c] = columns[c];
            status = pantile_update_parity(codec, one, shape.columns, element, position, offset,
                                           content, bytes, &why);
            HOLDS(status == PANTILE_OK || status == PANTILE_NULL_POINTER);
        }
        for (c = 0; c < bytes; c++)
            at[c] ^= content[c];
    }
    HOLDS(pantile_verify(codec, shared(), shape.columns, element, &fault, &why) == PANTILE_OK);
    HOLDS(fault == PANTILE_NONE);
    learn();
    free(content);
}

static void locate(void)
{
    pantile_finding *findings;
    size_t c = below(shape.columns), at, bytes, i, fault, need, corrected;
    pantile_status status;

    at = below(lens[c]);
    bytes = 1 + below(lens[c] - at < 40 ? lens[c] - at : 40);
    for (i = 0; i < bytes; i++)
        ((unsigned char *)columns[c])[at + i] ^= (unsigned char)(1 + below(255));
    HOLDS(pantile_verify(codec, shared(), shape.columns, element, &fault, &why) == PANTILE_OK);
    HOLDS(fault != PANTILE_NONE);
    status = pantile_locate(codec, shared(), shape.columns, element, NULL, 0, &need, &why);
    HOLDS(status == PANTILE_TOO_SMALL && need > 0);
    findings = (pantile_finding *)malloc(need * sizeof *findings);
    HOLDS(pantile_locate(codec, shared(), shape.columns, element, findings, need, &need, &why) == PANTILE_OK);
    HOLDS(findings[0].offset == fault);
    HOLDS(pantile_correct(codec, columns, shape.columns, element, findings, need, &corrected, &why) ==
          PANTILE_OK);
    for (i = 0; i < need; i++)
        if (!findings[i].is_certain)
            break;
    if (i == need)
        HOLDS(is_true());
    for (i = 0; i < sizeof *findings; i++)
        ((unsigned char *)findings)[i] = (unsigned char)below(256);
    status = pantile_correct(codec, columns, shape.columns, element, findings, 1, NULL, &why);
    HOLDS(status == PANTILE_OK || status == PANTILE_BAD_ARGUMENT);
    free(findings);
    restore();
}

static void plan(void)
{
    pantile_range wanted[3], *reads;
    uint32_t costs[PANTILE_COLUMNS_MOST];
    size_t lost[PANTILE_COLUMNS_MOST], lost_count = below(shape.tolerance + 1), count = 1 + below(3);
    size_t i, c, need;
    uint64_t cost, at_least, sum = 0;
    pantile_plan *made;
    pantile_status status;
    int has_costs = (int)below(2);

    for (i = 0; i < lost_count; i++)
        lost[i] = below(shape.columns);
    for (c = 0; c < shape.columns; c++)
        costs[c] = (uint32_t)below(5);
    for (i = 0; i < count; i++) {
        wanted[i].column = lost_count && below(4) ? lost[below(lost_count)] : below(shape.columns);
        wanted[i].offset = below(lens[wanted[i].column]);
        wanted[i].bytes = below(lens[wanted[i].column] - wanted[i].offset + 1);
    }
    status = pantile_plan_new(codec, element, lost, lost_count, wanted, count,
                              has_costs ? costs : NULL, has_costs ? shape.columns : 0, &made, &why);
    HOLDS(status == PANTILE_OK);
    HOLDS(pantile_plan_cost(made, &cost, &at_least, &why) == PANTILE_OK && at_least <= cost);
    status = pantile_plan_reads(made, NULL, 0, &need, &why);
    HOLDS(status == (need ? PANTILE_TOO_SMALL : PANTILE_OK));
    reads = (pantile_range *)malloc((need ? need : 1) * sizeof *reads);
    HOLDS(pantile_plan_reads(made, reads, need, &need, &why) == PANTILE_OK);
    /* What is not among the reads is gone. */
    for (c = 0; c < shape.columns; c++)
        memset(columns[c], 0xee, lens[c]);
    for (i = 0; i < need; i++) {
        HOLDS(reads[i].column < shape.columns && reads[i].offset + reads[i].bytes <= lens[reads[i].column]);
        sum += (has_costs ? costs[reads[i].column] : 1) * (uint64_t)reads[i].bytes;
        memcpy((unsigned char *)columns[reads[i].column] + reads[i].offset,
               truth[reads[i].column] + reads[i].offset, reads[i].bytes);
        for (c = 0; c < lost_count; c++)
            HOLDS(reads[i].column != lost[c]);
    }
    HOLDS(sum == cost);
    HOLDS(pantile_plan_run(made, columns, shape.columns, &why) == PANTILE_OK);
    for (i = 0; i < count; i++)
        HOLDS(memcmp((unsigned char *)columns[wanted[i].column] + wanted[i].offset,
                     truth[wanted[i].column] + wanted[i].offset, wanted[i].bytes) == 0);
    restore();
    pantile_plan_free(made);
    free(reads);
}

static void text(void)
{
    size_t need, again, i;
    char *written;
    pantile_code *other = NULL;
    pantile_shape same;
    pantile_status status;

    HOLDS(pantile_code_text(code, NULL, 0, &need, &why) == PANTILE_TOO_SMALL);
    written = (char *)malloc(need);
    HOLDS(pantile_code_text(code, written, need, &again, &why) == PANTILE_OK && again == need);
    HOLDS(written[need - 1] == 0);
    HOLDS(pantile_code_from_text(written, need - 1, 0, &other, &why) == PANTILE_OK);
    same.struct_bytes = sizeof same;
    HOLDS(pantile_code_shape(other, &same, &why) == PANTILE_OK);
    HOLDS(same.fingerprint == shape.fingerprint);
    pantile_code_free(other);
    for (i = 0; i < 3; i++)
        written[below(need - 1)] = (char)below(256);
    status = pantile_code_from_text(written, need - 1, 1000, &other, &why);
    HOLDS(status == PANTILE_OK ? other != NULL : other == NULL && why.message[0] != 0);
    HOLDS(status == why.status);
    pantile_code_free(other);
    free(written);
}

/* Calls that must be refused, with all buffers unchanged. */
static void wrong(void)
{
    uint8_t states[PANTILE_COLUMNS_MOST];
    void *given[PANTILE_COLUMNS_MOST];
    size_t c = below(shape.columns), number, need;
    pantile_plan *made;
    pantile_range range = {c, 0, lens[c] + 1};
    pantile_code *none;
    char small[3];
    pantile_status status = PANTILE_OK, expected = PANTILE_BAD_ARGUMENT;
    pantile_error *error = below(4) ? &why : NULL;

    memcpy(given, columns, sizeof given);
    memset(states, PANTILE_COLUMN_PRESENT, sizeof states);
    switch (below(23)) {
    case 0: status = pantile_encode(codec, columns, shape.columns + 1, element, error); break;
    case 1: status = pantile_encode(codec, columns, shape.columns, 0, error); break;
    case 2: status = pantile_encode(codec, columns, shape.columns, PANTILE_NONE / 2, error); break;
    case 3: status = pantile_encode(NULL, columns, shape.columns, element, error);
            expected = PANTILE_NULL_POINTER; break;
    case 4: given[c] = NULL; status = pantile_encode(codec, given, shape.columns, element, error);
            expected = PANTILE_NULL_POINTER; break;
    case 5: status = pantile_encode(codec, NULL, shape.columns, element, error);
            expected = PANTILE_NULL_POINTER; break;
    case 6: states[c] = PANTILE_COLUMN_WANTED; given[c] = given[(c + 1) % shape.columns];
            status = pantile_reconstruct(codec, given, shape.columns, element, states, error);
            expected = PANTILE_OVERLAP; break;
    case 7: states[c] = 3;
            status = pantile_reconstruct(codec, columns, shape.columns, element, states, error); break;
    case 8: memset(states, PANTILE_COLUMN_WANTED, sizeof states);
            status = pantile_reconstruct(codec, columns, shape.columns, element, states, error);
            expected = PANTILE_NOT_RECOVERABLE; break;
    case 9: status = pantile_reconstruct(codec, columns, shape.columns, element, NULL, error);
            expected = PANTILE_NULL_POINTER; break;
    case 10: status = pantile_update(codec, columns, shape.columns, element, shape.data_cells, 0, small, 1, error); break;
    case 11: status = pantile_update(codec, columns, shape.columns, element, 0, element, small, 1, error); break;
    case 12: status = pantile_update(codec, columns, shape.columns, element, 0, 1, small, PANTILE_NONE, error); break;
    case 13: status = pantile_update(codec, columns, shape.columns, element, 0, 0, NULL, 1, error);
             expected = PANTILE_NULL_POINTER; break;
    case 14: memset(given, 0, sizeof given);
             status = pantile_verify(codec, (const void *const *)given, shape.columns, element, &number, error);
             expected = PANTILE_NOTHING_TO_CHECK; break;
    case 15: status = pantile_plan_new(codec, element, NULL, 0, &range, 1, NULL, 0, &made, error); break;
    case 16: status = pantile_plan_new(codec, element, &shape.columns, 1, &range, 1, NULL, 0, &made, error); break;
    case 17: status = pantile_code_spec(code, small, sizeof small, &need, error);
             expected = PANTILE_TOO_SMALL; break;
    case 18: status = pantile_code_parse("rs:0+\xff", &none, error); expected = PANTILE_BAD_CODE; break;
    case 19: status = pantile_join(codec, shared(), shape.columns, element, columns[c],
                                   shape.data_cells * element + 1, error); break;
    case 20: { /* the list of columns in a column that is written: `given` itself */
        size_t last = shape.columns - 1;
        given[last] = given;
        states[last] = PANTILE_COLUMN_WANTED;
        status = pantile_reconstruct(codec, given, shape.columns, element, states, error);
        expected = PANTILE_OVERLAP; break;
    }
    case 21: given[c] = states; states[c] = PANTILE_COLUMN_WANTED;
             status = pantile_reconstruct(codec, given, shape.columns, element, states, error);
             expected = PANTILE_OVERLAP; break;
    default: given[c] = given[(c + 1) % shape.columns];
             status = pantile_split(codec, small, 1, given, shape.columns, element, error);
             expected = PANTILE_OVERLAP; break;
    }
    HOLDS(status == expected);
    HOLDS(!error || (error->status == expected && error->message[0] != 0));
    HOLDS(is_true());
}

int main(int argc, char **argv)
{
    unsigned long rounds, round;
    if (argc != 3) {
        fprintf(stderr, "usage: sequence SEED ROUNDS\n");
        return 2;
    }
    state = seed = strtoul(argv[1], NULL, 10);
    rounds = strtoul(argv[2], NULL, 10);
    for (round = 0; round < rounds; round++) {
        size_t left = 1 + below(25);
        begin();
        for (; left > 0; left--, steps++) {
            switch (below(8)) {
            case 0: case 1: reconstruct(); break;
            case 2: update(); break;
            case 3: locate(); break;
            case 4: plan(); break;
            case 5: text(); break;
            case 6: HOLDS(pantile_encode(codec, columns, shape.columns, element, &why) == PANTILE_OK);
                    HOLDS(is_true()); break;
            default: wrong(); break;
            }
        }
        end();
    }
    printf("%lu calls checked, seed %lu\n", steps, seed);
    return 0;
}
