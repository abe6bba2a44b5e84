// Symbols that Ceph looks up in the shared object: a version that must be its own, and an
// initialisation.
#include "host.h"
#include "rust.h"
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

namespace {

// The first number of the host's version; 0 if it has none.
int host_major()
{
    return std::atoi(ceph_version_to_str());
}

// Versions whose interface was read and never run: an operator asks for them.
bool is_asked_for_untried()
{
    const char *asked = std::getenv("PANTILE_CEPH_UNTRIED");
    return asked && !std::strcmp(asked, "1");
}

bool is_tried(int major)
{
    return (major >= 14 && major <= 18) || major == 20;
}

bool is_known(int major)
{
    return is_tried(major) || ((major == 19 || major == 21) && is_asked_for_untried());
}

using Register = int (*)(const char *);

// Content of a slot of the host's own plug-in isa; empty if it cannot be read.
std::string slot_of_isa(const std::string &directory, int slot)
{
    void *isa = dlopen((directory + "/libec_isa.so").c_str(), RTLD_NOW);
    // Before the first slot are an offset and a type.
    auto table = isa ? static_cast<void *const *>(dlsym(isa, "_ZTV21ErasureCodeIsaDefault")) : nullptr;
    Dl_info info = {};
    bool is_named = table && dladdr(table[2 + slot], &info) && info.dli_sname;
    std::string name = is_named ? info.dli_sname : "";
    if (isa) dlclose(isa);
    return name;
}

// For the interface of the host; null where it is not known.
Register register_for(int major, const std::string &directory)
{
    if (is_tried(major)) return major == 20 ? pantile::register20 : pantile::register16;
    if (!is_known(major)) return nullptr;
    auto has = [](const std::string &name, const char *part) { return name.find(part) != name.npos; };
    if (major == 19) return has(slot_of_isa(directory, 18), "decode_concat") ? pantile::register19 : nullptr;
    std::string fifth = slot_of_isa(directory, 5);
    if (has(fifth, "get_chunk_count")) return pantile::register20;
    if (has(fifth, "create_rule") && has(fifth, "EiR12CrushWrapper")) return pantile::register21;
    return has(fifth, "create_rule") && has(fifth, "_R12CrushWrapper") ? pantile::register21_domains : nullptr;
}

} // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

// Ceph refuses the file unless this is the host's own version. So the host's version is returned if
// its interface is known, and otherwise the limit.
EXPORTED const char *__erasure_code_version()
{
    return is_known(host_major()) ? ceph_version_to_str()
                                  : "for Ceph 14 to 18 and 20, and untried with PANTILE_CEPH_UNTRIED=1 for 19 and 21 (pantile)";
}

EXPORTED int __erasure_code_init(const char *name, const char *directory)
{
    return pantile::caught("init of the plug-in", [&] {
        Register registered = register_for(host_major(), directory ? directory : "");
        if (registered) return registered(name);
        pantile::refused(std::string("init of the plug-in: libec_isa.so in ") + (directory ? directory : "") +
                         " has no interface of Ceph " + ceph_version_to_str() + " that is known here");
        return -EXDEV;
    });
}
