// Loads erasure-code plug-ins of Ceph 15 to 18, the distribution's and ours, without a cluster.
//
//   probe check FILE NAME            loads a file as a daemon of this version would: yes or no
//   probe profiles DIR               what a plug-in makes of profiles, one a line of standard input
//   probe compare CEPHS OURS LOSSES  both on profiles, one a line: sizes, bytes, recoveries
//   probe exhaust DIR LOSSES         ours alone: every set of so many losses and of one more
//   probe wrong DIR                  calls that no daemon should make, each answered with an error
//   probe void DIR                   as Ceph 20 (PROBE_VERSION): granularity, and calls without an
//                                    answer that fail, each of which ends a process of its own
//   probe bench CEPHS OURS BYTES     both on profiles, in turn: encoding, decoding two losses
//
// A profile is words `name=value` with blanks between them, `plugin=` among them. PROBE_VERSION is
// the version that the host claims to be; this machine's Ceph unless told otherwise.
#include "../plugin/abi16.h"
#include "../plugin/abi20.h"
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <dlfcn.h>
#include <iostream>
#include <rados/librados.h>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

using namespace pantile::abi16;
using pantile::Profile;
using pantile::Chunks, pantile::Set, pantile::SubChunks;
using ceph::bufferlist;
using Code = std::shared_ptr<ErasureCodeInterface>;

namespace ceph::global {
extern void *g_ceph_context;
}

// Symbols that a plug-in takes from its host.
static std::map<std::string, ErasureCodePlugin *> registered;
static std::string directory;
ceph::ErasureCodePluginRegistry ceph::ErasureCodePluginRegistry::singleton;
int ceph::ErasureCodePluginRegistry::add(const std::string &name, ErasureCodePlugin *plugin)
{
    registered[directory + "/" + name] = reinterpret_cast<pantile::abi16::ErasureCodePlugin *>(plugin);
    return 0;
}
const char *ceph_version_to_str()
{
    if (const char *claimed = getenv("PROBE_VERSION")) return claimed;
    static auto real = reinterpret_cast<const char *(*)()>(dlsym(RTLD_NEXT, "_Z19ceph_version_to_strv"));
    return real();
}

// Loads a file as Ceph does: 0, or a sentence on standard error.
static int load_file(const std::string &file, const std::string &name)
{
    void *library = dlopen(file.c_str(), RTLD_NOW);
    if (!library) return std::cerr << dlerror() << "\n", -1;
    auto version = reinterpret_cast<const char *(*)()>(dlsym(library, "__erasure_code_version"));
    auto init = reinterpret_cast<int (*)(const char *, const char *)>(dlsym(library, "__erasure_code_init"));
    if (!version || !init) return std::cerr << file << ": it is no erasure-code plug-in\n", -1;
    if (strcmp(version(), ceph_version_to_str()))
        return std::cerr << file << ": it is " << version() << ", not for Ceph " << ceph_version_to_str() << "\n", -1;
    if (int failed = init(name.c_str(), directory.c_str())) return std::cerr << file << ": init answers " << failed << "\n", -1;
    return 0;
}

static ErasureCodePlugin *plugin_of(const std::string &folder, const std::string &name)
{
    directory = folder;
    auto &plugin = registered[folder + "/" + name];
    if (!plugin && load_file(folder + "/libec_" + name + ".so", name)) exit(2);
    return registered[folder + "/" + name];
}

// Ceph's lrc and clay make their inner codes by this function of their host.
extern "C" int registry_factory(void *, const std::string *plugin, const std::string *folder, Profile *profile, Code *code,
                                std::ostream *why)
    __asm__("_ZN4ceph25ErasureCodePluginRegistry7factoryERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEES8_RSt3mapIS6_"
            "S6_St4lessIS6_ESaISt4pairIS7_S6_EEEPSt10shared_ptrINS_20ErasureCodeInterfaceEEPSo");
int registry_factory(void *, const std::string *plugin, const std::string *folder, Profile *profile, Code *code, std::ostream *why)
{
    return plugin_of(*folder, *plugin)->factory(*folder, *profile, code, why);
}

static Profile words(const std::string &line)
{
    Profile profile;
    std::istringstream in(line);
    for (std::string word; in >> word;) profile[word.substr(0, word.find('='))] = word.find('=') == word.npos ? "" : word.substr(word.find('=') + 1);
    return profile;
}

struct Opened {
    int status;
    Code code;
    Profile profile;
    std::string why;
};

static Opened open(const std::string &folder, const std::string &line)
{
    Opened opened{0, nullptr, words(line), ""};
    std::ostringstream why{std::string()};
    std::string name = opened.profile["plugin"];
    opened.status = plugin_of(folder, name)->factory(folder, opened.profile, &opened.code, &why);
    opened.why = why.str();
    return opened;
}

// The bytes that all vectors are made of.
static bufferlist pattern(unsigned len)
{
    ceph::bufferptr bytes(ceph::buffer::create_aligned(len, 4096));
    for (uint64_t i = 0; i < len; ++i) bytes.c_str()[i] = char(i * 2654435761u >> 13);
    bufferlist list;
    list.push_back(std::move(bytes));
    return list;
}

static Set all(const Code &code)
{
    Set set;
    for (unsigned i = 0; i < code->get_chunk_count(); ++i) set.insert(int(i));
    return set;
}

static bool same(bufferlist a, bufferlist b)
{
    return a.length() == b.length() && !memcmp(a.c_str(), b.c_str(), a.length());
}

static std::string text(const Profile &profile)
{
    std::string text;
    for (auto &word : profile) text += " " + word.first + "=" + word.second;
    return text;
}

// Calls with every set of `count` of n shards until one call answers false.
template <typename Call> static bool each_set(unsigned n, unsigned count, Call call)
{
    std::vector<unsigned> at(count);
    for (unsigned i = 0; i < count; ++i) at[i] = i;
    while (true) {
        if (!call(Set(at.begin(), at.end()))) return false;
        unsigned i = count;
        while (i > 0 && at[i - 1] == n - count + i - 1) --i;
        if (i == 0) return true;
        ++at[i - 1];
        for (; i < count; ++i) at[i] = at[i - 1] + 1;
    }
}

// A code of Ceph 20 or later behind the interface of 15 to 18: their common calls.
template <class Interface> class Of20 final : public ErasureCodeInterface {
public:
    explicit Of20(std::shared_ptr<Interface> code) : code(std::move(code)) {}
    int init(Profile &profile, std::ostream *why) override { return code->init(profile, why); }
    const Profile &get_profile() const override { return code->get_profile(); }
    int create_rule(const std::string &name, CrushWrapper &crush, std::ostream *why) const override { return code->create_rule(name, crush, why); }
    unsigned get_chunk_count() const override { return code->get_chunk_count(); }
    unsigned get_data_chunk_count() const override { return code->get_data_chunk_count(); }
    unsigned get_coding_chunk_count() const override { return code->get_coding_chunk_count(); }
    int get_sub_chunk_count() override { return code->get_sub_chunk_count(); }
    unsigned get_chunk_size(unsigned bytes) const override { return code->get_chunk_size(bytes); }
    int minimum_to_decode(const Set &wanted, const Set &there, std::map<int, SubChunks> *minimum) override { return code->minimum_to_decode(wanted, there, minimum); }
    int minimum_to_decode_with_cost(const Set &wanted, const std::map<int, int> &there, Set *minimum) override { return code->minimum_to_decode_with_cost(wanted, there, minimum); }
    int encode(const Set &wanted, const bufferlist &in, Chunks *encoded) override { return code->encode(wanted, in, encoded); }
    int encode_chunks(const Set &wanted, Chunks *encoded) override { return code->encode_chunks(wanted, encoded); }
    int decode(const Set &wanted, const Chunks &there, Chunks *decoded, int bytes) override { return code->decode(wanted, there, decoded, bytes); }
    int decode_chunks(const Set &wanted, const Chunks &there, Chunks *decoded) override { return code->decode_chunks(wanted, there, decoded); }
    const std::vector<int> &get_chunk_mapping() const override { return mapping; }
    int decode_concat(const Chunks &there, bufferlist *decoded) override { return code->decode_concat(there, decoded); }

private:
    std::shared_ptr<Interface> code;
    const std::vector<int> mapping;
};

template <class Interface> static int make20(ErasureCodePlugin *plugin, Profile &profile, Code *code, std::ostream *why)
{
    std::shared_ptr<Interface> made;
    int failed = reinterpret_cast<pantile::ErasureCodePlugin<Interface> *>(plugin)->factory(directory, profile, &made, why);
    if (!failed) *code = std::make_shared<Of20<Interface>>(made);
    return failed;
}

// Whether the isa beside a file has the second create_rule of Ceph 21.
static bool has_rule_of_zones(const std::string &file)
{
    void *isa = dlopen((file.substr(0, file.rfind('/') + 1) + "libec_isa.so").c_str(), RTLD_LAZY);
    auto table = isa ? static_cast<void *const *>(dlsym(isa, "_ZTV21ErasureCodeIsaDefault")) : nullptr;
    Dl_info info = {};
    return table && dladdr(table[2 + 5], &info) && info.dli_sname && strstr(info.dli_sname, "create_rule");
}

struct Tally {
    size_t sets = 0, refused = 0, reads = 0, cephs_reads = 0, fewer = 0, false_bytes = 0;
};

static int wrong(const std::string &line, const std::string &what)
{
    std::cout << "WRONG " << line << ": " << what << std::endl;
    return 1;
}

static std::string list(const Set &set)
{
    std::string text;
    for (int shard : set) text += (text.empty() ? "{" : ",") + std::to_string(shard);
    return text + "}";
}

static bool makes_false_bytes(Code code, const Chunks &chunks, const Set &lost, const std::map<int, SubChunks> &minimum)
{
    Chunks read, made;
    for (auto &shard : minimum) read[shard.first] = chunks.at(shard.first);
    if (code->decode(lost, read, &made, 0)) return false;
    return std::any_of(lost.begin(), lost.end(), [&](int shard) { return !same(made[shard], chunks.at(shard)); });
}

// Bytes of a chunk in so many sub-chunks, those that are named, one behind the other.
static bufferlist parts_of(const bufferlist &chunk, const SubChunks &named, unsigned sub_chunks)
{
    unsigned bytes = chunk.length() / sub_chunks;
    bufferlist parts, one;
    for (auto &run : named) {
        one.substr_of(chunk, unsigned(run.first) * bytes, unsigned(run.second) * bytes);
        parts.claim_append(one);
    }
    return parts;
}

static size_t sub_chunks_read(const std::map<int, SubChunks> &minimum)
{
    size_t count = 0;
    for (auto &shard : minimum)
        for (auto &run : shard.second) count += size_t(run.second);
    return count;
}

static std::string text(const std::map<int, SubChunks> &minimum)
{
    std::string text;
    for (auto &shard : minimum) {
        text += " " + std::to_string(shard.first) + ":";
        for (auto &run : shard.second) text += std::to_string(run.first) + "+" + std::to_string(run.second) + " ";
    }
    return text;
}

// Recovers every set of losses from the chunks of minimum_to_decode; if Ceph's plug-in is given,
// never from more chunks than it reads.
static int recoveries(const std::string &line, Code ours, Code cephs, const Chunks &chunks, unsigned losses, Tally *tally)
{
    unsigned n = ours->get_chunk_count();
    int failed = 0;
    for (unsigned count = 1; count <= losses && count <= n; ++count)
        each_set(n, count, [&](const Set &lost) {
            Set there;
            for (unsigned i = 0; i < n; ++i) if (!lost.count(int(i))) there.insert(int(i));
            std::map<int, SubChunks> minimum, theirs;
            int status = ours->minimum_to_decode(lost, there, &minimum);
            if (cephs) {
                int other = cephs->minimum_to_decode(lost, there, &theirs);
                // Ceph's blaum_roth with w=7 makes false bytes for chunks that cannot be recovered.
                if (status && !other && makes_false_bytes(cephs, chunks, lost, theirs)) return ++tally->false_bytes, true;
                if ((status == 0) != (other == 0)) return failed = wrong(line, "minimum_to_decode without " + list(lost) + " answers " + std::to_string(status) + ", Ceph's " + std::to_string(other)), false;
                if (sub_chunks_read(minimum) > sub_chunks_read(theirs)) return failed = wrong(line, "more is read than by Ceph's without " + list(lost)), false;
                tally->fewer += sub_chunks_read(minimum) < sub_chunks_read(theirs);
                tally->cephs_reads += sub_chunks_read(theirs);
            }
            ++tally->sets;
            if (status) return ++tally->refused, true;
            tally->reads += sub_chunks_read(minimum);
            unsigned sub_chunks = unsigned(ours->get_sub_chunk_count());
            Chunks read, made;
            for (auto &shard : minimum) read[shard.first] = parts_of(chunks.at(shard.first), shard.second, sub_chunks);
            // Ceph asks again after the read for the size of a chunk.
            Set given;
            std::map<int, SubChunks> again;
            for (auto &shard : minimum) given.insert(shard.first);
            if (sub_chunks > 1 && (ours->minimum_to_decode(lost, given, &again) || again != minimum))
                return failed = wrong(line, "of what is read without " + list(lost) + " something else is named:" + text(minimum) + "then" + text(again)), false;
            if (int answer = ours->decode(lost, read, &made, int(chunks.at(0).length()))) return failed = wrong(line, "decode without " + list(lost) + " answers " + std::to_string(answer)), false;
            for (int shard : lost)
                if (!same(made[shard], chunks.at(shard))) return failed = wrong(line, "other bytes in chunk " + std::to_string(shard) + " without " + list(lost)), false;
            return true;
        });
    return failed;
}

// Compares one profile in both plug-ins.
static int compare(const std::string &cephs_folder, const std::string &ours_folder, const std::string &line, unsigned losses, Tally *tally)
{
    Opened cephs = open(cephs_folder, line), ours = open(ours_folder, line);
    if ((cephs.status == 0) != (ours.status == 0))
        return wrong(line, "ours answers " + std::to_string(ours.status) + " (" + ours.why + "), Ceph's " + std::to_string(cephs.status) + " (" + cephs.why + ")");
    if (cephs.status) return 0;
    if (cephs.profile != ours.profile) return wrong(line, "the profile is" + text(ours.profile) + ", Ceph's" + text(cephs.profile));
    Code a = cephs.code, b = ours.code;
    if (a->get_chunk_count() != b->get_chunk_count() || a->get_data_chunk_count() != b->get_data_chunk_count() || a->get_sub_chunk_count() != b->get_sub_chunk_count() || a->get_chunk_mapping() != b->get_chunk_mapping())
        return wrong(line, "another shape");
    for (unsigned bytes : {1u, 31u, 4096u, 4097u, 100000u, 1u << 20, (4u << 20) + 1, 200u << 20})
        // Ceph's jerasure asserts that a chunk is as long as its alignment.
        if (bytes / b->get_data_chunk_count() >= b->get_chunk_size(1) && a->get_chunk_size(bytes) != b->get_chunk_size(bytes))
            return wrong(line, "chunks of " + std::to_string(b->get_chunk_size(bytes)) + " bytes for " + std::to_string(bytes) + ", Ceph's " + std::to_string(a->get_chunk_size(bytes)));
    unsigned unit = b->get_chunk_size(1);
    unsigned k = a->get_data_chunk_count();
    for (unsigned bytes : {unit * k, unit * k * 3 - 7}) {
        Chunks theirs, made;
        // Ceph's clay keeps buffers of the first length that it meets, and throws at a longer one.
        Code anew = open(cephs_folder, line).code;
        if (anew->encode(all(a), pattern(bytes), &theirs) || b->encode(all(b), pattern(bytes), &made)) return wrong(line, "encode refuses");
        for (auto &chunk : theirs)
            if (!same(chunk.second, made[chunk.first])) return wrong(line, "other bytes in chunk " + std::to_string(chunk.first));
    }
    Chunks chunks;
    a->encode(all(a), pattern(unit * k), &chunks);
    return recoveries(line, b, a, chunks, losses ? losses : a->get_coding_chunk_count() + 1, tally);
}

// Makes calls that no daemon should make: each returns a negative number, and none ends this
// process.
static int wrong_calls(const std::string &folder)
{
    Opened opened = open(folder, "plugin=pantile code=rs:4+2");
    Code code = opened.code;
    Chunks chunks, made;
    code->encode(all(code), pattern(4 * 4096), &chunks);
    int failed = 0;
    auto is_refused = [&](const char *what, int answer) { failed += answer < 0 ? 0 : wrong(what, "is answered with " + std::to_string(answer)); };
    auto without = [&](Set lost) {
        Chunks left = chunks;
        for (int shard : lost) left.erase(shard);
        return left;
    };
    Chunks left = without({0});
    left[1].splice(0, 100);
    is_refused("decode of unequal chunks", code->decode({0}, left, &made, 4096));
    is_refused("decode of too few chunks", code->decode({0}, without({0, 1, 2}), &made, 4096));
    is_refused("decode of no chunks", code->decode({0}, {}, &made, 4096));
    is_refused("decode of a shard that is not there", code->decode({77}, without({0}), &made, 4096));
    is_refused("decode of a negative shard", code->decode({-1}, without({0}), &made, 4096));
    Chunks strange = without({0});
    strange[500] = chunks[1];
    is_refused("decode from a shard that is not there", code->decode({0}, strange, &made, 4096));
    Chunks few = {{0, chunks[0]}, {5, chunks[5]}};
    is_refused("encode_chunks without data", code->encode_chunks({5}, &few));
    Chunks no_room;
    is_refused("decode_chunks without room", code->decode_chunks({0}, without({0}), &no_room));
    std::map<int, SubChunks> minimum;
    is_refused("minimum_to_decode of too few", code->minimum_to_decode({0}, {1, 2, 3}, &minimum));
    is_refused("minimum_to_decode of a negative shard", code->minimum_to_decode({-3}, {0, 1, 2, 3}, &minimum));
    Set cheapest;
    is_refused("minimum_to_decode_with_cost", code->minimum_to_decode_with_cost({0}, {{1, 1}, {900, 1}}, &cheapest));
    Opened array = open(folder, "plugin=pantile code=rdp:6");
    Chunks short_ones;
    for (int shard : {1, 2, 3, 4, 5}) short_ones[shard] = pattern(1000);
    is_refused("decode of chunks that are no groups", array.code->decode({0}, short_ones, &made, 1000));
    Opened clay = open(folder, "plugin=clay");
    Chunks whole, parts;
    clay.code->encode(all(clay.code), pattern(4 * 4096), &whole);
    for (int shard : {1, 2, 3, 4, 5}) parts[shard] = parts_of(whole[shard], {{0, 3}}, 8);
    is_refused("decode of other parts than are read", clay.code->decode({0}, parts, &made, 4096));
    is_refused("decode of two from parts", clay.code->decode({0, 1}, parts, &made, 4096));
    is_refused("decode of parts of odd chunks", clay.code->decode({0}, parts, &made, 4099));
    is_refused("decode of what is there from parts", clay.code->decode({1}, parts, &made, 4096));
    is_refused("decode of a negative shard from parts", clay.code->decode({-1}, parts, &made, 4096));
    bufferlist out;
    is_refused("decode_concat of too few", code->decode_concat(few, &out));
    return failed;
}

static double seconds()
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Measures both in turn; prints medians of 9 rounds of 30 ms, in GB of object a second.
static void bench(const std::string &cephs_line, const std::string &cephs_folder, const std::string &ours_line, const std::string &ours_folder, unsigned bytes)
{
    Opened opened[] = {open(cephs_folder, cephs_line), open(ours_folder, ours_line)};
    double rates[2][2];
    std::vector<double> rounds[2][2];
    for (auto &each : opened) if (each.status) { std::cout << "refused: " << each.why << "\n"; return; }
    for (int round = 0; round < 9; ++round)
        for (int which = 0; which < 2; ++which) {
            Code code = opened[which].code;
            bufferlist in = pattern(bytes);
            Chunks chunks, made;
            auto rate = [&](auto call) {
                size_t calls = 0;
                double start = seconds(), took;
                do call(), ++calls; while ((took = seconds() - start) < 0.03);
                return double(calls) * bytes / took / 1e9;
            };
            Set every = all(code), lost = {0, 1}, there;
            rounds[which][0].push_back(rate([&] { chunks.clear(); code->encode(every, in, &chunks); }));
            if (code->get_coding_chunk_count() < 2) lost = {0};
            for (int shard : every) if (!lost.count(shard)) there.insert(shard);
            std::map<int, SubChunks> minimum;
            code->minimum_to_decode(lost, there, &minimum);
            Chunks read;
            for (auto &shard : minimum) read[shard.first] = chunks[shard.first];
            rounds[which][1].push_back(rate([&] { made.clear(); code->decode(lost, read, &made, 0); }));
        }
    for (int which = 0; which < 2; ++which)
        for (int what = 0; what < 2; ++what) {
            auto &all = rounds[which][what];
            std::sort(all.begin(), all.end());
            rates[which][what] = all[all.size() / 2];
        }
    printf("| %s | %s | %u | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f |\n", cephs_line.c_str(), ours_line.c_str(), bytes / 1024, rates[0][0], rates[1][0],
           rates[1][0] / rates[0][0], rates[0][1], rates[1][1], rates[1][1] / rates[0][1]);
}

// A stream that throws what is written to it.
class Throwing : public std::streambuf {
    int overflow(int) override { throw std::bad_alloc(); }
    std::streamsize xsputn(const char *, std::streamsize) override { throw std::bad_alloc(); }
};

static std::shared_ptr<pantile::abi20::ErasureCodeInterface> open20(const std::string &profile_text)
{
    Profile profile = ::words(profile_text);
    std::shared_ptr<pantile::abi20::ErasureCodeInterface> code;
    auto *plugin = registered[directory + "/" + profile["plugin"]];
    if (reinterpret_cast<pantile::abi20::ErasureCodePlugin *>(plugin)->factory(directory, profile, &code, &std::cerr)) exit(1);
    return code;
}

// Runs a call in a separate process; returns the signal that ended it, or 0.
template <typename Call> static int signal_of(Call call)
{
    pid_t child = fork();
    if (child == 0) {
        call();
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static int void_calls(const std::string &dir)
{
    namespace abi20 = pantile::abi20;
    directory = dir;
    for (const char *name : {"pantile", "jerasure", "clay"})
        if (load_file(dir + "/libec_" + name + ".so", name)) return 1;
    int failed = 0;
    auto check = [&](const char *what, bool is_right) {
        if (!is_right) ++failed, std::cout << "WRONG: " << what << "\n";
    };
    for (auto &[profile, bytes] : std::map<std::string, size_t>{
             {"plugin=pantile code=rs:4+2", 1},
             {"plugin=jerasure technique=reed_sol_van k=4 m=2", 1},
             {"plugin=jerasure technique=reed_sol_van k=4 m=2 w=16", 2},
             {"plugin=jerasure technique=cauchy_good k=4 m=2 w=4 packetsize=512", 2048},
             {"plugin=jerasure technique=liberation k=4 m=2 w=7 packetsize=64", 448},
             {"plugin=clay k=4 m=2 d=5", 8}}) {
        size_t said = open20(profile)->get_minimum_granularity();
        if (said != bytes) ++failed, std::cout << "WRONG: " << profile << " has a granularity of " << said << ", not " << bytes << "\n";
    }

    auto code = open20("plugin=jerasure technique=cauchy_good k=4 m=2 w=4 packetsize=8");
    auto buffer = [](unsigned len) { return ceph::bufferptr(ceph::buffer::create_aligned(len, 64)); };
    auto of = [&](std::map<int, unsigned> lengths) {
        abi20::ShardBuffers made = {};
        made.places.resize(6);
        for (auto &shard : lengths) made.set(shard.first, buffer(shard.second));
        return made;
    };
    auto apply = [&](abi20::ShardBuffers in, abi20::ShardBuffers out) { return signal_of([&] { code->apply_delta(in, out); }); };
    auto delta = [&](unsigned before, unsigned after, unsigned to) {
        return signal_of([&] {
            ceph::bufferptr made = buffer(to);
            code->encode_delta(buffer(before), buffer(after), &made);
        });
    };
    check("apply_delta goes on where nothing is wrong", apply(of({{0, 64}}), of({{4, 64}, {5, 64}})) == 0);
    check("apply_delta ends the daemon where lengths differ", apply(of({{0, 64}}), of({{4, 64}, {5, 32}})) == SIGABRT);
    check("apply_delta ends the daemon where half a group is given", apply(of({{0, 40}}), of({{4, 40}, {5, 40}})) == SIGABRT);
    check("encode_delta goes on where nothing is wrong", delta(64, 64, 64) == 0);
    check("encode_delta ends the daemon where lengths differ", delta(64, 32, 64) == SIGABRT && delta(64, 64, 32) == SIGABRT);

    check("what a stream throws does not end the process", signal_of([&] {
        Throwing full;
        std::ostream why(&full);
        why.exceptions(std::ios::badbit);
        Profile profile = ::words("plugin=pantile code=nonsense");
        std::shared_ptr<abi20::ErasureCodeInterface> none;
        auto *plugin = registered[directory + "/pantile"];
        _exit(reinterpret_cast<abi20::ErasureCodePlugin *>(plugin)->factory(directory, profile, &none, &why) < 0 ? 0 : 1);
    }) == 0);
    std::cout << "calls without an answer: " << failed << " wrong\n";
    return failed != 0;
}

static int run(int count, char **words)
{
    std::string what = words[1];
    if (what == "void") return void_calls(words[2]);
    if (what == "check") {
        directory = ".";
        std::string name = words[3], file = words[2];
        if (load_file(file[0] == '/' ? file : "./" + file, name)) return 1;
        Profile profile = ::words(name.rfind("pantile_", 0) == 0 ? "plugin=" + name : name == "pantile" ? "plugin=pantile code=rs:4+2" : name == "shec" || name == "clay" ? "plugin=" + name : "plugin=jerasure technique=reed_sol_van k=4 m=2");
        Code code;
        std::ostringstream why{std::string()};
        auto *plugin = registered[directory + "/" + name];
        int failed;
        if (atoi(ceph_version_to_str()) < 20) failed = plugin->factory(directory, profile, &code, &why);
        else if (atoi(ceph_version_to_str()) > 20 && has_rule_of_zones(file)) failed = make20<pantile::abi21::ErasureCodeInterface<>>(plugin, profile, &code, &why);
        else failed = make20<pantile::abi20::ErasureCodeInterface>(plugin, profile, &code, &why);
        if (failed) return std::cerr << why.str() << "\n", 1;
        Chunks chunks;
        Tally tally;
        if (code->encode(all(code), pattern(100000), &chunks)) return 1;
        if (recoveries(name, code, nullptr, chunks, 2, &tally)) return 1;
        std::cout << "yes: " << file << " is a plug-in '" << name << "' for Ceph " << ceph_version_to_str() << "; it recovered " << tally.sets << " sets of lost chunks\n";
        return 0;
    }
    if (what == "wrong") return wrong_calls(words[2]);
    int failed = 0;
    size_t lines = 0;
    Tally tally;
    for (std::string line; getline(std::cin, line); ++lines) {
        if (what == "profiles") {
            Opened opened = open(words[2], line);
            std::cout << opened.status << text(opened.profile) << (opened.why.empty() ? "" : " # " + opened.why) << "\n";
        } else if (what == "compare") {
            failed += compare(words[2], words[3], line, count > 4 ? unsigned(atoi(words[4])) : 0, &tally);
        } else if (what == "exhaust") {
            Opened opened = open(words[2], line);
            if (opened.status) { failed += wrong(line, opened.why); continue; }
            Code code = opened.code;
            Chunks chunks;
            Tally own;
            if (code->encode(all(code), pattern(code->get_chunk_size(1) * code->get_data_chunk_count()), &chunks)) return wrong(line, "encode refuses");
            unsigned losses = unsigned(atoi(words[3]));
            failed += recoveries(line, code, nullptr, chunks, losses, &own);
            std::cout << line << ": " << own.sets - own.refused << " of " << own.sets << " sets recovered\n";
        } else if (what == "bench") {
            // A line has Ceph's profile, a bar, and our profile.
            size_t bar = line.find('|');
            bench(line.substr(0, bar), words[2], bar == line.npos ? line : line.substr(bar + 1), words[3], unsigned(atoi(words[4])));
        }
        std::cout.flush();
    }
    if (what == "compare")
        std::cout << lines << " profiles, " << failed << " differ; " << tally.sets << " sets of losses, " << tally.refused << " refused by both, " << tally.false_bytes << " of which Ceph's makes false bytes, " << tally.fewer << " read less than Ceph's: "
                  << double(tally.reads) / std::max<size_t>(1, tally.cephs_reads) << " of its chunks\n";
    return failed ? 1 : 0;
}

int main(int count, char **words)
{
    if (count < 3 + (words[1] && !strcmp(words[1], "check"))) return std::cerr << "probe check|profiles|compare|exhaust|wrong|void|bench ...\n", 2;
    rados_t client;
    rados_create(&client, nullptr);
    ceph::global::g_ceph_context = rados_cct(client);
    int status = run(count, words);
    std::cout.flush();
    fflush(stdout);
    _exit(status);
}
