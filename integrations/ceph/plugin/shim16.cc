// The interfaces of Ceph 15.2 to 18.2 and of 19.2.
#include "abi16.h"

namespace pantile {
namespace {

template <class Interface> class Code16 : public Interface {
public:
    explicit Code16(std::string plugin) : stripes(std::move(plugin)) {}

    int init(Profile &profile, std::ostream *why) override
    {
        return caught("init", [&] {
            if (int failed = stripes.open(profile, why)) return failed;
            mapping = stripes.pool.mapping<int>();
            return 0;
        });
    }

    const Profile &get_profile() const override { return stripes.pool.profile; }

    int create_rule(const std::string &name, CrushWrapper &crush, std::ostream *why) const override
    {
        return caught("create_rule", [&] {
            const Pool &pool = stripes.pool;
            return crush.add_simple_rule(name, pool.word("crush-root"), pool.word("crush-failure-domain"),
                                         pool.word("crush-device-class"), "indep", RULE_TYPE_ERASURE, why);
        });
    }

    unsigned get_chunk_count() const override { return stripes.chunks(); }
    unsigned get_data_chunk_count() const override { return stripes.data(); }
    unsigned get_coding_chunk_count() const override { return stripes.chunks() - stripes.data(); }
    int get_sub_chunk_count() override { return int(stripes.sub_chunks()); }
    unsigned get_chunk_size(unsigned object_bytes) const override { return stripes.chunk_bytes(object_bytes); }

    int minimum_to_decode(const Set &wanted, const Set &there, std::map<int, SubChunks> *minimum) override
    {
        return stripes.minimum_parts(wanted, there, minimum);
    }

    int minimum_to_decode_with_cost(const Set &wanted, const std::map<int, int> &there, Set *minimum) override
    {
        return caught("minimum_to_decode_with_cost", [&] {
            Set keys;
            for (const auto &shard : there) keys.insert(shard.first);
            return stripes.minimum(wanted, keys, &there, minimum);
        });
    }

    int encode(const Set &wanted, const ceph::bufferlist &in, Chunks *encoded) override { return stripes.encode(wanted, in, encoded); }
    int encode_chunks(const Set &, Chunks *encoded) override { return stripes.encode_chunks(encoded); }
    int decode(const Set &wanted, const Chunks &there, Chunks *decoded, int chunk_bytes) override
    {
        return stripes.decode_parts(wanted, there, decoded, chunk_bytes);
    }
    int decode_chunks(const Set &wanted, const Chunks &there, Chunks *decoded) override { return stripes.decode_chunks(wanted, there, decoded); }
    const std::vector<int> &get_chunk_mapping() const override { return mapping; }
    int decode_concat(const Chunks &there, ceph::bufferlist *decoded) override { return stripes.decode_concat(nullptr, there, decoded); }

protected:
    Stripes stripes;

private:
    std::vector<int> mapping;
};

class Code19 final : public Code16<abi19::ErasureCodeInterface> {
public:
    using Code16::Code16;

    // The call of Ceph 20.
    int create_rule(const std::string &name, CrushWrapper &crush, std::ostream *why) const override
    {
        return caught("create_rule", [&] { return simple_rule(stripes.pool, name, crush, why); });
    }

    int decode_concat_of_wanted(const Set &wanted, const Chunks &there, ceph::bufferlist *decoded) override
    {
        return stripes.decode_concat(&wanted, there, decoded);
    }
};

} // namespace

int register16(const char *name)
{
    return register_maker<abi16::ErasureCodeInterface, Code16<abi16::ErasureCodeInterface>>(name);
}

int register19(const char *name)
{
    return register_maker<abi19::ErasureCodeInterface, Code19>(name);
}

} // namespace pantile
