// What Ceph looks up in the shared object: a version that must be its own, and an initialisation.
#include "host.h"
#include <cerrno>
#include <cstdlib>

namespace {

// The first number of the host's version; 0 if it has none.
int host_major()
{
    return std::atoi(ceph_version_to_str());
}

using Register = int (*)(const char *);

// For the interface of the host; null where it is not known.
Register register_for(int major)
{
    if (major >= 14 && major <= 18) return pantile::register16;
    return major == 20 ? pantile::register20 : nullptr;
}

} // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

// Ceph refuses the file unless this is the host's own version: so it is told where the interface is
// known, and the limit where it is not.
EXPORTED const char *__erasure_code_version()
{
    return register_for(host_major()) ? ceph_version_to_str() : "for Ceph 14 to 18 and 20 (pantile)";
}

EXPORTED int __erasure_code_init(const char *name, const char *)
{
    Register registered = register_for(host_major());
    return registered ? registered(name) : -EXDEV;
}
