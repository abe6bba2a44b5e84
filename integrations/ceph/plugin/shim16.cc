// The interface of Ceph 14.2 to 18.2.
#include "abi16.h"

namespace pantile::abi16 {
namespace {

class Code final : public ErasureCodeInterface {
public:
    explicit Code(std::string plugin) : stripes(std::move(plugin)) {}

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
    // Chunks that are shorter than `chunk_bytes` are parts of them.
    int decode(const Set &wanted, const Chunks &there, Chunks *decoded, int chunk_bytes) override
    {
        bool is_parts = stripes.sub_chunks() > 1 && !there.empty() && chunk_bytes > int(there.begin()->second.length());
        return is_parts ? stripes.repair(wanted, there, decoded, unsigned(chunk_bytes)) : stripes.decode(wanted, there, decoded);
    }
    int decode_chunks(const Set &wanted, const Chunks &there, Chunks *decoded) override { return stripes.decode_chunks(wanted, there, decoded); }
    const std::vector<int> &get_chunk_mapping() const override { return mapping; }
    int decode_concat(const Chunks &there, ceph::bufferlist *decoded) override { return stripes.decode_concat(nullptr, there, decoded); }

private:
    Stripes stripes;
    std::vector<int> mapping;
};

} // namespace
} // namespace pantile::abi16

int pantile::register16(const char *name)
{
    return register_maker<abi16::ErasureCodeInterface, abi16::Code>(name);
}
