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

bool is_abi16(int major)
{
    return major >= 14 && major <= 18;
}

} // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

// Ceph refuses the file unless this is the host's own version: so it is told where the interface is
// known, and the limit where it is not.
EXPORTED const char *__erasure_code_version()
{
    return is_abi16(host_major()) ? ceph_version_to_str() : "for Ceph 14 to 18 (pantile)";
}

EXPORTED int __erasure_code_init(const char *name, const char *)
{
    return is_abi16(host_major()) ? pantile::register16(name) : -EXDEV;
}
