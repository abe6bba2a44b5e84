// A host that stands for a Ceph that is not installed: that Ceph's header declares the interface,
// and each slot is called.
//
//   slots DIRECTORY          with our libec_pantile.so and a libec_isa.so (isa.cc) in it
//
// Compiled with MAJOR and VERSION of that Ceph, and SLOTS, the functions that its header declares.
#include "erasure-code/ErasureCodeInterface.h"

#include "../plugin/maker.h"
#include <cstring>
#include <dlfcn.h>
#include <iostream>
#include <rados/librados.h>
#include <sstream>

using ceph::bufferlist, ceph::bufferptr, ceph::ErasureCodeInterface;
using pantile::Chunks, pantile::Profile, pantile::Set, pantile::SubChunks;

namespace ceph::global {
extern void *g_ceph_context;
}

// Symbols that a plug-in takes from its host.
static ceph::ErasureCodePlugin *registered;
ceph::ErasureCodePluginRegistry ceph::ErasureCodePluginRegistry::singleton;
int ceph::ErasureCodePluginRegistry::add(const std::string &, ErasureCodePlugin *plugin)
{
    registered = plugin;
    return 0;
}
const char *ceph_version_to_str() { return VERSION; }
static std::string rule;
int CrushWrapper::add_simple_rule(std::string name, std::string root, std::string failure_domain, int, std::string device_class,
                                  std::string mode, int, std::ostream *)
{
    rule = name + " " + root + " " + failure_domain + " " + device_class + " " + mode;
    return 7;
}

static int failed, called = 1; // the destructor is called at the end

// Records that a slot was called, and if its answer is the one that only this slot gives.
static void slot(const char *name, bool is_right)
{
    ++called;
    if (!is_right) ++failed, std::cout << "WRONG in Ceph " << VERSION << ": " << name << "\n";
}

static bufferptr bytes(unsigned len, unsigned salt)
{
    bufferptr made(ceph::buffer::create_aligned(len, 4096));
    for (unsigned i = 0; i < len; ++i) made.c_str()[i] = char(((i + salt) * 2654435761u) >> 13);
    return made;
}

static bool same(const bufferlist &a, const bufferlist &b)
{
    bufferlist x = a, y = b;
    return x.length() == y.length() && !memcmp(x.c_str(), y.c_str(), x.length());
}

static bufferlist list(const bufferptr &of)
{
    bufferlist made;
    made.push_back(of);
    return made;
}

static std::shared_ptr<ErasureCodeInterface> open(Profile profile)
{
    std::shared_ptr<ErasureCodeInterface> code;
    auto *maker = reinterpret_cast<pantile::ErasureCodePlugin<ErasureCodeInterface> *>(registered);
    if (maker->factory(".", profile, &code, &std::cout)) exit(1);
    return code;
}

constexpr unsigned CHUNK = 4096, K = 4, N = 6;

// Tests the rules of a Ceph that has rules of several zones.
template <class Code> static void rules_of_zones(const Code &code, CrushWrapper &crush)
{
    [[maybe_unused]] std::ostringstream why;
    if constexpr (requires { code.create_rule("r", 2, crush, &why); }) {
        slot("create_rule of zones", code.create_rule("r", 1, crush, &why) == 7 && code.create_rule("r", 2, crush, &why) < 0 && !why.str().empty());
    } else if constexpr (requires { code.create_rule("r", 2, "", "", "", crush, &why); }) {
        bool is_given = code.create_rule("r", 1, "rack", "host", "ssd", crush, &why) == 7 && rule == "r default host ssd indep";
        slot("create_rule of zones", is_given && code.create_rule("r", 2, "", "", "", crush, &why) < 0 && !why.str().empty());
    }
}

static void sets_and_maps(ErasureCodeInterface &code, const bufferlist &in, Chunks *all)
{
    std::map<int, SubChunks> minimum;
    int status = code.minimum_to_decode(Set{1}, Set{0, 2, 3, 4, 5}, &minimum);
    slot("minimum_to_decode", !status && minimum.size() == K && minimum.begin()->second == SubChunks{{0, 1}});
    Set cheapest;
    status = code.minimum_to_decode_with_cost(Set{1}, std::map<int, int>{{0, 9}, {2, 1}, {3, 1}, {4, 1}, {5, 1}}, &cheapest);
    slot("minimum_to_decode_with_cost", !status && cheapest == Set{2, 3, 4, 5});
    status = code.encode(Set{0, 1, 2, 3, 4, 5}, in, all);
    bufferlist third;
    third.substr_of(in, 2 * CHUNK, CHUNK);
    slot("encode", !status && all->size() == N && same((*all)[2], third));
    Chunks again = *all;
    for (int parity : {4, 5}) again[parity] = list(bytes(CHUNK, 99));
    status = code.encode_chunks(Set{4, 5}, &again);
    slot("encode_chunks", !status && same(again[4], (*all)[4]) && same(again[5], (*all)[5]));
    Chunks left = *all, made;
    left.erase(0), left.erase(5);
    status = code.decode(Set{0, 5}, left, &made, CHUNK);
    slot("decode", !status && same(made[0], (*all)[0]) && same(made[5], (*all)[5]));
    Chunks room = left;
    room[0] = list(bytes(CHUNK, 98));
    status = code.decode_chunks(Set{0}, left, &room);
    slot("decode_chunks", !status && same(room[0], (*all)[0]));
    bufferlist object, part;
    status = code.decode_concat(left, &object);
    slot("decode_concat", !status && same(object, in));
    status = code.decode_concat(Set{2}, left, &part);
    slot("decode_concat of what is wanted", !status && same(part, third));
}

#if MAJOR >= 20
static shard_id_set shards(const Set &of) { return shard_id_set(of); }

static void shards_and_buffers(ErasureCodeInterface &code, const bufferlist &in, const Chunks &all)
{
    auto is_all = [&](const shard_id_map<bufferptr> &of, int shard) { return same(list(of.at(shard_id_t(int8_t(shard)))), all.at(shard)); };
    auto chunk = [&](int shard) {
        bufferlist copy = all.at(shard);
        return bufferptr(copy.c_str(), copy.length());
    };
    shard_id_set minimum, cheapest;
    mini_flat_map<shard_id_t, SubChunks> sub_chunks(N);
    int status = code.minimum_to_decode(shards({1}), shards({0, 2, 3, 4, 5}), minimum, &sub_chunks);
    slot("minimum_to_decode of shards", !status && minimum.size() == K && sub_chunks.size() == K);
    shard_id_map<int> costs(N, std::map<int, int>{{0, 9}, {2, 1}, {3, 1}, {4, 1}, {5, 1}});
    status = code.minimum_to_decode_with_cost(shards({1}), costs, &cheapest);
    slot("minimum_to_decode_with_cost of shards", !status && cheapest == shards({2, 3, 4, 5}));
    slot("get_minimum_granularity", code.get_minimum_granularity() == 1);
    shard_id_map<bufferlist> encoded(N);
    status = code.encode(shards({0, 1, 2, 3, 4, 5}), in, &encoded);
    slot("encode of shards", !status && encoded.size() == N && same(encoded.at(shard_id_t(5)), all.at(5)));

    shard_id_map<bufferptr> data(N), parity(N);
    for (int8_t shard : {0, 1, 2, 3}) data.emplace(shard_id_t(shard), chunk(shard));
    for (int8_t shard : {4, 5}) parity.emplace(shard_id_t(shard), bytes(CHUNK, 97));
    status = code.encode_chunks(data, parity);
    slot("encode_chunks of shards", !status && is_all(parity, 4) && is_all(parity, 5));
    // Chunk 1 becomes chunk 2: the parities then are those of the changed object.
    bufferptr before = chunk(1), after = chunk(2), delta = bytes(CHUNK, 96);
    code.encode_delta(before, after, &delta);
    bool is_delta = true;
    for (unsigned i = 0; i < CHUNK; ++i) is_delta = is_delta && delta.c_str()[i] == char(before.c_str()[i] ^ after.c_str()[i]);
    slot("encode_delta", is_delta);
    shard_id_map<bufferptr> deltas(N), changed(N), fresh(N);
    deltas.emplace(shard_id_t(1), delta);
    for (int8_t shard : {4, 5}) changed.emplace(shard_id_t(shard), chunk(shard)), fresh.emplace(shard_id_t(shard), bytes(CHUNK, 95));
    code.apply_delta(deltas, changed);
    data.at(shard_id_t(1)) = after;
    code.encode_chunks(data, fresh);
    slot("apply_delta", same(list(changed.at(shard_id_t(4))), list(fresh.at(shard_id_t(4)))) && same(list(changed.at(shard_id_t(5))), list(fresh.at(shard_id_t(5)))));

    shard_id_map<bufferlist> left(N), made(N);
    for (int8_t shard : {1, 2, 3, 4}) left.emplace(shard_id_t(shard), all.at(shard));
    status = code.decode(shards({0, 5}), left, &made, CHUNK);
    slot("decode of shards", !status && same(made.at(shard_id_t(0)), all.at(0)) && same(made.at(shard_id_t(5)), all.at(5)));
    shard_id_map<bufferptr> there(N), room(N);
    for (int8_t shard : {1, 2, 3, 4}) there.emplace(shard_id_t(shard), chunk(shard));
    for (int8_t shard : {0, 5}) room.emplace(shard_id_t(shard), bytes(CHUNK, 94));
    status = code.decode_chunks(shards({0, 5}), there, room);
    slot("decode_chunks of shards", !status && is_all(room, 0) && is_all(room, 5));
    auto can = code.get_supported_optimizations();
    slot("get_supported_optimizations", can & ErasureCodeInterface::FLAG_EC_PLUGIN_OPTIMIZED_SUPPORTED);
    slot("get_optimizations_flags_string", code.get_optimizations_flags_string() == ErasureCodeInterface::get_optimization_flags_string(can));
}
#endif

// One chunk of clay from parts of others, in the calls of pools that are not optimised.
static void parts()
{
    auto code = open({{"plugin", "pantile"}, {"k", "4"}, {"m", "2"}, {"d", "5"}});
    unsigned sub_chunks = unsigned(code->get_sub_chunk_count()), len = code->get_chunk_size(1);
    Chunks all, read, made;
    code->encode(Set{0, 1, 2, 3, 4, 5}, list(bytes(4 * len, 3)), &all);
    std::map<int, SubChunks> minimum;
    code->minimum_to_decode(Set{0}, Set{1, 2, 3, 4, 5}, &minimum);
    size_t count = 0;
    for (auto &shard : minimum)
        for (auto &run : shard.second) {
            bufferlist part;
            part.substr_of(all[shard.first], unsigned(run.first) * len / sub_chunks, unsigned(run.second) * len / sub_chunks);
            read[shard.first].claim_append(part);
            count += unsigned(run.second);
        }
    bool is_made = !code->decode(Set{0}, read, &made, int(len)) && same(made[0], all[0]);
    if (count != 20 || !is_made) ++failed, std::cout << "WRONG in Ceph " << VERSION << ": clay reads " << count << " sub-chunks\n";
}

static int run(const std::string &directory)
{
    void *library = dlopen((directory + "/libec_pantile.so").c_str(), RTLD_NOW);
    if (!library) return std::cout << dlerror() << "\n", 1;
    auto version = reinterpret_cast<const char *(*)()>(dlsym(library, "__erasure_code_version"));
    auto init = reinterpret_cast<int (*)(const char *, const char *)>(dlsym(library, "__erasure_code_init"));
    if (strcmp(version(), VERSION)) return std::cout << "it is " << version() << "\n", 1;
    if (int status = init("pantile", directory.c_str())) return std::cout << "init answers " << status << "\n", 1;

    auto code = open({{"plugin", "pantile"}, {"code", "rs:4+2"}});
    Profile profile = code->get_profile();
    slot("get_profile", profile["k"] == "4" && profile["m"] == "2");
    slot("init", code->init(profile, &std::cout) == 0);
    CrushWrapper crush;
    slot("create_rule", code->create_rule("r", crush, &std::cout) == 7 && rule == "r default host  indep");
    rules_of_zones(*code, crush);
    slot("get_chunk_count", code->get_chunk_count() == N);
    slot("get_data_chunk_count", code->get_data_chunk_count() == K);
    slot("get_coding_chunk_count", code->get_coding_chunk_count() == N - K);
    slot("get_sub_chunk_count", code->get_sub_chunk_count() == 1);
    slot("get_chunk_size", code->get_chunk_size(K * CHUNK) == CHUNK);
    slot("get_chunk_mapping", code->get_chunk_mapping().empty());
    bufferlist in = list(bytes(K * CHUNK, 0));
    Chunks all;
    sets_and_maps(*code, in, &all);
#if MAJOR >= 20
    shards_and_buffers(*code, in, all);
#endif
    parts();
    code.reset();
    if (called != SLOTS) ++failed, std::cout << "WRONG: " << called << " slots were called, and Ceph " << VERSION << " has " << SLOTS << "\n";
    std::cout << "Ceph " << VERSION << ": " << called << " slots, " << failed << " wrong\n";
    return failed != 0;
}

int main(int count, char **words)
{
    if (count != 2) return std::cerr << "slots DIRECTORY\n", 2;
    rados_t client;
    rados_create(&client, nullptr);
    ceph::global::g_ceph_context = rados_cct(client);
    int status = run(words[1]);
    std::cout.flush();
    _exit(status);
}
