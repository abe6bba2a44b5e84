// Symbols that Ceph looks up in the shared object: a version that must be its own, and an
// initialisation.
#include "host.h"
#include "rust.h"
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <sstream>

namespace {

// The first number of the host's version; 0 if it has none.
int host_major()
{
    return std::atoi(ceph_version_to_str());
}

bool is_tried(int major)
{
    return (major >= 15 && major <= 18) || major == 20;
}

using Register = int (*)(const char *);

// Functions of an interface from slot 2 on, as in abi16.h and abi20.h; a star where sets or maps of
// shards are arguments. The second create_rule of Ceph 21
// stands between.
const char *const SLOTS_19 = "init get_profile create_rule get_chunk_count get_data_chunk_count get_coding_chunk_count get_sub_chunk_count "
                             "get_chunk_size minimum_to_decode minimum_to_decode_with_cost encode encode_chunks decode decode_chunks "
                             "get_chunk_mapping decode_concat decode_concat";
const char *const FIRST_SLOTS_20 = "init get_profile create_rule ";
const char *const LATER_SLOTS_20 =
    "get_chunk_count get_data_chunk_count get_coding_chunk_count get_sub_chunk_count get_chunk_size minimum_to_decode* minimum_to_decode "
    "minimum_to_decode_with_cost* minimum_to_decode_with_cost get_minimum_granularity encode* encode encode_chunks encode_chunks* "
    "encode_delta apply_delta* decode* decode decode_chunks* decode_chunks get_chunk_mapping decode_concat decode_concat "
    "get_supported_optimizations get_optimizations_flags_string";

// The vtable of the plug-in isa that Ceph itself has beside this file.
class Isa {
public:
    Isa()
    {
        Dl_info self = {};
        if (!dladdr(reinterpret_cast<void *>(&is_tried), &self) || !self.dli_fname) return;
        std::string file = self.dli_fname;
        library = dlopen((file.substr(0, file.rfind('/') + 1) + "libec_isa.so").c_str(), RTLD_LAZY);
        if (library) table = static_cast<void *const *>(dlsym(library, "_ZTV21ErasureCodeIsaDefault"));
    }
    Isa(const Isa &) = delete;
    ~Isa()
    {
        if (library) dlclose(library);
    }

    // Returns true if the vtable has these functions in this order. A slot without a function is
    // skipped: a class that can be used has none.
    bool has(const std::string &slots) const
    {
        std::istringstream words(slots);
        size_t slot = 2;
        for (std::string word; words >> word; ++slot) {
            bool is_of_shards = word.back() == '*';
            if (is_of_shards) word.pop_back();
            std::string mangled = name(slot);
            if (mangled == "__cxa_pure_virtual") continue;
            bool has_shards = mangled.find("10bitset_set") != mangled.npos || mangled.find("13mini_flat_map") != mangled.npos;
            if (mangled.find(std::to_string(word.size()) + word + "E") == mangled.npos || has_shards != is_of_shards) return false;
        }
        return table;
    }

    // The mangled name of a slot; before the first are an offset and a type.
    std::string name(size_t slot) const
    {
        Dl_info info = {};
        return table && dladdr(table[2 + slot], &info) && info.dli_sname ? info.dli_sname : "";
    }

private:
    void *library = nullptr;
    void *const *table = nullptr;
};

// Returns the registration for the host's interface; null if that is not known. For a release that
// was never tested, the order of functions is taken from its own plug-in isa.
Register register_for(int major)
{
    if (is_tried(major)) return major == 20 ? pantile::register20 : pantile::register16;
    if (major < 19) return nullptr;
    Isa isa;
    if (major == 19) return isa.has(SLOTS_19) ? pantile::register19 : nullptr;
    if (isa.has(std::string(FIRST_SLOTS_20) + LATER_SLOTS_20)) return pantile::register20;
    if (!isa.has(std::string(FIRST_SLOTS_20) + "create_rule " + LATER_SLOTS_20)) return nullptr;
    std::string rule = isa.name(5);
    if (rule.find("EiR12CrushWrapper") != rule.npos) return pantile::register21;
    return rule.find("_R12CrushWrapper") != rule.npos ? pantile::register21_domains : nullptr;
}

} // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

// Ceph refuses the file unless this is the host's own version. So the host's version is returned if
// its interface is known, and otherwise the limit.
EXPORTED const char *__erasure_code_version()
{
    return register_for(host_major()) ? ceph_version_to_str()
                                      : "for Ceph 15 to 18 and 20, and for later ones whose libec_isa.so beside it has a known interface (pantile)";
}

EXPORTED int __erasure_code_init(const char *name, const char *)
{
    return pantile::caught("init of the plug-in", [&] {
        if (Register registered = register_for(host_major())) return registered(name);
        pantile::refused(std::string("init of the plug-in: libec_isa.so beside it has no interface of Ceph ") + ceph_version_to_str() +
                         " that is known here");
        return -EXDEV;
    });
}
