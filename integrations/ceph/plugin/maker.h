// What Ceph keeps for each name of a plug-in: a maker of codes. All generations have it, each with
// its own interface of a code.
#pragma once
#include "stripes.h"
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
