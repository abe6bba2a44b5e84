// Symbols that a plug-in takes from the process that loads it. Declared by hand: Ceph's own headers
// of these classes are in no package, and only names and arguments count.
#pragma once
#include <ostream>
#include <rados/buffer.h>
#include <string>

// Two generations of one call; both are weak symbols, because a host has only one of them.
class CrushWrapper {
public:
    // Ceph 15 to 18.
    __attribute__((weak)) int add_simple_rule(std::string name, std::string root, std::string failure_domain,
                                              std::string device_class, std::string mode, int rule_type,
                                              std::ostream *why);
    // From Ceph 19 on.
    __attribute__((weak)) int add_simple_rule(std::string name, std::string root, std::string failure_domain,
                                              int failure_domains, std::string device_class, std::string mode,
                                              int rule_type, std::ostream *why);
};

namespace ceph {
class ErasureCodePlugin;
class ErasureCodePluginRegistry {
public:
    static ErasureCodePluginRegistry singleton;
    int add(const std::string &name, ErasureCodePlugin *plugin);
};
} // namespace ceph

// The version of the host, such as "16.2.15".
const char *ceph_version_to_str();

namespace pantile {
// pg_pool_t::TYPE_ERASURE.
constexpr int RULE_TYPE_ERASURE = 3;
// Ceph 20's alignment of chunks; 32 before.
constexpr unsigned CHUNK_ALIGN = 64;

// Registers a plug-in of one generation under a name; of 21 there are two, without and with domains
// for the rule of several zones.
int register16(const char *name);
int register19(const char *name);
int register20(const char *name);
int register21(const char *name);
int register21_domains(const char *name);
} // namespace pantile
