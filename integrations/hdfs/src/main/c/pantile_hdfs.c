/* Bridge between the Java classes and the C library: buffers become pointers, answers become
 * exceptions. Nothing is computed here.
 *
 * Every buffer is direct, and is checked here against its capacity. The library checks the rest
 * (pantile.h): counts, overlap, and that the code can compute the wanted units.
 *
 * A codec of a spec is opened once and kept until the process ends, so the Java side never uses one
 * that was closed. A codec of a code's text is closed by the one object that has it. */
#include <jni.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pantile.h"

/* The most columns of a call: a block group of HDFS has no more blocks. */
#define COLUMNS_MOST 16

/* The most columns of a RAIDP code: 64 disks with an add-on each. */
#define ADD_ON_COLUMNS_MOST 128

/* Bytes of each cache of a codec for patterns of losses: enough for all patterns of 16 columns. */
#define CACHE_BYTES ((size_t)4 << 20)

/* Numbers of a finding; pantile.hdfs.Native.locate has the order. */
#define FINDING_NUMBERS 6

/* The most findings of a call: separate ranges have 64 right bytes between them, so the 64 KiB that
 * Java passes at most have fewer. */
#define FINDINGS_MOST 1024

/* The most lost disks and add-ons in one question. */
#define LOST_MOST 16

static void throw_new(JNIEnv *env, const char *class_name, const char *message) {
    jclass class = (*env)->FindClass(env, class_name);
    if (class != NULL) (*env)->ThrowNew(env, class, message);
}

/* Throws the exception for an answer of the library. Its sentence has only ASCII characters, unless
 * it quotes a spec with others; only our own specs get here. */
static void throw_answer(JNIEnv *env, const pantile_error *why) {
    const char *class_name = "java/lang/IllegalArgumentException";
    if (why->status == PANTILE_NOT_RECOVERABLE || why->status == PANTILE_NOTHING_TO_CHECK)
        class_name = "java/io/IOException";
    if (why->status == PANTILE_PANIC) class_name = "java/lang/InternalError";
    throw_new(env, class_name, why->message);
}

static const pantile_codec *codec_of(jlong handle) {
    return (const pantile_codec *)(uintptr_t)handle;
}

/* The columns of a call; a buffer that is null is an absent column. */
typedef struct stripe {
    void *columns[COLUMNS_MOST];
    size_t count;
} stripe;

/* Fills in pointers to `bytes` bytes of each buffer, from its offset on. Returns 0, with an
 * exception, if that is not possible. `offsets` may be NULL and stands for zeros then. */
static int stripe_of(JNIEnv *env, jobjectArray buffers, jintArray offsets, jint bytes,
                     stripe *stripe) {
    char message[160];
    jint starts[COLUMNS_MOST] = {0};
    jsize count = (*env)->GetArrayLength(env, buffers);
    if (count > COLUMNS_MOST || bytes < 0) {
        snprintf(message, sizeof message, "%d columns of %d bytes; at most %d columns are possible",
                 (int)count, (int)bytes, COLUMNS_MOST);
        throw_new(env, "java/lang/IllegalArgumentException", message);
        return 0;
    }
    if (offsets != NULL) {
        /* This throws if there are fewer entries. */
        (*env)->GetIntArrayRegion(env, offsets, 0, count, starts);
        if ((*env)->ExceptionCheck(env)) return 0;
    }
    stripe->count = (size_t)count;
    for (jsize i = 0; i < count; i++) {
        jobject buffer = (*env)->GetObjectArrayElement(env, buffers, i);
        stripe->columns[i] = NULL;
        if (buffer == NULL) continue;
        char *start = (*env)->GetDirectBufferAddress(env, buffer);
        jlong capacity = (*env)->GetDirectBufferCapacity(env, buffer);
        (*env)->DeleteLocalRef(env, buffer);
        if (start == NULL || starts[i] < 0 || (jlong)starts[i] + bytes > capacity) {
            snprintf(message, sizeof message,
                     "column %d is no direct buffer of %d bytes from offset %d on", (int)i,
                     (int)bytes, (int)starts[i]);
            throw_new(env, "java/lang/IllegalArgumentException", message);
            return 0;
        }
        stripe->columns[i] = start + starts[i];
    }
    return 1;
}

JNIEXPORT jstring JNICALL Java_pantile_hdfs_Native_version(JNIEnv *env, jclass class) {
    (void)class;
    return (*env)->NewStringUTF(env, pantile_version());
}

/* Returns the codec of a spec, or of a code's text. */
static jlong open_codec(JNIEnv *env, jstring definition, int is_text) {
    pantile_code *code = NULL;
    pantile_codec *codec = NULL;
    pantile_error why;
    pantile_codec_options options = {sizeof options, CACHE_BYTES, PANTILE_STORES_AUTO};
    const char *text = (*env)->GetStringUTFChars(env, definition, NULL);
    if (text == NULL) return 0;
    pantile_status status = is_text ? pantile_code_from_text(text, strlen(text), 0, &code, &why)
                                    : pantile_code_parse(text, &code, &why);
    (*env)->ReleaseStringUTFChars(env, definition, text);
    if (status == PANTILE_OK) {
        status = pantile_codec_new(code, &options, &codec, &why);
        pantile_code_free(code);
    }
    if (status != PANTILE_OK) throw_answer(env, &why);
    return (jlong)(uintptr_t)codec;
}

JNIEXPORT jlong JNICALL Java_pantile_hdfs_Native_open(JNIEnv *env, jclass class, jstring spec) {
    (void)class;
    return open_codec(env, spec, 0);
}

JNIEXPORT jlong JNICALL Java_pantile_hdfs_Native_openText(JNIEnv *env, jclass class, jstring text) {
    (void)class;
    return open_codec(env, text, 1);
}

JNIEXPORT void JNICALL Java_pantile_hdfs_Native_close(JNIEnv *env, jclass class, jlong codec) {
    (void)env, (void)class;
    pantile_codec_free((pantile_codec *)(uintptr_t)codec);
}

JNIEXPORT void JNICALL Java_pantile_hdfs_Native_solve(JNIEnv *env, jclass class, jlong codec,
                                                      jobject unknowns, jint unknown_rows,
                                                      jobject sums, jint sum_rows, jint bytes) {
    (void)class;
    pantile_error why;
    const uint8_t states[2] = {PANTILE_COLUMN_WANTED, PANTILE_COLUMN_PRESENT};
    void *columns[2] = {(*env)->GetDirectBufferAddress(env, unknowns),
                        (*env)->GetDirectBufferAddress(env, sums)};
    if (columns[0] == NULL || columns[1] == NULL || unknown_rows < 0 || sum_rows < 0 || bytes < 0 ||
        (jlong)unknown_rows * bytes > (*env)->GetDirectBufferCapacity(env, unknowns) ||
        (jlong)sum_rows * bytes > (*env)->GetDirectBufferCapacity(env, sums)) {
        throw_new(env, "java/lang/IllegalArgumentException",
                  "a column is no direct buffer of so many rows of so many bytes");
        return;
    }
    if (pantile_reconstruct(codec_of(codec), columns, 2, (size_t)bytes, states, &why))
        throw_answer(env, &why);
}

JNIEXPORT jboolean JNICALL Java_pantile_hdfs_Native_survives(JNIEnv *env, jclass class, jlong codec,
                                                             jint disks, jintArray lost) {
    (void)class;
    pantile_error why;
    pantile_plan *plan = NULL;
    jint numbers[LOST_MOST];
    size_t columns[LOST_MOST], wanted_count = 0;
    pantile_range wanted[LOST_MOST];
    jsize count = (*env)->GetArrayLength(env, lost);
    if (count > LOST_MOST || disks < 2) {
        throw_new(env, "java/lang/IllegalArgumentException", "too many lost columns, or no disks");
        return JNI_FALSE;
    }
    (*env)->GetIntArrayRegion(env, lost, 0, count, numbers);
    for (jsize i = 0; i < count; i++) {
        columns[i] = (size_t)numbers[i];
        if (numbers[i] < disks)
            wanted[wanted_count++] = (pantile_range){columns[i], 0, (size_t)disks - 1};
    }
    pantile_status status = pantile_plan_new(codec_of(codec), 1, columns, (size_t)count, wanted,
                                             wanted_count, NULL, 0, &plan, &why);
    pantile_plan_free(plan);
    if (status != PANTILE_OK && status != PANTILE_NOT_RECOVERABLE) throw_answer(env, &why);
    return status == PANTILE_OK;
}

JNIEXPORT void JNICALL Java_pantile_hdfs_Native_encode(JNIEnv *env, jclass class, jlong codec,
                                                       jobjectArray buffers, jintArray offsets,
                                                       jint bytes) {
    (void)class;
    stripe stripe;
    pantile_error why;
    if (!stripe_of(env, buffers, offsets, bytes, &stripe)) return;
    if (pantile_encode(codec_of(codec), stripe.columns, stripe.count, (size_t)bytes, &why))
        throw_answer(env, &why);
}

JNIEXPORT void JNICALL Java_pantile_hdfs_Native_reconstruct(JNIEnv *env, jclass class, jlong codec,
                                                            jobjectArray buffers,
                                                            jintArray offsets, jbyteArray states,
                                                            jint bytes) {
    (void)class;
    stripe stripe;
    pantile_error why;
    jbyte state[COLUMNS_MOST];
    if (!stripe_of(env, buffers, offsets, bytes, &stripe)) return;
    /* This throws if there are fewer entries. */
    (*env)->GetByteArrayRegion(env, states, 0, (jsize)stripe.count, state);
    if ((*env)->ExceptionCheck(env)) return;
    if (pantile_reconstruct(codec_of(codec), stripe.columns, stripe.count, (size_t)bytes,
                            (const uint8_t *)state, &why))
        throw_answer(env, &why);
}

JNIEXPORT jlongArray JNICALL Java_pantile_hdfs_Native_locate(JNIEnv *env, jclass class, jlong codec,
                                                             jobjectArray buffers, jint bytes) {
    (void)class;
    stripe stripe;
    pantile_error why;
    size_t need = 0;
    if (!stripe_of(env, buffers, NULL, bytes, &stripe)) return NULL;
    const void *const *columns = (const void *const *)stripe.columns;
    /* A check without a list of findings is the cheapest way to learn if there is any. */
    size_t fault = PANTILE_NONE;
    if (pantile_verify(codec_of(codec), columns, stripe.count, (size_t)bytes, &fault, &why)) {
        throw_answer(env, &why);
        return NULL;
    }
    if (fault == PANTILE_NONE) return (*env)->NewLongArray(env, 0);
    pantile_finding *findings = malloc(FINDINGS_MOST * sizeof *findings);
    if (findings == NULL) {
        throw_new(env, "java/lang/OutOfMemoryError", "no memory for findings");
        return NULL;
    }
    pantile_status status = pantile_locate(codec_of(codec), columns, stripe.count, (size_t)bytes,
                                           findings, FINDINGS_MOST, &need, &why);
    jlongArray list = NULL;
    if (status != PANTILE_OK) {
        throw_answer(env, &why);
    } else {
        list = (*env)->NewLongArray(env, (jsize)(need * FINDING_NUMBERS));
    }
    for (size_t i = 0; list != NULL && i < need; i++) {
        jlong mask = 0;
        for (uint16_t c = 0; c < findings[i].column_count; c++)
            mask |= (jlong)1 << findings[i].columns[c];
        jlong numbers[FINDING_NUMBERS] = {
            (jlong)findings[i].offset,        (jlong)findings[i].bytes,
            (jlong)findings[i].verdict,       (jlong)findings[i].evidence_bits,
            (jlong)findings[i].is_certain,    mask,
        };
        (*env)->SetLongArrayRegion(env, list, (jsize)(i * FINDING_NUMBERS), FINDING_NUMBERS,
                                   numbers);
    }
    free(findings);
    return list;
}

/* Fills in, for each cell of a superchunk, the disk that has its other copy: the column of the
 * other term of an equation of two. */
static pantile_status partners_of(const pantile_code *code, const pantile_shape *shape,
                                  size_t *partners, pantile_error *why) {
    pantile_status status = PANTILE_OK;
    for (size_t e = 0; status == PANTILE_OK && e < shape->equations; e++) {
        pantile_term terms[ADD_ON_COLUMNS_MOST];
        pantile_cell one, other;
        size_t need = 0;
        status = pantile_code_equation(code, e, terms, ADD_ON_COLUMNS_MOST, &need, why);
        if (status != PANTILE_OK || need != 2) continue;
        status = pantile_code_cell(code, terms[0].cell, &one, why);
        if (status == PANTILE_OK) status = pantile_code_cell(code, terms[1].cell, &other, why);
        if (status != PANTILE_OK) break;
        partners[terms[0].cell] = other.column;
        partners[terms[1].cell] = one.column;
    }
    return status;
}

/* Fills in the coefficients of the equations of more than two terms, each of which has one cell of
 * an add-on. Returns a status, with `is_raidp` 0 if there is an equation of another form. */
static pantile_status weights_of(const pantile_code *code, const pantile_shape *shape, size_t disks,
                                 const size_t *partners, jint *weights, int *is_raidp,
                                 pantile_error *why) {
    pantile_status status = PANTILE_OK;
    *is_raidp = 1;
    for (size_t e = 0; status == PANTILE_OK && e < shape->equations; e++) {
        pantile_term terms[ADD_ON_COLUMNS_MOST];
        pantile_cell cell = {0};
        size_t need = 0, disk = PANTILE_NONE;
        status = pantile_code_equation(code, e, terms, ADD_ON_COLUMNS_MOST, &need, why);
        if (status != PANTILE_OK || need == 2) continue;
        for (size_t t = 0; status == PANTILE_OK && t < need; t++) {
            status = pantile_code_cell(code, terms[t].cell, &cell, why);
            if (status == PANTILE_OK && cell.column >= disks) {
                *is_raidp &= disk == PANTILE_NONE && terms[t].coefficient == 1;
                disk = cell.column - disks;
            }
        }
        for (size_t t = 0; status == PANTILE_OK && t < need; t++) {
            status = pantile_code_cell(code, terms[t].cell, &cell, why);
            if (status != PANTILE_OK || cell.column >= disks) continue;
            size_t partner = partners[terms[t].cell];
            if (cell.column == disk && partner < disks)
                weights[disk * disks + partner] = terms[t].coefficient;
            else
                *is_raidp = 0;
        }
    }
    return status;
}

JNIEXPORT jintArray JNICALL Java_pantile_hdfs_Native_weights(JNIEnv *env, jclass class,
                                                             jstring spec, jint disks) {
    (void)class;
    pantile_code *code = NULL;
    pantile_error why;
    pantile_shape shape = {.struct_bytes = sizeof shape};
    jintArray list = NULL;
    jint *weights = NULL;
    size_t *partners = NULL;
    int is_raidp = 0;
    if (disks < 2 || 2 * disks > ADD_ON_COLUMNS_MOST) {
        throw_new(env, "java/lang/IllegalArgumentException", "no so many disks");
        return NULL;
    }
    const char *text = (*env)->GetStringUTFChars(env, spec, NULL);
    if (text == NULL) return NULL;
    pantile_status status = pantile_code_parse(text, &code, &why);
    (*env)->ReleaseStringUTFChars(env, spec, text);
    if (status == PANTILE_OK) status = pantile_code_shape(code, &shape, &why);
    if (status != PANTILE_OK) goto done;
    weights = calloc((size_t)disks * (size_t)disks, sizeof *weights);
    partners = malloc(shape.cells * sizeof *partners);
    if (weights == NULL || partners == NULL) {
        throw_new(env, "java/lang/OutOfMemoryError", "no memory for the weights of superchunks");
        goto done;
    }
    for (size_t cell = 0; cell < shape.cells; cell++) partners[cell] = PANTILE_NONE;
    status = partners_of(code, &shape, partners, &why);
    if (status == PANTILE_OK)
        status = weights_of(code, &shape, (size_t)disks, partners, weights, &is_raidp, &why);
    if (status != PANTILE_OK) goto done;
    if (!is_raidp) {
        throw_new(env, "java/lang/IllegalArgumentException", "this is no code of RAIDP");
        goto done;
    }
    list = (*env)->NewIntArray(env, disks * disks);
    if (list != NULL) (*env)->SetIntArrayRegion(env, list, 0, disks * disks, weights);
done:
    if (status != PANTILE_OK) throw_answer(env, &why);
    free(partners);
    free(weights);
    pantile_code_free(code);
    return list;
}

JNIEXPORT void JNICALL Java_pantile_hdfs_Native_fold(JNIEnv *env, jclass class, jlong codec,
                                                     jobject parity, jint parity_offset,
                                                     jobject content, jint content_offset,
                                                     jint bytes) {
    (void)class;
    pantile_error why;
    char *sum = (*env)->GetDirectBufferAddress(env, parity);
    const char *term = (*env)->GetDirectBufferAddress(env, content);
    if (sum == NULL || term == NULL || bytes < 0 || parity_offset < 0 || content_offset < 0 ||
        (jlong)parity_offset + bytes > (*env)->GetDirectBufferCapacity(env, parity) ||
        (jlong)content_offset + bytes > (*env)->GetDirectBufferCapacity(env, content)) {
        throw_new(env, "java/lang/IllegalArgumentException", "no direct buffer of so many bytes");
        return;
    }
    void *columns[2] = {NULL, sum + parity_offset};
    if (pantile_update_parity(codec_of(codec), columns, 2, (size_t)bytes, 0, 0,
                              term + content_offset, (size_t)bytes, &why))
        throw_answer(env, &why);
}
