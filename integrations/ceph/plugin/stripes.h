// A pool's stripes in sets and maps of shards, as every generation of Ceph's interface has them.
// Shards that do not exist, chunks of unlike lengths and chunks that are missing are refused here.
#pragma once
#include "host.h"
#include "rust.h"
#include <map>
#include <set>
#include <vector>

namespace pantile {

using Profile = Pool::Profile;
using Chunks = std::map<int, ceph::bufferlist>;
using Set = std::set<int>;
// Runs of sub-chunks: the first one, and their number.
using SubChunks = std::vector<std::pair<int, int>>;

// Each call answers 0 or a negative errno, and throws nothing.
class Stripes {
public:
    explicit Stripes(std::string plugin) : plugin(std::move(plugin)) {}

    int open(Profile &profile, std::ostream *why);
    unsigned chunks() const { return pool.shape.chunks; }
    unsigned data() const { return pool.shape.data; }
    unsigned sub_chunks() const { return pool.shape.sub_chunks; }
    unsigned chunk_bytes(unsigned object_bytes) const { return pantile_ceph_chunk_bytes(pool.instance, object_bytes); }
    // `costs` has the cost of each present shard; null: each costs 1.
    int minimum(const Set &wanted, const Set &there, const std::map<int, int> *costs, Set *minimum) const;
    // Chooses whole chunks or, for one lost chunk, the same sub-chunks of each of some others.
    int minimum_parts(const Set &wanted, const Set &there, std::map<int, SubChunks> *minimum) const;
    int encode(const Set &wanted, const ceph::bufferlist &in, Chunks *encoded) const;
    // `encoded` has all data and the parities to be computed.
    int encode_chunks(Chunks *encoded) const;
    int decode(const Set &wanted, const Chunks &there, Chunks *decoded) const;
    // Decodes from chunks or, if these are shorter than `chunk_bytes`, from parts of them.
    int decode_parts(const Set &wanted, const Chunks &there, Chunks *decoded, int chunk_bytes) const;
    // Computes the one wanted chunk from the parts that minimum_parts names; the sub-chunks of a
    // part follow each other.
    int repair(const Set &wanted, const Chunks &there, Chunks *decoded, unsigned chunk_bytes) const;
    // `decoded` has room for each wanted chunk that is absent.
    int decode_chunks(const Set &wanted, const Chunks &there, Chunks *decoded) const;
    // Returns the data chunks in `wanted`, or all data chunks, one behind the other.
    int decode_concat(const Set *wanted, const Chunks &there, ceph::bufferlist *decoded) const;

    Pool pool;

private:
    ceph::bufferlist data_chunk(const ceph::bufferlist &in, unsigned i, unsigned len) const;

    const std::string plugin;
};

} // namespace pantile
