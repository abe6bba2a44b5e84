/* libisal behind a JNI call of the same shape as ours, for the benchmark alone. */
#include <isa-l.h>
#include <jni.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS_MOST 16

/* Which columns are read, which are written, and the tables for that. */
typedef struct prepared {
    int sources, outputs;
    int source[COLUMNS_MOST], output[COLUMNS_MOST];
    unsigned char tables[32 * COLUMNS_MOST * COLUMNS_MOST];
} prepared;

/* Makes the columns of `wanted` of the first k others. */
JNIEXPORT jlong JNICALL Java_pantile_hdfs_Isal_prepare(JNIEnv *env, jclass class, jint k, jint m,
                                                       jintArray wanted) {
    (void)class;
    unsigned char all[COLUMNS_MOST * COLUMNS_MOST], square[COLUMNS_MOST * COLUMNS_MOST];
    unsigned char inverse[COLUMNS_MOST * COLUMNS_MOST], rows[COLUMNS_MOST * COLUMNS_MOST];
    jint list[COLUMNS_MOST];
    prepared *made = calloc(1, sizeof *made);
    if (made == NULL) return 0;
    made->outputs = (*env)->GetArrayLength(env, wanted);
    (*env)->GetIntArrayRegion(env, wanted, 0, made->outputs, list);
    gf_gen_cauchy1_matrix(all, k + m, k);
    for (int column = 0; column < k + m && made->sources < k; column++) {
        int is_wanted = 0;
        for (int i = 0; i < made->outputs; i++) is_wanted |= list[i] == column;
        if (is_wanted) continue;
        memcpy(square + made->sources * k, all + column * k, (size_t)k);
        made->source[made->sources++] = column;
    }
    gf_invert_matrix(square, inverse, k);
    for (int i = 0; i < made->outputs; i++) {
        made->output[i] = list[i];
        for (int j = 0; j < k; j++) {
            unsigned char sum = 0;
            for (int t = 0; t < k; t++) sum ^= gf_mul(all[list[i] * k + t], inverse[t * k + j]);
            rows[i * k + j] = sum;
        }
    }
    ec_init_tables(k, made->outputs, rows, made->tables);
    return (jlong)(uintptr_t)made;
}

JNIEXPORT void JNICALL Java_pantile_hdfs_Isal_run(JNIEnv *env, jclass class, jlong handle,
                                                  jobjectArray buffers, jintArray offsets,
                                                  jint bytes) {
    (void)class;
    prepared *made = (prepared *)(uintptr_t)handle;
    unsigned char *columns[COLUMNS_MOST] = {0}, *from[COLUMNS_MOST], *to[COLUMNS_MOST];
    jint starts[COLUMNS_MOST];
    jsize count = (*env)->GetArrayLength(env, buffers);
    (*env)->GetIntArrayRegion(env, offsets, 0, count, starts);
    for (jsize i = 0; i < count; i++) {
        jobject buffer = (*env)->GetObjectArrayElement(env, buffers, i);
        if (buffer == NULL) continue;
        columns[i] = (unsigned char *)(*env)->GetDirectBufferAddress(env, buffer) + starts[i];
        (*env)->DeleteLocalRef(env, buffer);
    }
    for (int i = 0; i < made->sources; i++) from[i] = columns[made->source[i]];
    for (int i = 0; i < made->outputs; i++) to[i] = columns[made->output[i]];
    ec_encode_data(bytes, made->sources, made->outputs, made->tables, from, to);
}
