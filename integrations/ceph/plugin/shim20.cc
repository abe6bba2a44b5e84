// The interfaces of Ceph 20 and 21, with the calls of its optimised pools (FastEC): buffers of
// shards of which some are absent, and deltas.
#include "abi20.h"
#include <array>
#include <cerrno>

namespace pantile::abi20 {
namespace {

using ceph::bufferlist;
using ceph::bufferptr;

Set keys(const ShardSet &set)
{
    Set all;
    for (unsigned shard = 0; shard < SHARDS_MOST; ++shard)
        if (set.set.contains(shard)) all.insert(int(shard));
    return all;
}

template <typename Value> std::map<int, Value> copy(const ShardMap<Value> &map)
{
    std::map<int, Value> all;
    map.each([&](int shard, const Value &value) { all[shard] = value; });
    return all;
}

const uint8_t *bytes(const bufferptr &buffer)
{
    return reinterpret_cast<const uint8_t *>(buffer.c_str());
}

uint8_t *bytes(bufferptr &buffer)
{
    return reinterpret_cast<uint8_t *>(buffer.c_str());
}

// Buffers of shards, all of one length; a buffer without a length is absent.
class Buffers {
public:
    explicit Buffers(unsigned chunks) : chunks(chunks) {}

    void read(int shard, const bufferptr &buffer)
    {
        if (admit(shard, buffer.length())) sources[unsigned(shard)] = bytes(buffer);
    }
    void write(int shard, bufferptr &buffer)
    {
        if (admit(shard, buffer.length())) outputs[unsigned(shard)] = bytes(buffer);
    }

    std::array<const uint8_t *, SHARDS_MOST> sources = {};
    std::array<uint8_t *, SHARDS_MOST> outputs = {};
    size_t len = 0;

private:
    bool admit(int shard, size_t bytes)
    {
        if (unsigned(shard) >= chunks) throw std::out_of_range("there is no shard " + std::to_string(shard) + " of " + std::to_string(chunks));
        if (bytes == 0) return false;
        if (len != 0 && len != bytes) throw std::invalid_argument("the buffers are not of one length");
        len = bytes;
        return true;
    }

    const unsigned chunks;
};

template <class First> class Code : public LaterSlots<First> {
public:
    explicit Code(std::string plugin) : stripes(std::move(plugin)) {}

    int init(Profile &profile, std::ostream *why) override
    {
        return caught("init", [&] {
            if (int failed = stripes.open(profile, why)) return failed;
            mapping = stripes.pool.mapping<Shard>();
            data_shards.clear();
            for (unsigned i = 0; i < stripes.data(); ++i) data_shards.insert(int(stripes.pool.shard(i)));
            return 0;
        });
    }

    const Profile &get_profile() const override { return stripes.pool.profile; }

    int create_rule(const std::string &name, CrushWrapper &crush, std::ostream *why) const override
    {
        return caught("create_rule", [&] { return simple_rule(stripes.pool, name, crush, why); });
    }

    unsigned get_chunk_count() const override { return stripes.chunks(); }
    unsigned get_data_chunk_count() const override { return stripes.data(); }
    unsigned get_coding_chunk_count() const override { return stripes.chunks() - stripes.data(); }
    int get_sub_chunk_count() override { return int(stripes.sub_chunks()); }
    unsigned get_chunk_size(unsigned object_bytes) const override { return stripes.chunk_bytes(object_bytes); }

    int minimum_to_decode_of_shards(const ShardSet &wanted, const ShardSet &there, ShardSet &minimum,
                                    ShardMap<SubChunks> *sub_chunks) override
    {
        return caught("minimum_to_decode", [&] {
            std::map<int, SubChunks> found;
            if (int failed = sub_chunks ? stripes.minimum_parts(keys(wanted), keys(there), &found) : whole(wanted, there, &found)) return failed;
            for (auto &shard : found) {
                minimum.set.insert(unsigned(shard.first));
                if (sub_chunks) sub_chunks->set(shard.first, std::move(shard.second));
            }
            return 0;
        });
    }

    int minimum_to_decode(const Set &wanted, const Set &there, std::map<int, SubChunks> *minimum) override
    {
        return stripes.minimum_parts(wanted, there, minimum);
    }

    int minimum_to_decode_with_cost_of_shards(const ShardSet &wanted, const ShardMap<int> &there, ShardSet *minimum) override
    {
        return caught("minimum_to_decode_with_cost", [&] {
            Set found;
            if (int failed = minimum_to_decode_with_cost(keys(wanted), copy(there), &found)) return failed;
            for (int shard : found) minimum->set.insert(unsigned(shard));
            return 0;
        });
    }

    int minimum_to_decode_with_cost(const Set &wanted, const std::map<int, int> &there, Set *minimum) override
    {
        return caught("minimum_to_decode_with_cost", [&] {
            Set keys;
            for (const auto &shard : there) keys.insert(shard.first);
            return stripes.minimum(wanted, keys, &there, minimum);
        });
    }

    size_t get_minimum_granularity() override { return stripes.pool.shape.granularity; }

    int encode_of_shards(const ShardSet &wanted, const bufferlist &in, ShardChunks *encoded) override
    {
        return caught("encode", [&] {
            Chunks made;
            if (int failed = stripes.encode(keys(wanted), in, &made)) return failed;
            for (auto &chunk : made) encoded->set(chunk.first, std::move(chunk.second));
            return 0;
        });
    }

    int encode(const Set &wanted, const bufferlist &in, Chunks *encoded) override { return stripes.encode(wanted, in, encoded); }
    int encode_chunks(const Set &, Chunks *encoded) override { return stripes.encode_chunks(encoded); }

    // Data that are absent, or of no length, are zeros.
    int encode_chunks_of_shards(const ShardBuffers &in, ShardBuffers &out) override
    {
        return caught("encode_chunks", [&] {
            Buffers buffers(stripes.chunks());
            in.each([&](int shard, const bufferptr &buffer) {
                if (data_shards.count(shard)) buffers.read(shard, buffer);
            });
            write(out, &buffers);
            return pantile_ceph_encode(stripes.pool.instance, buffers.sources.data(), buffers.outputs.data(), buffers.len);
        });
    }

    void encode_delta(const bufferptr &before, const bufferptr &after, bufferptr *delta) override
    {
        caught_or_abort("encode_delta", [&] {
            if (before.length() != after.length() || before.length() != delta->length())
                return refused("encode_delta: the buffers are not of one length");
            const uint8_t *a = bytes(before), *b = bytes(after);
            uint8_t *to = bytes(*delta);
            for (unsigned i = 0; i < delta->length(); ++i) to[i] = a[i] ^ b[i];
            return 0;
        });
    }

    // `in` has deltas of data, `out` the parities.
    void apply_delta(const ShardBuffers &in, ShardBuffers &out) override
    {
        caught_or_abort("apply_delta", [&] {
            Buffers buffers(stripes.chunks());
            in.each([&](int shard, const bufferptr &buffer) {
                if (data_shards.count(shard)) buffers.read(shard, buffer);
            });
            write(out, &buffers);
            for (int shard : data_shards)
                if (const uint8_t *delta = buffers.sources[unsigned(shard)])
                    if (int failed = pantile_ceph_add_delta(stripes.pool.instance, uint32_t(shard), delta, buffers.outputs.data(), buffers.len)) return failed;
            return 0;
        });
    }

    int decode_of_shards(const ShardSet &wanted, const ShardChunks &there, ShardChunks *decoded, int chunk_bytes) override
    {
        return caught("decode", [&] {
            Chunks made;
            if (int failed = stripes.decode_parts(keys(wanted), copy(there), &made, chunk_bytes)) return failed;
            for (auto &chunk : made) decoded->set(chunk.first, std::move(chunk.second));
            return 0;
        });
    }

    int decode(const Set &wanted, const Chunks &there, Chunks *decoded, int chunk_bytes) override
    {
        return stripes.decode_parts(wanted, there, decoded, chunk_bytes);
    }

    int decode_chunks_of_shards(const ShardSet &, ShardBuffers &in, ShardBuffers &out) override
    {
        return caught("decode_chunks", [&] {
            Buffers buffers(stripes.chunks());
            in.each([&](int shard, const bufferptr &buffer) {
                if (!out.find(shard)) buffers.read(shard, buffer);
            });
            for (unsigned shard = 0; shard < stripes.chunks(); ++shard)
                if (bufferptr *buffer = out.find(int(shard))) buffers.write(int(shard), *buffer);
            return pantile_ceph_decode(stripes.pool.instance, buffers.sources.data(), buffers.outputs.data(), buffers.len);
        });
    }

    int decode_chunks(const Set &wanted, const Chunks &there, Chunks *decoded) override { return stripes.decode_chunks(wanted, there, decoded); }
    const std::vector<Shard> &get_chunk_mapping() const override { return mapping; }
    int decode_concat_of_wanted(const Set &wanted, const Chunks &there, bufferlist *decoded) override { return stripes.decode_concat(&wanted, there, decoded); }
    int decode_concat(const Chunks &there, bufferlist *decoded) override { return stripes.decode_concat(nullptr, there, decoded); }

    // The optimizations of Ceph's reed_sol_van, for codes in which every byte of parity is computed
    // from the bytes at its offset.
    uint64_t get_supported_optimizations() const override
    {
        return stripes.pool.shape.is_bytewise ? PARTIAL_READ | PARTIAL_WRITE | ZEROS_OF_ZEROS | PARITY_DELTA | OPTIMIZED : 0;
    }
    std::string get_optimizations_flags_string() const override
    {
        return stripes.pool.shape.is_bytewise ? "partialread,partialwrite,zeroinout,paritydelta,optimizedsupport" : "";
    }

protected:
    Stripes stripes;

private:
    int whole(const ShardSet &wanted, const ShardSet &there, std::map<int, SubChunks> *minimum) const
    {
        Set found;
        int failed = stripes.minimum(keys(wanted), keys(there), nullptr, &found);
        for (int shard : found) (*minimum)[shard] = {};
        return failed;
    }

    void write(ShardBuffers &out, Buffers *buffers) const
    {
        for (unsigned shard = 0; shard < stripes.chunks(); ++shard)
            if (bufferptr *buffer = out.find(int(shard)); buffer && !data_shards.count(int(shard))) buffers->write(int(shard), *buffer);
    }

    std::vector<Shard> mapping;
    Set data_shards;
};

// Domains, if given, replace the profile's own.
template <class... Domains> class Code21 final : public Code<abi21::FirstSlots<Domains...>> {
public:
    using Code<abi21::FirstSlots<Domains...>>::Code;

    int create_rule_of_zones(const std::string &name, int zones, Domains... domains, CrushWrapper &crush,
                             std::ostream *why) const override
    {
        return caught("create_rule", [&] {
            if (zones > 1) {
                if (why) *why << "num_zones=" << zones << ": this plug-in makes no rules of several zones; make a rule of your own";
                return -EINVAL;
            }
            return simple_rule(this->stripes.pool, name, crush, why, Given{domains...});
        });
    }
};

} // namespace
} // namespace pantile::abi20

int pantile::register20(const char *name)
{
    return register_maker<abi20::ErasureCodeInterface, abi20::Code<abi20::FirstSlots>>(name);
}

int pantile::register21(const char *name)
{
    return register_maker<abi21::ErasureCodeInterface<>, abi20::Code21<>>(name);
}

int pantile::register21_domains(const char *name)
{
    using Domain = const std::string &;
    return register_maker<abi21::ErasureCodeInterface<Domain, Domain, Domain>, abi20::Code21<Domain, Domain, Domain>>(name);
}
