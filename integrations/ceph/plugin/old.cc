// Functions under the versions that glibc 2.28 and the libstdc++ of GCC 8 have (EL 8, on which images
// of Ceph 16 and 17 are built), so that a newer machine builds a file for them.
//
// The newer versions do the same: functions of libdl and libpthread moved into libc with 2.34, and
// what is defined here was inline, or absent, before. No header is included that declares these
// names in another way.
#include <sys/syscall.h>

// Not for others in the process.
#define HERE __attribute__((visibility("hidden")))

extern "C" {

#ifdef __x86_64__
#define OLD(result, name, parameters, ...)                    \
    __asm__(".symver old_" #name "," #name "@GLIBC_2.2.5"); \
    result old_##name parameters;                             \
    HERE result name parameters { return old_##name(__VA_ARGS__); }

OLD(void *, dlopen, (const char *file, int mode), file, mode)
OLD(void *, dlsym, (void *library, const char *name), library, name)
OLD(int, dlclose, (void *library), library)
OLD(char *, dlerror, (void))
OLD(int, dladdr, (const void *address, void *info), address, info)
OLD(int, pthread_key_create, (unsigned *key, void (*end)(void *)), key, end)
OLD(int, pthread_key_delete, (unsigned key), key)
OLD(int, pthread_setspecific, (unsigned key, const void *value), key, value)

// The 1 is the version of the structure.
__asm__(".symver old_stat,__xstat64@GLIBC_2.2.5");
__asm__(".symver old_fstat,__fxstat64@GLIBC_2.2.5");
int old_stat(int version, const char *path, void *to);
int old_fstat(int version, int file, void *to);
HERE int stat64(const char *path, void *to) { return old_stat(1, path, to); }
HERE int fstat64(int file, void *to) { return old_fstat(1, file, to); }
#endif

long syscall(long number, ...);
HERE int gettid() { return int(syscall(SYS_gettid)); }

// Counts of shared pointers are atomic: an OSD has threads.
HERE char __libc_single_threaded = 0;

void throw_bad_alloc() __asm__("_ZSt17__throw_bad_allocv");
void throw_bad_array_new_length() __asm__("_ZSt28__throw_bad_array_new_lengthv");
HERE void throw_bad_array_new_length() { throw_bad_alloc(); }

// std::exception_ptr: its copy and its end were functions of the library, which count.
void exception_copy(void *to, const void *from) __asm__("_ZNSt15__exception_ptr13exception_ptrC1ERKS0_");
void exception_end(void *of) __asm__("_ZNSt15__exception_ptr13exception_ptrD1Ev");
void exception_add(void *of) __asm__("_ZNSt15__exception_ptr13exception_ptr9_M_addrefEv");
void exception_release(void *of) __asm__("_ZNSt15__exception_ptr13exception_ptr10_M_releaseEv");
HERE void exception_add(void *of)
{
    void *never_ended;
    exception_copy(&never_ended, of);
}
HERE void exception_release(void *of) { exception_end(of); }

} // extern "C"
