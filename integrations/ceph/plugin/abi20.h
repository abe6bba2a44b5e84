// The erasure-code interfaces of Ceph 20 and 21: the order of virtual functions, and the memory
// layout of sets and maps of shards. tests/vtable.py compares the order with the plug-ins of Ceph
// 20, and tests/slots.cc compares order and layout with Ceph's headers.
#pragma once
#include "maker.h"
#include <optional>

namespace pantile::abi20 {

struct Shard {
    int8_t number;
    explicit Shard(int number) : number(int8_t(number)) {}
};

// bitset_set<128, shard_id_t>.
struct ShardSet {
    Shards set;
    struct {
        const void *of;
        int8_t shard;
    } end;
};
static_assert(sizeof(ShardSet) == 32, "the set of Ceph 20 has 32 bytes");

// mini_flat_map<shard_id_t, Value>: an entry for each possible shard, and two ends. Ceph makes
// these maps; here they are read and filled.
template <typename Value> struct ShardMap {
    template <typename Reference> struct End {
        const void *of;
        std::optional<std::pair<const Shard &, Reference>> at;
        int8_t shard;
    };
    std::vector<std::optional<Value>> places;
    End<Value &> end;
    End<const Value &> const_end;
    size_t count;

    const Value *find(int shard) const
    {
        return shard >= 0 && size_t(shard) < places.size() && places[size_t(shard)] ? &*places[size_t(shard)] : nullptr;
    }
    Value *find(int shard) { return const_cast<Value *>(static_cast<const ShardMap *>(this)->find(shard)); }
    void set(int shard, Value value)
    {
        auto &place = places.at(size_t(shard));
        count += !place;
        place = std::move(value);
    }
    // Calls with each shard and its value.
    template <typename Call> void each(Call call) const
    {
        for (size_t shard = 0; shard < places.size(); ++shard)
            if (places[shard]) call(int(shard), *places[shard]);
    }
};
static_assert(sizeof(ShardMap<int>) == 112, "the map of Ceph 20 has 112 bytes");

using ShardChunks = ShardMap<ceph::bufferlist>;
using ShardBuffers = ShardMap<ceph::bufferptr>;

// Abilities of a plug-in, of ErasureCodeInterface::plugin_flags.
constexpr uint64_t PARTIAL_READ = 1 << 0, PARTIAL_WRITE = 1 << 1, ZEROS_OF_ZEROS = 1 << 2, PARITY_DELTA = 1 << 4,
                   OPTIMIZED = 1 << 6;

// Names end in _of_shards where Ceph has two functions of one name: compilers differ in the order
// of overloads.
class FirstSlots {
public:
    virtual ~FirstSlots() {}                                                                      // 0, 1
    virtual int init(Profile &profile, std::ostream *why) = 0;                                    // 2
    virtual const Profile &get_profile() const = 0;                                               // 3
    virtual int create_rule(const std::string &name, CrushWrapper &crush, std::ostream *why) const = 0; // 4
};

template <class First> class LaterSlots : public First {
public:
    virtual unsigned get_chunk_count() const = 0;                                                 // 5
    virtual unsigned get_data_chunk_count() const = 0;                                            // 6
    virtual unsigned get_coding_chunk_count() const = 0;                                          // 7
    virtual int get_sub_chunk_count() = 0;                                                        // 8
    virtual unsigned get_chunk_size(unsigned object_bytes) const = 0;                             // 9
    virtual int minimum_to_decode_of_shards(const ShardSet &wanted, const ShardSet &there, ShardSet &minimum,
                                            ShardMap<SubChunks> *sub_chunks) = 0;                 // 10
    virtual int minimum_to_decode(const Set &wanted, const Set &there, std::map<int, SubChunks> *minimum) = 0; // 11
    virtual int minimum_to_decode_with_cost_of_shards(const ShardSet &wanted, const ShardMap<int> &there,
                                                      ShardSet *minimum) = 0;                     // 12
    virtual int minimum_to_decode_with_cost(const Set &wanted, const std::map<int, int> &there, Set *minimum) = 0; // 13
    virtual size_t get_minimum_granularity() = 0;                                                 // 14
    virtual int encode_of_shards(const ShardSet &wanted, const ceph::bufferlist &in, ShardChunks *encoded) = 0; // 15
    virtual int encode(const Set &wanted, const ceph::bufferlist &in, Chunks *encoded) = 0;       // 16
    virtual int encode_chunks(const Set &wanted, Chunks *encoded) = 0;                            // 17
    virtual int encode_chunks_of_shards(const ShardBuffers &in, ShardBuffers &out) = 0;           // 18
    virtual void encode_delta(const ceph::bufferptr &before, const ceph::bufferptr &after, ceph::bufferptr *delta) = 0; // 19
    virtual void apply_delta(const ShardBuffers &in, ShardBuffers &out) = 0;                      // 20
    virtual int decode_of_shards(const ShardSet &wanted, const ShardChunks &there, ShardChunks *decoded,
                                 int chunk_bytes) = 0;                                            // 21
    virtual int decode(const Set &wanted, const Chunks &there, Chunks *decoded, int chunk_bytes) = 0; // 22
    virtual int decode_chunks_of_shards(const ShardSet &wanted, ShardBuffers &in, ShardBuffers &out) = 0; // 23
    virtual int decode_chunks(const Set &wanted, const Chunks &there, Chunks *decoded) = 0;       // 24
    virtual const std::vector<Shard> &get_chunk_mapping() const = 0;                              // 25
    virtual int decode_concat_of_wanted(const Set &wanted, const Chunks &there, ceph::bufferlist *decoded) = 0; // 26
    virtual int decode_concat(const Chunks &there, ceph::bufferlist *decoded) = 0;                // 27
    virtual uint64_t get_supported_optimizations() const = 0;                                     // 28
    virtual std::string get_optimizations_flags_string() const = 0;                               // 29
};

using ErasureCodeInterface = LaterSlots<FirstSlots>;
using ErasureCodePlugin = pantile::ErasureCodePlugin<ErasureCodeInterface>;

} // namespace pantile::abi20

// A rule for several zones is one more slot, before all later ones; its further arguments differ
// between sources of 21.
namespace pantile::abi21 {

template <class... Domains> class FirstSlots : public abi20::FirstSlots {
public:
    virtual int create_rule_of_zones(const std::string &name, int zones, Domains... domains, CrushWrapper &crush,
                                     std::ostream *why) const = 0;
};

template <class... Domains> using ErasureCodeInterface = abi20::LaterSlots<FirstSlots<Domains...>>;

} // namespace pantile::abi21
