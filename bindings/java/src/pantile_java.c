/* Bridge between the Java classes and the C library: arrays and direct buffers become pointers,
 * answers become exceptions. Nothing is computed here.
 *
 * The Java side has checked the lengths of arrays, and passes handles only of open codecs and plans.
 * Arrays are not copied: they stay in place from take() to give(), between which the rules of JNI
 * forbid every other call of Java. */
#include <jni.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pantile.h"

/* The most shards of a call: pantile.Stripe.SHARDS_MOST, and one more for content or data. */
#define SHARDS_MOST 1025

/* Numbers of a finding before its columns, and of a range: pantile.Native has the order. */
#define FINDING_NUMBERS 6
#define RANGE_NUMBERS 3

/* A code with its codec. */
typedef struct owned {
    pantile_code *code;
    pantile_codec *codec;
} owned;

/* The shards of a call, or of several stripes; one that is null is missing. */
typedef struct stripe {
    jsize count;
    int is_direct;
    jbyteArray arrays[SHARDS_MOST];
    void *columns[SHARDS_MOST];
} stripe;

static const owned *owned_of(jlong handle) { return (const owned *)(uintptr_t)handle; }

static const pantile_codec *codec_of(jlong handle) { return owned_of(handle)->codec; }

/* Throws the exception that Native.failed makes of a status and a message, which is UTF-8. */
static void throw_status(JNIEnv *env, jclass native, pantile_status status, const char *message) {
    jsize length = (jsize)strlen(message);
    jbyteArray bytes = (*env)->NewByteArray(env, length);
    if (bytes == NULL) return;
    (*env)->SetByteArrayRegion(env, bytes, 0, length, (const jbyte *)message);
    jmethodID failed =
        (*env)->GetStaticMethodID(env, native, "failed", "(I[B)Ljava/lang/Throwable;");
    if (failed == NULL) return;
    jobject thrown = (*env)->CallStaticObjectMethod(env, native, failed, (jint)status, bytes);
    if (!(*env)->ExceptionCheck(env)) (*env)->Throw(env, thrown);
}

static void throw_answer(JNIEnv *env, jclass native, const pantile_error *why) {
    throw_status(env, native, why->status, why->message);
}

static void throw_memory(JNIEnv *env) {
    jclass class = (*env)->FindClass(env, "java/lang/OutOfMemoryError");
    if (class != NULL) (*env)->ThrowNew(env, class, "no memory for a call of the native library");
}

/* Gives the shards back; `mode` is 0 if some were written, else JNI_ABORT. */
static void give(JNIEnv *env, stripe *stripe, jint mode) {
    for (jsize i = stripe->count; !stripe->is_direct && i-- > 0;)
        if (stripe->columns[i] != NULL)
            (*env)->ReleasePrimitiveArrayCritical(env, stripe->arrays[i], stripe->columns[i], mode);
    (*env)->PopLocalFrame(env, NULL);
}

/* Takes the addresses of shards. `places` has offset and length of each direct buffer; NULL if the
 * shards are arrays. Returns 0, with an exception and nothing taken, if that is not possible. */
static int take(JNIEnv *env, jclass native, jobjectArray shards, jintArray places, stripe *stripe) {
    jint place[2 * SHARDS_MOST];
    jsize i;

    stripe->count = (*env)->GetArrayLength(env, shards);
    stripe->is_direct = places != NULL;
    if (stripe->count > SHARDS_MOST) {
        throw_status(env, native, PANTILE_BAD_ARGUMENT, "too many shards for one call");
        return 0;
    }
    if (places != NULL) {
        (*env)->GetIntArrayRegion(env, places, 0, 2 * stripe->count, place);
        if ((*env)->ExceptionCheck(env)) return 0;
    }
    if ((*env)->PushLocalFrame(env, stripe->count) != 0) return 0;
    for (i = 0; i < stripe->count; i++) {
        jobject shard = (*env)->GetObjectArrayElement(env, shards, i);
        stripe->columns[i] = NULL;
        stripe->arrays[i] = shard;
        if (shard == NULL || places == NULL) continue;
        char *start = (*env)->GetDirectBufferAddress(env, shard);
        jint offset = place[2 * i], length = place[2 * i + 1];
        if (start == NULL || offset < 0 || length < 0 ||
            (jlong)offset + length > (*env)->GetDirectBufferCapacity(env, shard)) {
            (*env)->PopLocalFrame(env, NULL);
            throw_status(env, native, PANTILE_BAD_ARGUMENT, "a shard changed during the call");
            return 0;
        }
        stripe->columns[i] = start + offset;
    }
    for (i = 0; places == NULL && i < stripe->count; i++) {
        if (stripe->arrays[i] == NULL) continue;
        stripe->columns[i] = (*env)->GetPrimitiveArrayCritical(env, stripe->arrays[i], NULL);
        if (stripe->columns[i] == NULL) {
            give(env, stripe, JNI_ABORT); /* those that follow are NULL still */
            if (!(*env)->ExceptionCheck(env)) throw_memory(env);
            return 0;
        }
    }
    return 1;
}

JNIEXPORT jstring JNICALL Java_pantile_Native_version(JNIEnv *env, jclass native) {
    (void)native;
    return (*env)->NewStringUTF(env, pantile_version());
}

JNIEXPORT jlong JNICALL Java_pantile_Native_open(JNIEnv *env, jclass native, jbyteArray definition,
                                                 jboolean is_file) {
    pantile_error why;
    pantile_status status;
    jsize length = (*env)->GetArrayLength(env, definition);
    owned *owned = calloc(1, sizeof *owned);
    char *text = malloc((size_t)length + 1);
    if (owned == NULL || text == NULL) {
        free(owned);
        free(text);
        throw_memory(env);
        return 0;
    }
    (*env)->GetByteArrayRegion(env, definition, 0, length, (jbyte *)text);
    text[length] = 0;
    status = is_file ? pantile_code_from_text(text, (size_t)length, 0, &owned->code, &why)
                     : pantile_code_parse(text, &owned->code, &why);
    free(text);
    if (status == PANTILE_OK) status = pantile_codec_new(owned->code, NULL, &owned->codec, &why);
    if (status == PANTILE_OK) return (jlong)(uintptr_t)owned;
    pantile_code_free(owned->code);
    free(owned);
    throw_answer(env, native, &why);
    return 0;
}

JNIEXPORT void JNICALL Java_pantile_Native_close(JNIEnv *env, jclass native, jlong handle) {
    owned *owned = (struct owned *)(uintptr_t)handle;
    (void)env, (void)native;
    pantile_codec_free(owned->codec);
    pantile_code_free(owned->code);
    free(owned);
}

JNIEXPORT jlongArray JNICALL Java_pantile_Native_shape(JNIEnv *env, jclass native, jlong handle) {
    pantile_error why;
    pantile_shape shape = {.struct_bytes = sizeof shape};
    jlongArray list = NULL;
    jlong *numbers;

    if (pantile_code_shape(owned_of(handle)->code, &shape, &why) != PANTILE_OK) {
        throw_answer(env, native, &why);
        return NULL;
    }
    numbers = calloc(3 + 3 * shape.columns, sizeof *numbers);
    if (numbers == NULL) {
        throw_memory(env);
        return NULL;
    }
    numbers[0] = (jlong)shape.columns;
    numbers[1] = (jlong)shape.tolerance;
    numbers[2] = (jlong)shape.fingerprint;
    for (size_t i = 0; i < shape.cells; i++) {
        pantile_cell cell;
        if (pantile_code_cell(owned_of(handle)->code, i, &cell, &why) != PANTILE_OK) {
            free(numbers);
            throw_answer(env, native, &why);
            return NULL;
        }
        numbers[3 + 3 * cell.column]++;
        numbers[4 + 3 * cell.column] += cell.position != PANTILE_NONE;
        numbers[5 + 3 * cell.column] += cell.position == PANTILE_NONE;
    }
    list = (*env)->NewLongArray(env, (jsize)(3 + 3 * shape.columns));
    if (list != NULL)
        (*env)->SetLongArrayRegion(env, list, 0, (jsize)(3 + 3 * shape.columns), numbers);
    free(numbers);
    return list;
}

JNIEXPORT jbyteArray JNICALL Java_pantile_Native_text(JNIEnv *env, jclass native, jlong handle,
                                                      jboolean is_file) {
    const pantile_code *code = owned_of(handle)->code;
    pantile_error why;
    size_t need = 0;
    jbyteArray bytes = NULL;
    char *text = NULL;
    pantile_status status = is_file ? pantile_code_text(code, NULL, 0, &need, &why)
                                    : pantile_code_spec(code, NULL, 0, &need, &why);
    if (status == PANTILE_TOO_SMALL) {
        text = malloc(need);
        if (text == NULL) {
            throw_memory(env);
            return NULL;
        }
        status = is_file ? pantile_code_text(code, text, need, &need, &why)
                         : pantile_code_spec(code, text, need, &need, &why);
    }
    if (status != PANTILE_OK) {
        throw_answer(env, native, &why);
    } else {
        bytes = (*env)->NewByteArray(env, (jsize)need - 1);
        if (bytes != NULL)
            (*env)->SetByteArrayRegion(env, bytes, 0, (jsize)need - 1, (const jbyte *)text);
    }
    free(text);
    return bytes;
}

JNIEXPORT void JNICALL Java_pantile_Native_encode(JNIEnv *env, jclass native, jlong codec,
                                                  jobjectArray shards, jintArray places,
                                                  jint columns, jint element, jint first) {
    stripe stripe;
    pantile_error why, named;
    pantile_status status = PANTILE_OK;
    jsize at = 0;

    if (!take(env, native, shards, places, &stripe)) return;
    for (; at < stripe.count && status == PANTILE_OK; at += columns)
        status = pantile_encode(codec_of(codec), stripe.columns + at, (size_t)columns,
                                (size_t)element, &why);
    give(env, &stripe, 0);
    if (status == PANTILE_OK) return;
    named = why;
    if (first >= 0) {
        int begin = snprintf(named.message, sizeof named.message,
                             "stripe %d: ", (int)(first + at / columns - 1));
        memcpy(named.message + begin, why.message, sizeof why.message - (size_t)begin);
        named.message[sizeof named.message - 1] = 0;
    }
    throw_answer(env, native, &named);
}

JNIEXPORT void JNICALL Java_pantile_Native_reconstruct(JNIEnv *env, jclass native, jlong codec,
                                                       jobjectArray shards, jintArray places,
                                                       jbyteArray states, jint element) {
    stripe stripe;
    pantile_error why;
    jbyte state[PANTILE_COLUMNS_MOST] = {0};
    jsize count = (*env)->GetArrayLength(env, states);

    (*env)->GetByteArrayRegion(env, states, 0, count, state);
    if (!take(env, native, shards, places, &stripe)) return;
    pantile_status status =
        pantile_reconstruct(codec_of(codec), stripe.columns, (size_t)stripe.count, (size_t)element,
                            (const uint8_t *)state, &why);
    give(env, &stripe, 0);
    if (status != PANTILE_OK) throw_answer(env, native, &why);
}

JNIEXPORT jboolean JNICALL Java_pantile_Native_verify(JNIEnv *env, jclass native, jlong codec,
                                                      jobjectArray shards, jintArray places,
                                                      jint element) {
    stripe stripe;
    pantile_error why;
    size_t fault = 0;

    if (!take(env, native, shards, places, &stripe)) return JNI_FALSE;
    pantile_status status =
        pantile_verify(codec_of(codec), (const void *const *)stripe.columns, (size_t)stripe.count,
                       (size_t)element, &fault, &why);
    give(env, &stripe, JNI_ABORT);
    if (status != PANTILE_OK) throw_answer(env, native, &why);
    return status == PANTILE_OK && fault == PANTILE_NONE;
}

JNIEXPORT void JNICALL Java_pantile_Native_update(JNIEnv *env, jclass native, jlong codec,
                                                  jobjectArray shards, jintArray places,
                                                  jint element, jint position, jint offset,
                                                  jint bytes, jboolean is_parity_alone) {
    stripe stripe;
    pantile_error why;

    if (!take(env, native, shards, places, &stripe)) return;
    size_t count = (size_t)stripe.count - 1; /* the content is the last one */
    pantile_status status =
        (is_parity_alone ? pantile_update_parity : pantile_update)(
            codec_of(codec), stripe.columns, count, (size_t)element, (size_t)position,
            (size_t)offset, stripe.columns[count], (size_t)bytes, &why);
    give(env, &stripe, 0);
    if (status != PANTILE_OK) throw_answer(env, native, &why);
}

JNIEXPORT jlong JNICALL Java_pantile_Native_splitBytes(JNIEnv *env, jclass native, jlong codec,
                                                       jlong bytes) {
    pantile_error why;
    size_t element = 0;
    if (pantile_split_bytes(codec_of(codec), (size_t)bytes, &element, &why) != PANTILE_OK)
        throw_answer(env, native, &why);
    return (jlong)element;
}

JNIEXPORT void JNICALL Java_pantile_Native_split(JNIEnv *env, jclass native, jlong codec,
                                                 jobjectArray shards, jintArray places,
                                                 jint element, jint bytes) {
    stripe stripe;
    pantile_error why;

    if (!take(env, native, shards, places, &stripe)) return;
    size_t count = (size_t)stripe.count - 1; /* the data are the last one */
    pantile_status status =
        pantile_split(codec_of(codec), stripe.columns[count], (size_t)bytes, stripe.columns, count,
                      (size_t)element, &why);
    give(env, &stripe, 0);
    if (status != PANTILE_OK) throw_answer(env, native, &why);
}

JNIEXPORT void JNICALL Java_pantile_Native_join(JNIEnv *env, jclass native, jlong codec,
                                                jobjectArray shards, jintArray places, jint element,
                                                jint bytes) {
    stripe stripe;
    pantile_error why;

    if (!take(env, native, shards, places, &stripe)) return;
    size_t count = (size_t)stripe.count - 1; /* the data are the last one */
    pantile_status status =
        pantile_join(codec_of(codec), (const void *const *)stripe.columns, count, (size_t)element,
                     stripe.columns[count], (size_t)bytes, &why);
    give(env, &stripe, 0);
    if (status != PANTILE_OK) throw_answer(env, native, &why);
}

JNIEXPORT jlongArray JNICALL Java_pantile_Native_locate(JNIEnv *env, jclass native, jlong codec,
                                                        jobjectArray shards, jintArray places,
                                                        jint element) {
    stripe stripe;
    pantile_error why;
    pantile_finding *findings = NULL;
    size_t room = 0, need = 0, numbers = 0, at = 0;
    pantile_status status;
    jlongArray list;
    jlong *all;

    if (!take(env, native, shards, places, &stripe)) return NULL;
    /* Once for the number of findings, which is mostly 0, and once for these. */
    do {
        free(findings);
        room = need;
        findings = room == 0 ? NULL : malloc(room * sizeof *findings);
        status = room > 0 && findings == NULL
                     ? PANTILE_OK
                     : pantile_locate(codec_of(codec), (const void *const *)stripe.columns,
                                      (size_t)stripe.count, (size_t)element, findings, room, &need,
                                      &why);
    } while (status == PANTILE_TOO_SMALL && need > room);
    give(env, &stripe, JNI_ABORT);
    if (status != PANTILE_OK) {
        free(findings);
        throw_answer(env, native, &why);
        return NULL;
    }
    for (size_t i = 0; findings != NULL && i < need; i++)
        numbers += FINDING_NUMBERS + findings[i].column_count;
    all = malloc((numbers + 1) * sizeof *all);
    if ((need > 0 && findings == NULL) || all == NULL) {
        free(findings);
        free(all);
        throw_memory(env);
        return NULL;
    }
    for (size_t i = 0; i < need; i++) {
        const pantile_finding *one = &findings[i];
        all[at++] = (jlong)one->offset;
        all[at++] = (jlong)one->bytes;
        all[at++] = (jlong)one->verdict;
        all[at++] = (jlong)one->evidence_bits;
        all[at++] = (jlong)one->is_certain;
        all[at++] = (jlong)one->column_count;
        for (uint16_t c = 0; c < one->column_count; c++) all[at++] = (jlong)one->columns[c];
    }
    list = (*env)->NewLongArray(env, (jsize)numbers);
    if (list != NULL) (*env)->SetLongArrayRegion(env, list, 0, (jsize)numbers, all);
    free(findings);
    free(all);
    return list;
}

JNIEXPORT jlong JNICALL Java_pantile_Native_plan(JNIEnv *env, jclass native, jlong codec,
                                                 jint element, jlongArray lost, jlongArray wanted,
                                                 jintArray costs) {
    pantile_error why;
    pantile_plan *plan = NULL;
    jsize lost_count = (*env)->GetArrayLength(env, lost);
    jsize wanted_count = (*env)->GetArrayLength(env, wanted) / RANGE_NUMBERS;
    jsize cost_count = costs == NULL ? 0 : (*env)->GetArrayLength(env, costs);
    jlong *columns = calloc((size_t)lost_count + 1, sizeof *columns);
    jlong *numbers = calloc(RANGE_NUMBERS * (size_t)wanted_count + 1, sizeof *numbers);
    size_t *list = calloc((size_t)lost_count + 1, sizeof *list);
    pantile_range *ranges = calloc((size_t)wanted_count + 1, sizeof *ranges);
    jint *prices = calloc((size_t)cost_count + 1, sizeof *prices);

    if (columns == NULL || numbers == NULL || list == NULL || ranges == NULL || prices == NULL) {
        throw_memory(env);
        goto done;
    }
    (*env)->GetLongArrayRegion(env, lost, 0, lost_count, columns);
    (*env)->GetLongArrayRegion(env, wanted, 0, RANGE_NUMBERS * wanted_count, numbers);
    if (costs != NULL) (*env)->GetIntArrayRegion(env, costs, 0, cost_count, prices);
    for (jsize i = 0; i < lost_count; i++) list[i] = (size_t)columns[i];
    for (jsize i = 0; i < wanted_count; i++) {
        const jlong *range = numbers + RANGE_NUMBERS * i;
        ranges[i] = (pantile_range){(size_t)range[0], (size_t)range[1], (size_t)range[2]};
    }
    if (pantile_plan_new(codec_of(codec), (size_t)element, list, (size_t)lost_count, ranges,
                         (size_t)wanted_count, costs == NULL ? NULL : (const uint32_t *)prices,
                         (size_t)cost_count, &plan, &why) != PANTILE_OK)
        throw_answer(env, native, &why);
done:
    free(columns);
    free(numbers);
    free(list);
    free(ranges);
    free(prices);
    return (jlong)(uintptr_t)plan;
}

JNIEXPORT void JNICALL Java_pantile_Native_closePlan(JNIEnv *env, jclass native, jlong plan) {
    (void)env, (void)native;
    pantile_plan_free((pantile_plan *)(uintptr_t)plan);
}

JNIEXPORT jlongArray JNICALL Java_pantile_Native_reads(JNIEnv *env, jclass native, jlong plan) {
    const pantile_plan *of = (const pantile_plan *)(uintptr_t)plan;
    pantile_error why;
    uint64_t cost = 0, at_least = 0;
    size_t need = 0;
    jlongArray list = NULL;
    pantile_range *reads = NULL;

    pantile_plan_reads(of, NULL, 0, &need, NULL);
    reads = calloc(need + 1, sizeof *reads);
    if (reads == NULL) {
        throw_memory(env);
        return NULL;
    }
    if (pantile_plan_reads(of, reads, need, &need, &why) != PANTILE_OK ||
        pantile_plan_cost(of, &cost, &at_least, &why) != PANTILE_OK) {
        throw_answer(env, native, &why);
    } else {
        list = (*env)->NewLongArray(env, (jsize)(2 + RANGE_NUMBERS * need));
        jlong costs[2] = {(jlong)cost, (jlong)at_least};
        if (list != NULL) (*env)->SetLongArrayRegion(env, list, 0, 2, costs);
        for (size_t i = 0; list != NULL && i < need; i++) {
            jlong range[RANGE_NUMBERS] = {(jlong)reads[i].column, (jlong)reads[i].offset,
                                          (jlong)reads[i].bytes};
            (*env)->SetLongArrayRegion(env, list, (jsize)(2 + RANGE_NUMBERS * i), RANGE_NUMBERS,
                                       range);
        }
    }
    free(reads);
    return list;
}

JNIEXPORT void JNICALL Java_pantile_Native_run(JNIEnv *env, jclass native, jlong plan,
                                               jobjectArray shards, jintArray places) {
    stripe stripe;
    pantile_error why;

    if (!take(env, native, shards, places, &stripe)) return;
    pantile_status status = pantile_plan_run((const pantile_plan *)(uintptr_t)plan, stripe.columns,
                                             (size_t)stripe.count, &why);
    give(env, &stripe, 0);
    if (status != PANTILE_OK) throw_answer(env, native, &why);
}
