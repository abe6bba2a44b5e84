// The start of a program as glibc had it up to 2.33, for a probe that runs there as well: the
// program itself calls its constructors.
using Main = int (*)(int, char **, char **);
using Call = void (*)(int, char **, char **);

extern "C" {
extern Call __init_array_start[] __attribute__((visibility("hidden")));
extern Call __init_array_end[] __attribute__((visibility("hidden")));
__asm__(".symver old_start,__libc_start_main@GLIBC_2.2.5");
int old_start(Main, int, char **, Call, void (*)(), void (*)(), void *);

static void construct(int count, char **words, char **environment)
{
    for (Call *call = __init_array_start; call != __init_array_end; ++call) (*call)(count, words, environment);
}

// `_start` calls it, by the linker's --wrap.
int __wrap___libc_start_main(Main main, int count, char **words, Call, void (*)(), void (*end)(), void *stack)
{
    return old_start(main, count, words, construct, nullptr, end, stack);
}
}
