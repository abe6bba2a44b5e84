// Stripes over the Rust half.
#include "stripes.h"
#include <array>
#include <cerrno>
#include <cstring>

namespace pantile {
namespace {

using ceph::bufferlist;
using ceph::bufferptr;

int shard(int key) { return key; }
template <typename Value> int shard(const std::pair<const int, Value> &entry) { return entry.first; }

// Returns the keys of a set or map as shards; throws if the pool has no such shard.
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

bool one_length(const Chunks &chunks, size_t *len)
{
    *len = chunks.empty() ? 0 : chunks.begin()->second.length();
    for (const auto &chunk : chunks)
        if (chunk.second.length() != *len) return false;
    return true;
}

} // namespace

int Stripes::open(Pool::Profile &profile, std::ostream *why)
{
    return caught("init", [&] { return pool.open(plugin, profile, why); });
}

int Stripes::minimum(const Set &wanted, const Set &there, const std::map<int, int> *costs, Set *minimum) const
{
    return caught("minimum_to_decode", [&] {
        std::array<int32_t, SHARDS_MOST> prices;
        prices.fill(1);
        Shards set = shards(there, chunks()), found;
        for (int shard : there)
            if (costs) prices[unsigned(shard)] = costs->at(shard);
        if (int failed = pantile_ceph_minimum(pool.instance, shards(wanted, chunks()), set, prices.data(), &found)) return failed;
        for (unsigned shard = 0; shard < chunks(); ++shard)
            if (found.contains(shard)) minimum->insert(int(shard));
        return 0;
    });
}

int Stripes::minimum_parts(const Set &wanted, const Set &there, std::map<int, SubChunks> *minimum) const
{
    return caught("minimum_to_decode", [&] {
        SubChunks parts;
        Callback<SubChunks> to{&parts, {}};
        auto visit = [](void *to, uint32_t sub_chunk) noexcept {
            auto &callback = *static_cast<Callback<SubChunks> *>(to);
            SubChunks &parts = *callback.state;
            if (!parts.empty() && parts.back().first + parts.back().second == int(sub_chunk))
                ++parts.back().second;
            else
                callback.thrown.keep([&] { parts.push_back({int(sub_chunk), 1}); });
        };
        Shards found;
        bool is_less = pantile_ceph_parts(pool.instance, shards(wanted, chunks()), shards(there, chunks()), &found, &to, visit);
        to.thrown.again();
        if (is_less) {
            for (unsigned shard = 0; shard < chunks(); ++shard)
                if (found.contains(shard)) (*minimum)[int(shard)] = parts;
            return 0;
        }
        Set whole;
        if (int failed = this->minimum(wanted, there, nullptr, &whole)) return failed;
        for (int shard : whole) (*minimum)[shard] = {{0, int(sub_chunks())}};
        return 0;
    });
}

int Stripes::encode(const Set &wanted, const bufferlist &in, Chunks *encoded) const
{
    return caught("encode", [&] {
        unsigned len = chunk_bytes(in.length());
        if (len == 0 && in.length() > 0) return refused("encode: an object of " + std::to_string(in.length()) + " bytes is too long");
        for (unsigned i = 0; i < data(); ++i) (*encoded)[int(pool.shard(i))] = data_chunk(in, i, len);
        for (unsigned i = data(); i < chunks(); ++i) {
            int shard = int(pool.shard(i));
            if (!wanted.count(shard)) continue;
            bufferlist chunk;
            chunk.push_back(fresh(len));
            (*encoded)[shard] = std::move(chunk);
        }
        if (int failed = encode_chunks(encoded)) return failed;
        for (auto chunk = encoded->begin(); chunk != encoded->end();)
            chunk = wanted.count(chunk->first) ? std::next(chunk) : encoded->erase(chunk);
        return 0;
    });
}

int Stripes::encode_chunks(Chunks *encoded) const
{
    return caught("encode_chunks", [&] {
        std::array<const uint8_t *, SHARDS_MOST> read = {};
        std::array<uint8_t *, SHARDS_MOST> parity = {};
        size_t len = 0;
        if (!one_length(*encoded, &len)) return refused("encode_chunks: the chunks are not of one length");
        for (unsigned i = 0; i < chunks(); ++i) {
            unsigned shard = pool.shard(i);
            auto chunk = encoded->find(int(shard));
            if (chunk == encoded->end()) {
                if (i < data()) return refused("encode_chunks: data chunk " + std::to_string(shard) + " is not there");
                continue;
            }
            if (i < data())
                read[shard] = bytes(chunk->second);
            else
                parity[shard] = bytes(chunk->second);
        }
        return pantile_ceph_encode(pool.instance, read.data(), parity.data(), len);
    });
}

int Stripes::decode(const Set &wanted, const Chunks &there, Chunks *decoded) const
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

int Stripes::decode_parts(const Set &wanted, const Chunks &there, Chunks *decoded, int chunk_bytes) const
{
    bool is_parts = sub_chunks() > 1 && !there.empty() && chunk_bytes > int(there.begin()->second.length());
    return is_parts ? repair(wanted, there, decoded, unsigned(chunk_bytes)) : decode(wanted, there, decoded);
}

int Stripes::repair(const Set &wanted, const Chunks &there, Chunks *decoded, unsigned chunk_bytes) const
{
    return caught("decode", [&] {
        std::array<const uint8_t *, SHARDS_MOST> read = {};
        shards(wanted, chunks()), shards(there, chunks());
        size_t len = 0;
        if (!one_length(there, &len)) return refused("decode: the chunks are not of one length");
        if (wanted.size() != 1) return refused("decode: parts of chunks are given, and not one chunk is wanted");
        std::vector<bufferlist> whole(there.size());
        auto piece = whole.begin();
        for (const auto &chunk : there) {
            *piece = chunk.second;
            read[unsigned(chunk.first)] = bytes(*piece++);
        }
        bufferlist made;
        made.push_back(fresh(chunk_bytes));
        int lost = *wanted.begin();
        if (int failed = pantile_ceph_repair(pool.instance, uint32_t(lost), read.data(), len, bytes(made), chunk_bytes)) return failed;
        (*decoded)[lost] = std::move(made);
        return 0;
    });
}

int Stripes::decode_chunks(const Set &wanted, const Chunks &there, Chunks *decoded) const
{
    return caught("decode_chunks", [&] {
        std::array<const uint8_t *, SHARDS_MOST> read = {};
        std::array<uint8_t *, SHARDS_MOST> written = {};
        shards(wanted, chunks()), shards(there, chunks());
        size_t len = 0;
        if (!one_length(there, &len)) return refused("decode_chunks: the chunks are not of one length");
        if (there.empty() && !wanted.empty()) return refused("decode_chunks: no chunk is there");
        // Buffer lists of several pieces are copied into one piece, which lives as long as the
        // call.
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

int Stripes::decode_concat(const Set *wanted, const Chunks &there, bufferlist *decoded) const
{
    return caught("decode_concat", [&] {
        std::vector<int> order;
        for (unsigned i = 0; i < data(); ++i) {
            int shard = int(pool.shard(i));
            if (!wanted || wanted->count(shard)) order.push_back(shard);
        }
        Chunks made;
        if (int failed = decode(Set(order.begin(), order.end()), there, &made)) return failed;
        for (int shard : order) decoded->claim_append(made[shard]);
        return 0;
    });
}

// Chunk i of an object, in one piece: its own bytes where that is possible, with zeros behind the
// end.
bufferlist Stripes::data_chunk(const bufferlist &in, unsigned i, unsigned len) const
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

} // namespace pantile
