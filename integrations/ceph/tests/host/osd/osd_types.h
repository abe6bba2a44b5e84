// Names that the interface of Ceph 20 and later takes from the file of this name: the number of a
// shard, and sets and maps of them as Ceph's own headers, fetched, have them.
#pragma once
#include <array>
#include <bit>
#include <compare>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <ostream>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

struct shard_id_t {
    int8_t id = 0;

    shard_id_t() = default;
    explicit constexpr shard_id_t(int8_t id) : id(id) {}
    explicit constexpr operator int8_t() const { return id; }
    explicit constexpr operator int64_t() const { return id; }
    explicit constexpr operator int() const { return id; }
    explicit constexpr operator unsigned() const { return unsigned(id); }
    shard_id_t &operator=(int other) { return id = int8_t(other), *this; }
    shard_id_t &operator++() { return ++id, *this; }
    auto operator<=>(const shard_id_t &) const = default;
    friend std::ostream &operator<<(std::ostream &out, const shard_id_t &shard) { return out << int(shard.id); }
};

#include "include/ceph_assert.h"
#include "common/bitset_set.h"
#include "common/mini_flat_map.h"

using shard_id_set = bitset_set<128, shard_id_t>;
template <typename Value> using shard_id_map = mini_flat_map<shard_id_t, Value>;
