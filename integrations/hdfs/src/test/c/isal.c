/* Calls libisal.so.2 as libhadoop does: it is opened by name when the program runs, its functions
 * are looked up, and called in libhadoop's order. The library that the loader has under that name
 * is called: ours in the test, the distribution's in the benchmark.
 *
 * The shape of the JNI calls is that of src/main/c/pantile_hdfs.c. Nothing is checked. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <jni.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS_MOST 16

/* The functions that libhadoop looks up, and without which it does not start its coders; it calls
 * the first five. */
static struct {
    void (*gf_gen_cauchy1_matrix)(unsigned char *, int, int);
    int (*gf_invert_matrix)(unsigned char *, unsigned char *, int);
    unsigned char (*gf_mul)(unsigned char, unsigned char);
    void (*ec_init_tables)(int, int, unsigned char *, unsigned char *);
    void (*ec_encode_data)(int, int, int, unsigned char *, unsigned char **, unsigned char **);
    void (*ec_encode_data_update)(int, int, int, int, unsigned char *, unsigned char *,
                                  unsigned char **);
    unsigned char (*gf_inv)(unsigned char);
    void (*gf_gen_rs_matrix)(unsigned char *, int, int);
    int (*gf_vect_mul)(int, unsigned char *, void *, void *);
} isal;

static const struct {
    const char *name;
    void *place;
} functions[] = {
    {"gf_mul", &isal.gf_mul},
    {"gf_inv", &isal.gf_inv},
    {"gf_gen_rs_matrix", &isal.gf_gen_rs_matrix},
    {"gf_gen_cauchy1_matrix", &isal.gf_gen_cauchy1_matrix},
    {"gf_invert_matrix", &isal.gf_invert_matrix},
    {"gf_vect_mul", &isal.gf_vect_mul},
    {"ec_init_tables", &isal.ec_init_tables},
    {"ec_encode_data", &isal.ec_encode_data},
    {"ec_encode_data_update", &isal.ec_encode_data_update},
};

/* A coder: the columns to read, the columns to write, and the tables. */
typedef struct coder {
    int k, m, outputs;
    int source[COLUMNS_MOST], output[COLUMNS_MOST];
    unsigned char generator[COLUMNS_MOST * COLUMNS_MOST];
    unsigned char tables[32 * COLUMNS_MOST * COLUMNS_MOST];
} coder;

static jstring failed(JNIEnv *env, const char *what, const char *which) {
    char message[512];
    snprintf(message, sizeof message, "%s: %s", what, which == NULL ? "" : which);
    (*env)->ThrowNew(env, (*env)->FindClass(env, "java/lang/UnsatisfiedLinkError"), message);
    return NULL;
}

/* Opens the library. Returns the path of its file, as libhadoop logs it. */
JNIEXPORT jstring JNICALL Java_pantile_hdfs_Isal_open(JNIEnv *env, jclass class) {
    (void)class;
    void *library = dlopen("libisal.so.2", RTLD_LAZY | RTLD_GLOBAL);
    if (library == NULL) return failed(env, "libisal.so.2 cannot be opened", dlerror());
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *found = dlsym(library, functions[i].name);
        if (found == NULL) return failed(env, "libisal.so.2 lacks", functions[i].name);
        memcpy(functions[i].place, &found, sizeof found);
    }
    Dl_info file;
    void *encode = dlsym(library, "ec_encode_data");
    if (!dladdr(encode, &file)) return failed(env, "no file has", "ec_encode_data");
    return (*env)->NewStringUTF(env, file.dli_fname);
}

JNIEXPORT jlong JNICALL Java_pantile_hdfs_Isal_encoder(JNIEnv *env, jclass class, jint k, jint m) {
    (void)env, (void)class;
    coder *made = calloc(1, sizeof *made);
    if (made == NULL) return 0;
    *made = (coder){.k = k, .m = m, .outputs = m};
    for (int i = 0; i < k; i++) made->source[i] = i;
    for (int i = 0; i < m; i++) made->output[i] = k + i;
    isal.gf_gen_cauchy1_matrix(made->generator, k + m, k);
    isal.ec_init_tables(k, m, made->generator + k * k, made->tables);
    return (jlong)(uintptr_t)made;
}

/* Turns a coder into one that makes the columns of `wanted`, data before parity, of the k columns
 * of `sources`: rows of the inverse for data, sums of products for parity. */
JNIEXPORT void JNICALL Java_pantile_hdfs_Isal_decodes(JNIEnv *env, jclass class, jlong handle,
                                                      jintArray sources, jintArray wanted) {
    (void)class;
    coder *coder = (struct coder *)(uintptr_t)handle;
    unsigned char square[COLUMNS_MOST * COLUMNS_MOST], inverse[COLUMNS_MOST * COLUMNS_MOST];
    unsigned char rows[COLUMNS_MOST * COLUMNS_MOST];
    int k = coder->k;
    coder->outputs = (*env)->GetArrayLength(env, wanted);
    (*env)->GetIntArrayRegion(env, sources, 0, k, coder->source);
    (*env)->GetIntArrayRegion(env, wanted, 0, coder->outputs, coder->output);
    for (int i = 0; i < k; i++)
        memcpy(square + i * k, coder->generator + coder->source[i] * k, (size_t)k);
    isal.gf_invert_matrix(square, inverse, k);
    for (int i = 0; i < coder->outputs; i++) {
        int column = coder->output[i];
        if (column < k) {
            memcpy(rows + i * k, inverse + column * k, (size_t)k);
            continue;
        }
        for (int j = 0; j < k; j++) {
            unsigned char sum = 0;
            for (int t = 0; t < k; t++)
                sum ^= isal.gf_mul(inverse[t * k + j], coder->generator[column * k + t]);
            rows[i * k + j] = sum;
        }
    }
    isal.ec_init_tables(k, coder->outputs, rows, coder->tables);
}

/* Makes the outputs in one call, or, `by_updates`, by adding one source after the other to what is
 * there. libhadoop zeroes the outputs before; here they may have any content. */
JNIEXPORT void JNICALL Java_pantile_hdfs_Isal_run(JNIEnv *env, jclass class, jlong handle,
                                                  jobjectArray buffers, jintArray offsets,
                                                  jint bytes, jboolean by_updates) {
    (void)class;
    coder *coder = (struct coder *)(uintptr_t)handle;
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
    for (int i = 0; i < coder->k; i++) from[i] = columns[coder->source[i]];
    for (int i = 0; i < coder->outputs; i++) to[i] = columns[coder->output[i]];
    if (!by_updates) {
        isal.ec_encode_data(bytes, coder->k, coder->outputs, coder->tables, from, to);
        return;
    }
    for (int i = 0; i < coder->k; i++)
        isal.ec_encode_data_update(bytes, coder->k, coder->outputs, i, coder->tables, from[i], to);
}
