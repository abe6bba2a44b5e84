// The object that Ceph keeps for each name of a plug-in: a maker of codes. All generations of Ceph
// have this class, each with its own interface of a code.
#pragma once
#include "stripes.h"
#include <cerrno>
#include <memory>

namespace pantile {

template <class Interface> class ErasureCodePlugin {
public:
    // Ceph keeps the handle of the shared object here.
    void *library = nullptr;
    virtual ~ErasureCodePlugin() {}
    virtual int factory(const std::string &directory, Profile &profile, std::shared_ptr<Interface> *code,
                        std::ostream *why) = 0;
};

template <class Interface, class Code> class Maker final : public ErasureCodePlugin<Interface> {
public:
    explicit Maker(std::string name) : name(std::move(name)) {}

    int factory(const std::string &, Profile &profile, std::shared_ptr<Interface> *code, std::ostream *why) override
    {
        return caught("factory", [&] {
            auto made = std::make_shared<Code>(name);
            if (int failed = made->init(profile, why)) return failed;
            *code = made;
            return 0;
        });
    }

private:
    const std::string name;
};

// Failure domains that Ceph gives in addition to the profile: those of zones and of OSDs, and a
// class of devices.
struct Given {
    std::string zone, failure_domain, device_class;
};

// A rule of the profile's words, made as Ceph 19 and later do it.
inline int simple_rule(const Pool &pool, const std::string &name, CrushWrapper &crush, std::ostream *why,
                       const Given &given = {})
{
    std::string per_domain = pool.word("crush-osds-per-failure-domain");
    if (!per_domain.empty() && per_domain != "0" && per_domain != "1") {
        if (why) *why << "crush-osds-per-failure-domain=" << per_domain << " is not known to this plug-in; make a rule of your own and leave it out";
        return -EINVAL;
    }
    auto or_word = [&](const std::string &given, const char *word) { return given.empty() ? pool.word(word) : given; };
    return crush.add_simple_rule(name, pool.word("crush-root"), or_word(given.failure_domain, "crush-failure-domain"), 0,
                                 or_word(given.device_class, "crush-device-class"), "indep", RULE_TYPE_ERASURE, why);
}

// Gives Ceph a maker for a name.
template <class Interface, class Code> int register_maker(const char *name)
{
    return caught("init of the plug-in", [&] {
        auto *maker = new Maker<Interface, Code>(name);
        // The class of Ceph, which has the same layout.
        return ceph::ErasureCodePluginRegistry::singleton.add(name, reinterpret_cast<ceph::ErasureCodePlugin *>(maker));
    });
}

} // namespace pantile
