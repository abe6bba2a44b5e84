// The interface of Ceph 14.2 to 18.2 over the Rust half.
#include "abi16.h"
#include "rust.h"
#include <array>
#include <cerrno>
#include <cstring>

namespace pantile::abi16 {
namespace {

using ceph::bufferlist;
using ceph::bufferptr;

int shard(int key) { return key; }
template <typename Value> int shard(const std::pair<const int, Value> &entry) { return entry.first; }

// The keys of a set or map; throws if there is no such shard.
template <typename Keys> Shards shards(const Keys &keys, unsigned chunks)
{
    Shards set;
    for (const auto &key : keys) {
        int number = shard(key);
        if (number < 0 || unsigned(number) >= chunks)
            throw std::out_of_range("there is no shard " + std::to_string(number) + " of " + std::to_string(chunks));
        set.insert(unsigned(number));
    }
    return set;
}

bufferptr fresh(unsigned bytes)
{
    return bufferptr(ceph::buffer::create_aligned(bytes, CHUNK_ALIGN));
}

uint8_t *bytes(bufferlist &chunk)
{
    return reinterpret_cast<uint8_t *>(chunk.c_str());
}

class Code final : public ErasureCodeInterface {
public:
    explicit Code(std::string plugin) : plugin(std::move(plugin)) {}

    int init(Profile &profile, std::ostream *why) override
    {
        return caught("init", [&] {
            if (int failed = pool.open(plugin, profile, why)) return failed;
            mapping.clear();
            for (unsigned chunk = 0; pool.shape.mapping && chunk < chunks(); ++chunk) mapping.push_back(int(pool.shard(chunk)));
            return 0;
        });
    }

    const Profile &get_profile() const override { return pool.profile; }

    int create_rule(const std::string &name, CrushWrapper &crush, std::ostream *why) const override
    {
        return caught("create_rule", [&] {
            return crush.add_simple_rule(name, pool.word("crush-root"), pool.word("crush-failure-domain"),
                                         pool.word("crush-device-class"), "indep", RULE_TYPE_ERASURE, why);
        });
    }

    unsigned get_chunk_count() const override { return chunks(); }
    unsigned get_data_chunk_count() const override { return pool.shape.data; }
    unsigned get_coding_chunk_count() const override { return chunks() - pool.shape.data; }
    int get_sub_chunk_count() override { return 1; }
    unsigned get_chunk_size(unsigned object_bytes) const override { return pantile_ceph_chunk_bytes(pool.instance, object_bytes); }

    int minimum_to_decode(const Set &wanted, const Set &there, std::map<int, SubChunks> *minimum) override
    {
        return caught("minimum_to_decode", [&] {
            Shards found;
            if (int failed = pantile_ceph_minimum(pool.instance, shards(wanted, chunks()), shards(there, chunks()), nullptr, &found)) return failed;
            for (unsigned shard = 0; shard < chunks(); ++shard)
                if (found.contains(shard)) (*minimum)[int(shard)] = {{0, 1}};
            return 0;
        });
    }

    int minimum_to_decode_with_cost(const Set &wanted, const std::map<int, int> &there, Set *minimum) override
    {
        return caught("minimum_to_decode_with_cost", [&] {
            std::array<int32_t, SHARDS_MOST> costs;
            costs.fill(1);
            Shards set = shards(there, chunks()), found;
            for (const auto &shard : there) costs[unsigned(shard.first)] = shard.second;
            if (int failed = pantile_ceph_minimum(pool.instance, shards(wanted, chunks()), set, costs.data(), &found)) return failed;
            for (unsigned shard = 0; shard < chunks(); ++shard)
                if (found.contains(shard)) minimum->insert(int(shard));
            return 0;
        });
    }

    int encode(const Set &wanted, const bufferlist &in, Chunks *encoded) override
    {
        return caught("encode", [&] {
            unsigned len = get_chunk_size(in.length());
            if (len == 0 && in.length() > 0) return refused("encode: an object of " + std::to_string(in.length()) + " bytes is too long");
            for (unsigned i = 0; i < pool.shape.data; ++i) (*encoded)[int(pool.shard(i))] = data_chunk(in, i, len);
            for (unsigned i = pool.shape.data; i < chunks(); ++i) {
                int shard = int(pool.shard(i));
                if (!wanted.count(shard)) continue;
                bufferlist chunk;
                chunk.push_back(fresh(len));
                (*encoded)[shard] = std::move(chunk);
            }
            if (int failed = encode_chunks(wanted, encoded)) return failed;
            for (auto chunk = encoded->begin(); chunk != encoded->end();)
                chunk = wanted.count(chunk->first) ? std::next(chunk) : encoded->erase(chunk);
            return 0;
        });
    }

    int encode_chunks(const Set &, Chunks *encoded) override
    {
        return caught("encode_chunks", [&] {
            std::array<const uint8_t *, SHARDS_MOST> data = {};
            std::array<uint8_t *, SHARDS_MOST> parity = {};
            size_t len = 0;
            if (!one_length(*encoded, &len)) return refused("encode_chunks: the chunks are not of one length");
            for (unsigned i = 0; i < chunks(); ++i) {
                unsigned shard = pool.shard(i);
                auto chunk = encoded->find(int(shard));
                if (chunk == encoded->end()) {
                    if (i < pool.shape.data) return refused("encode_chunks: data chunk " + std::to_string(shard) + " is not there");
                    continue;
                }
                if (i < pool.shape.data)
                    data[shard] = bytes(chunk->second);
                else
                    parity[shard] = bytes(chunk->second);
            }
            return pantile_ceph_encode(pool.instance, data.data(), parity.data(), len);
        });
    }

    int decode(const Set &wanted, const Chunks &there, Chunks *decoded, int) override
    {
        return caught("decode", [&] {
            size_t len = 0;
            if (!one_length(there, &len)) return refused("decode: the chunks are not of one length");
            for (int shard : wanted) {
                auto chunk = there.find(shard);
                bufferlist made;
                if (chunk != there.end()) {
                    made = chunk->second;
                    if (!made.is_contiguous()) made.rebuild_aligned(CHUNK_ALIGN);
                } else {
                    made.push_back(fresh(unsigned(len)));
                }
                (*decoded)[shard] = std::move(made);
            }
            return decode_chunks(wanted, there, decoded);
        });
    }

    // `decoded` has a buffer for each chunk that is wanted and not there.
    int decode_chunks(const Set &wanted, const Chunks &there, Chunks *decoded) override
    {
        return caught("decode_chunks", [&] {
            std::array<const uint8_t *, SHARDS_MOST> read = {};
            std::array<uint8_t *, SHARDS_MOST> written = {};
            shards(wanted, chunks()), shards(there, chunks());
            size_t len = 0;
            if (!one_length(there, &len)) return refused("decode_chunks: the chunks are not of one length");
            if (there.empty() && !wanted.empty()) return refused("decode_chunks: no chunk is there");
            // Lists that are not in one piece are copied into one, and live as long as the call.
            std::vector<bufferlist> whole(there.size());
            auto piece = whole.begin();
            for (const auto &chunk : there) {
                *piece = chunk.second;
                read[unsigned(chunk.first)] = bytes(*piece++);
            }
            for (int shard : wanted) {
                if (there.count(shard)) continue;
                auto chunk = decoded->find(shard);
                if (chunk == decoded->end() || chunk->second.length() != len)
                    return refused("decode_chunks: there is no room for chunk " + std::to_string(shard));
                written[unsigned(shard)] = bytes(chunk->second);
            }
            return pantile_ceph_decode(pool.instance, read.data(), written.data(), len);
        });
    }

    const std::vector<int> &get_chunk_mapping() const override { return mapping; }

    int decode_concat(const Chunks &there, bufferlist *decoded) override
    {
        return caught("decode_concat", [&] {
            Set wanted;
            for (unsigned i = 0; i < pool.shape.data; ++i) wanted.insert(int(pool.shard(i)));
            Chunks made;
            if (int failed = decode(wanted, there, &made, 0)) return failed;
            for (unsigned i = 0; i < pool.shape.data; ++i) decoded->claim_append(made[int(pool.shard(i))]);
            return 0;
        });
    }

private:
    unsigned chunks() const { return pool.shape.chunks; }

    // Chunk i of an object, in one piece: its own bytes where that is possible, with zeros behind
    // the end.
    bufferlist data_chunk(const bufferlist &in, unsigned i, unsigned len) const
    {
        uint64_t from = uint64_t(i) * len;
        unsigned left = from < in.length() ? unsigned(std::min<uint64_t>(len, in.length() - from)) : 0;
        bufferlist chunk;
        if (left == len && len > 0) {
            chunk.substr_of(in, unsigned(from), len);
            if (!chunk.is_contiguous()) chunk.rebuild_aligned_size_and_memory(len, CHUNK_ALIGN);
            return chunk;
        }
        bufferptr whole = fresh(len);
        if (left > 0) {
            auto at = in.begin(unsigned(from));
            at.copy(left, whole.c_str());
        }
        std::memset(whole.c_str() + left, 0, len - left);
        chunk.push_back(std::move(whole));
        return chunk;
    }

    static bool one_length(const Chunks &chunks, size_t *len)
    {
        *len = chunks.empty() ? 0 : chunks.begin()->second.length();
        for (const auto &chunk : chunks)
            if (chunk.second.length() != *len) return false;
        return true;
    }

    const std::string plugin;
    Pool pool;
    std::vector<int> mapping;
};

class Plugin final : public ErasureCodePlugin {
public:
    explicit Plugin(std::string name) : name(std::move(name)) {}

    int factory(const std::string &, Profile &profile, std::shared_ptr<ErasureCodeInterface> *code,
                std::ostream *why) override
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

} // namespace
} // namespace pantile::abi16

int pantile::register16(const char *name)
{
    return caught("init of the plug-in", [&] {
        auto *plugin = new abi16::Plugin(name);
        // The class of Ceph, which has the same layout.
        return ceph::ErasureCodePluginRegistry::singleton.add(name, reinterpret_cast<ceph::ErasureCodePlugin *>(plugin));
    });
}
