// The Rust half of the plug-in: the exports of src/border.rs, in C++.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <map>
#include <ostream>
#include <string>
#include <vector>

namespace pantile {

struct Text {
    const char *start;
    size_t len;
};

struct Word {
    Text name, value;
};

// A set of shards: bit i of `low`, or bit i - 64 of `high`, is shard i.
struct Shards {
    uint64_t low = 0, high = 0;
    void insert(unsigned shard) { (shard < 64 ? low : high) |= uint64_t(1) << (shard % 64); }
    bool contains(unsigned shard) const { return (shard < 64 ? low : high) >> (shard % 64) & 1; }
};

// The most chunks of a code.
constexpr unsigned SHARDS_MOST = 128;

struct Shape {
    uint32_t chunks, data, sub_chunks, granularity;
    const int32_t *mapping;
    uint8_t is_bytewise;
};

struct Instance;

extern "C" {
int pantile_ceph_open(Text plugin, const Word *words, size_t count, void *to, void (*say)(void *, Text) noexcept,
                      const Instance **instance);
void pantile_ceph_close(const Instance *);
void pantile_ceph_words(const Instance *, void *to, void (*visit)(void *, Word) noexcept);
Shape pantile_ceph_shape(const Instance *);
uint32_t pantile_ceph_chunk_bytes(const Instance *, uint32_t object_bytes);
int pantile_ceph_minimum(const Instance *, Shards wanted, Shards there, const int32_t *costs, Shards *minimum);
int pantile_ceph_parts(const Instance *, Shards wanted, Shards there, Shards *minimum, void *to,
                       void (*visit)(void *, uint32_t) noexcept);
int pantile_ceph_repair(const Instance *, uint32_t shard, const uint8_t *const *parts, size_t part_bytes,
                        uint8_t *chunk, size_t len);
int pantile_ceph_encode(const Instance *, const uint8_t *const *data, uint8_t *const *parity, size_t len);
int pantile_ceph_decode(const Instance *, const uint8_t *const *there, uint8_t *const *wanted, size_t len);
int pantile_ceph_add_delta(const Instance *, uint32_t shard, const uint8_t *delta, uint8_t *const *parity,
                           size_t len);
void pantile_ceph_log(Text);
}

inline Text text(const std::string &of) { return {of.data(), of.size()}; }

// Logs that a call was not answered, and returns the number that Ceph gets instead.
inline int refused(const std::string &what) noexcept
{
    pantile_ceph_log(text(what));
    return -5; // EIO
}

// Runs a call of Ceph: no exception reaches Ceph.
template <typename Call> int caught(const char *slot, Call call) noexcept
{
    try {
        return call();
    } catch (const std::exception &error) {
        return refused(std::string(slot) + ": " + error.what());
    } catch (...) {
        return refused(std::string(slot) + ": something was thrown");
    }
}

// Runs a call that has no answer. If it fails, the daemon ends: Ceph would otherwise go on and
// write the buffers, some of which have no result.
template <typename Call> void caught_or_abort(const char *slot, Call call) noexcept
{
    if (caught(slot, call) == 0) return;
    refused(std::string(slot) + ": this call takes no answer, and what was made must not be written: the daemon ends");
    std::abort();
}

// An exception of a callback, kept until Rust has returned: none may unwind through it.
class Thrown {
public:
    template <typename Call> void keep(Call call) noexcept
    {
        if (what) return;
        try {
            call();
        } catch (...) {
            what = std::current_exception();
        }
    }
    void again() const
    {
        if (what) std::rethrow_exception(what);
    }

private:
    std::exception_ptr what;
};

// The state of a callback of Rust's, and an exception that it kept.
template <typename State> struct Callback {
    State *state;
    Thrown thrown;
};

// A profile and its pool in the Rust half.
class Pool {
public:
    using Profile = std::map<std::string, std::string>;

    Pool() = default;
    Pool(const Pool &) = delete;
    Pool &operator=(const Pool &) = delete;
    ~Pool()
    {
        if (instance) pantile_ceph_close(instance);
    }

    // Reads a profile and adds the defaults that it leaves out. The monitor calls it twice.
    int open(const std::string &plugin, Profile &given, std::ostream *why)
    {
        std::vector<Word> words;
        for (const auto &word : given) words.push_back({text(word.first), text(word.second)});
        const Instance *opened = nullptr;
        Callback<std::ostream> to{why, {}};
        auto say = [](void *to, Text what) noexcept {
            auto &callback = *static_cast<Callback<std::ostream> *>(to);
            callback.thrown.keep([&] {
                if (callback.state) callback.state->write(what.start, std::streamsize(what.len));
            });
        };
        int failed = pantile_ceph_open(text(plugin), words.data(), words.size(), &to, say, &opened);
        to.thrown.again();
        if (failed) return failed;
        if (instance) pantile_ceph_close(instance);
        instance = opened;
        shape = pantile_ceph_shape(opened);
        profile.clear();
        Callback<Profile> words_of{&profile, {}};
        pantile_ceph_words(opened, &words_of, [](void *to, Word word) noexcept {
            auto &callback = *static_cast<Callback<Profile> *>(to);
            callback.thrown.keep([&] { (*callback.state)[{word.name.start, word.name.len}] = {word.value.start, word.value.len}; });
        });
        words_of.thrown.again();
        given = profile;
        return 0;
    }

    // Returns the value of a word of the open profile.
    std::string word(const char *name) const
    {
        auto found = profile.find(name);
        return found == profile.end() ? std::string() : found->second;
    }

    // Returns the shard of chunk i; data chunks come first.
    unsigned shard(unsigned chunk) const { return shape.mapping ? unsigned(shape.mapping[chunk]) : chunk; }

    // Returns the shards of all chunks; an empty list if chunk i is shard i.
    template <typename Shard> std::vector<Shard> mapping() const
    {
        std::vector<Shard> all;
        for (unsigned chunk = 0; shape.mapping && chunk < shape.chunks; ++chunk) all.push_back(Shard(shape.mapping[chunk]));
        return all;
    }

    const Instance *instance = nullptr;
    Shape shape = {0, 0, 1, 1, nullptr, 0};
    Profile profile;
};

} // namespace pantile
