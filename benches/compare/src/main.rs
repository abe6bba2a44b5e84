//! Pantile beside other libraries: one process, one thread, the same buffers, turns taken within
//! every repeat.
//!
//! Thread CPU time; a cell's figure is the median of its repeats, its spread the distance of the
//! quartiles over the median; `--runs` makes several processes of it, and medians over these. GB/s
//! are 10^9 bytes of user data: k buffers per stripe. Every library proves on the first stripe of a
//! layout that it brings back what was lost before its time is taken. The limit of a cell is the
//! fastest of several XOR kernels that read and write the same bytes in the same buffers
//! (`pantile_kernel::measure`).

mod dynamic;
mod isal;
mod jerasure;
mod klauspost;
mod pantile_peer;
mod peer;
mod runs;
mod rusty;
mod stripes;

use dynamic::Library;
use jerasure::{Jerasure, Technique};
use pantile_kernel::Stores;
use pantile_kernel::measure::{LimitOrder, Visit, thread_cpu_ns};
use pantile_peer::{InPackets, Pantile};
use peer::{Operation, Peer, Planning, in_turn, sets};
use serde_json::{Map, Value, json};
use stripes::Stripes;

/// Bytes of all sets of buffers for cold memory: more than the largest shared cache of our
/// machines.
const COLD_BYTES: usize = 512 << 20;

/// One run of one library.
const RUN_NS: f64 = 1.5e6;

/// Repeats of `--quick`.
const QUICK_REPEATS: usize = 3;

const SIZES: [usize; 3] = [4096, 65536, 1 << 20];

/// Packets of array codes with interleaved elements: fast ones in the cache, and fast ones from
/// memory.
const PACKETS: [usize; 2] = [512, 128];

/// The section of codes that have many parities, and what chunks they have at most: a stripe of
/// these is in memory, too.
const WIDE: &str = "wide";
const WIDE_SIZE_MOST: usize = 65536;

struct Options {
    /// Processes, if not just this one.
    runs: Option<usize>,
    repeats: usize,
    avx2: bool,
    only: Option<String>,
    out: String,
}

struct Rivals {
    isal: Vec<(String, isal::Functions)>,
    jerasure: Option<jerasure::Functions>,
    klauspost: Option<klauspost::Functions>,
}

/// Packets of bit matrices: whole lines, so that columns are read from their beginning to their
/// end.
const BIT_PACKET_BYTES: usize = 64;

/// Libraries that compute the same thing, and what they compute it on.
struct Group {
    section: &'static str,
    code: String,
    k: usize,
    m: usize,
    peers: Vec<Box<dyn Peer>>,
    /// One of the peers is Pantile; its plan sets the limit.
    pantile: Pantile,
    /// Lengths are cut to a multiple of it.
    unit: usize,
    decodes: Vec<(&'static str, Vec<usize>, Vec<Planning>)>,
}

fn main() {
    let options = options();
    if let Some(runs) = options.runs {
        return measure_in_runs(&options, runs);
    }
    if options.avx2 {
        // SAFETY: the only thread, before anything reads it.
        unsafe { std::env::set_var("PANTILE_KERNEL", "avx2") };
    }
    let rivals = rivals(options.avx2);
    let mut stripes = Stripes::new(COLD_BYTES);
    let mut cells = Vec::new();
    for group in groups(&rivals, options.avx2) {
        if options
            .only
            .as_ref()
            .is_some_and(|only| !group.code.contains(only.as_str()) && group.section != only)
        {
            continue;
        }
        eprintln!("{}", group.code);
        for size in SIZES.into_iter().filter(|&size| group.section != WIDE || size <= WIDE_SIZE_MOST) {
            for staggered in [false, true] {
                measure_group(&group, size, staggered, &mut stripes, options.repeats, &mut cells);
            }
        }
    }
    if cells.is_empty() {
        refuse("no code is called so, and no section; nothing was measured, and nothing written");
    }
    let record = json!({ "machine": machine(), "tier": pantile_kernel::Tier::best().name(), "repeats": options.repeats,
        "peers": versions(&rivals), "cells": cells });
    write(record, &options.out);
}

fn measure_in_runs(options: &Options, runs: usize) {
    let mut arguments = match options.repeats {
        QUICK_REPEATS => vec!["--quick".to_string()],
        _ => Vec::new(),
    };
    if options.avx2 {
        arguments.push("--avx2".into());
    }
    if let Some(only) = &options.only {
        arguments.extend(["--only".into(), only.clone()]);
    }
    let record = runs::records(runs, &arguments, &options.out).and_then(|records| runs::merged(&records));
    match record {
        Ok(record) => write(record, &options.out),
        Err(what) => refuse(&what),
    }
}

/// Writes a record with a line for each cell.
fn write(mut record: Value, out: &str) {
    let cells = record["cells"].take();
    record.as_object_mut().expect("a record").remove("cells");
    let cells: Vec<String> = cells.as_array().expect("a list").iter().map(Value::to_string).collect();
    let mut text = record.to_string();
    text.truncate(text.len() - 1);
    text.push_str(",\n\"cells\": [\n");
    text.push_str(&cells.join(",\n"));
    text.push_str("\n]}\n");
    if let Err(error) = std::fs::write(out, text) {
        refuse(&format!("{out} cannot be written: {error}"));
    }
    eprintln!("{} cells in {out}", cells.len());
}

/// Says what is wrong with the arguments, and ends.
fn refuse(what: &str) -> ! {
    eprintln!("{what}");
    std::process::exit(2)
}

fn options() -> Options {
    let mut options = Options { runs: None, repeats: 9, avx2: false, only: None, out: String::new() };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--quick" => options.repeats = QUICK_REPEATS,
            "--runs" => match arguments.next().and_then(|runs| runs.parse().ok()) {
                Some(runs @ 1..=99) => options.runs = Some(runs),
                _ => refuse("--runs lacks how many processes are to measure, 1 to 99"),
            },
            "--avx2" => options.avx2 = true,
            "--only" => match arguments.next() {
                Some(only) if !only.starts_with('-') => options.only = Some(only),
                _ => refuse(
                    "--only lacks what is to be measured: mds, array, tower, wide, or a part of a code's name",
                ),
            },
            _ if argument.starts_with('-') => refuse(&format!(
                "there is no option {argument}; give --runs N, --quick, --avx2, --only WHAT and the file to write"
            )),
            _ => options.out = argument,
        }
    }
    if options.only.is_some() && options.out.is_empty() {
        refuse("name a file for a part of the cells: the records in this folder have all of them");
    }
    if options.out.is_empty() {
        options.out = if options.avx2 { "record-avx2.json" } else { "record.json" }.into();
    }
    options
}

fn rivals(avx2: bool) -> Rivals {
    let mut isal = Vec::new();
    let named = std::env::var("PANTILE_COMPARE_ISAL").ok();
    for (name, path) in [("isa-l distribution", Some("libisal.so.2".to_string())), ("isa-l newest", named)] {
        // Tables of the newest isa-l are laid out for what it picks, not for its AVX2 functions.
        let Some(path) = path.filter(|_| !(avx2 && name == "isa-l newest")) else { continue };
        match Library::open(&path) {
            Ok(library) => isal
                .extend(isal::Functions::of(&library, avx2).map(|functions| (name.to_string(), functions))),
            Err(error) => eprintln!("{name}: {error}"),
        }
    }
    let open = |path: &str| Library::open(path).map_err(|error| eprintln!("{error}")).ok();
    let klauspost = std::env::var("PANTILE_COMPARE_KLAUSPOST").ok().and_then(|path| open(&path));
    Rivals {
        isal,
        jerasure: open("libJerasure.so.2").and_then(|library| jerasure::Functions::of(&library)),
        klauspost: klauspost.and_then(|library| klauspost::Functions::of(&library)),
    }
}

fn groups(rivals: &Rivals, avx2: bool) -> Vec<Group> {
    let mut groups = Vec::new();
    for (k, m) in [(4, 2), (6, 3), (10, 4), (12, 4), (16, 2), (16, 3), (16, 4), (20, 4)] {
        let spec = if m == 2 { format!("raid6:{k}") } else { format!("cauchy:{k}+{m}") };
        let mut peers: Vec<Box<dyn Peer>> = vec![Box::new(Pantile::new("pantile", &spec))];
        if m == 4 {
            // Its other code of as many parities: an option for new data, but not for existing
            // chunks of others.
            peers.push(Box::new(Pantile::new("pantile lch", &format!("lch:{k}+{m}"))));
        }
        // And those of XORs alone, which want their own layout.
        let mut in_packets = |name, spec: String| {
            peers.push(Box::new(InPackets::new(name, &spec, BIT_PACKET_BYTES)));
        };
        if m == 2 {
            in_packets("pantile rdp", format!("rdp:{}", k + m));
        } else {
            // Words of a byte, and the shortest ones of which there are as many.
            let short = if k + m <= 16 { ("pantile crs w=4", 4) } else { ("pantile crs w=5", 5) };
            for (name, word) in [("pantile crs", 8), short] {
                in_packets(name, format!("crs:{k}+{m},w={word}"));
            }
        }
        for (name, functions) in &rivals.isal {
            peers.push(Box::new(isal::Isal::new(name, *functions, k, m)));
            if m == 2 {
                peers.push(Box::new(isal::IsalPq {
                    name: format!("{name} pq_gen"),
                    k,
                    functions: *functions,
                }));
            }
        }
        if let Some(functions) = rivals.klauspost {
            peers.push(Box::new(klauspost::Klauspost::new(functions, k, m, avx2, false)));
        }
        peers.push(Box::new(rusty::Rusty::new(k, m, avx2)));
        if m == 2 && !avx2 {
            peers.push(Box::new(rusty::RustyPq { k }));
        }
        if let Some(functions) = rivals.jerasure {
            peers.push(Box::new(Jerasure::new(functions, Technique::ReedSolVan { w: 8 }, k, m)));
            peers.push(Box::new(Jerasure::new(functions, Technique::CauchyGood, k, m)));
        }
        use Planning::{Cached, Excluded, Included};
        let spread: Vec<usize> = (0..m).map(|i| i * (k - 1) / (m - 1)).collect();
        let mixed: Vec<usize> = (0..m).map(|i| if i < m / 2 { i * 2 } else { k + i - m / 2 }).collect();
        let decodes = vec![
            ("first", (0..m).collect(), vec![Excluded]),
            ("spread", spread, vec![Excluded, Cached, Included]),
            ("last", (k - m..k).collect(), vec![Excluded]),
            ("mixed", mixed, vec![Excluded, Included]),
        ];
        groups.push(Group {
            section: "mds",
            code: spec.clone(),
            k,
            m,
            peers,
            pantile: Pantile::new("pantile", &spec),
            unit: 64,
            decodes,
        });
    }
    for (spec, k) in [("dcode:13", 11), ("xcode:13", 11), ("rdp:14", 12), ("evenodd:13", 11)] {
        let pantile = Pantile::new("pantile", spec);
        let mut peers: Vec<Box<dyn Peer>> = vec![Box::new(Pantile::new("pantile", spec))];
        for bytes in PACKETS {
            peers.push(Box::new(InPackets::new(&format!("pantile packets {bytes}"), spec, bytes)));
        }
        let techniques =
            [Technique::CauchyGood, Technique::BlaumRoth { w: 12 }, Technique::Liberation { w: 13 }];
        if let Some(functions) = rivals.jerasure {
            for technique in techniques {
                peers.push(Box::new(OwnColumns {
                    inner: Jerasure::new(functions, technique, k, 2),
                    columns: k + 2,
                }));
            }
        }
        let decodes = vec![
            ("first", vec![0, 1], vec![Planning::Excluded, Planning::Cached, Planning::Included]),
            ("spread", vec![1, 7], vec![Planning::Excluded, Planning::Included]),
        ];
        groups.push(Group {
            section: "array",
            code: spec.into(),
            k,
            m: 2,
            peers,
            unit: pantile.rows() * 64,
            pantile,
            decodes,
        });
    }
    for spec in ["raidq:12+4", "raidq:12+4,cbrt", "raidq:16+4"] {
        let pantile = Pantile::new("pantile", spec);
        let k = if spec.contains("16") { 16 } else { 12 };
        let mut peers: Vec<Box<dyn Peer>> = vec![Box::new(Pantile::new("pantile", spec))];
        if let Some(functions) = rivals.jerasure {
            peers.push(Box::new(Jerasure::new(functions, Technique::ReedSolVan { w: 16 }, k, 4)));
        }
        let decodes = vec![("spread", vec![0, 4, 7, 11], vec![Planning::Excluded, Planning::Included])];
        groups.push(Group {
            section: "tower",
            code: spec.into(),
            k,
            m: 4,
            peers,
            unit: pantile.rows() * 64,
            pantile,
            decodes,
        });
    }
    groups.extend(wide_groups(rivals, avx2));
    groups
}

/// Codes of many parities: those that applications have which spread their data over many hosts.
fn wide_groups(rivals: &Rivals, avx2: bool) -> Vec<Group> {
    let sizes = [(16, 8), (16, 16), (48, 16), (29, 51), (100, 50), (128, 128)];
    let group = |(k, m): (usize, usize)| {
        let spec = format!("lch:{k}+{m}");
        let mut peers: Vec<Box<dyn Peer>> = vec![
            Box::new(Pantile::new("pantile", &spec)),
            Box::new(Pantile::new("pantile rs", &format!("rs:{k}+{m}"))),
        ];
        // isa-l counts columns in a byte.
        if k + m < 256 {
            for (name, functions) in &rivals.isal {
                peers.push(Box::new(isal::Isal::new(name, *functions, k, m)));
            }
        }
        if let Some(functions) = rivals.klauspost {
            for leopard in [false, true] {
                peers.push(Box::new(klauspost::Klauspost::new(functions, k, m, avx2, leopard)));
            }
        }
        let some = m.min(k);
        let few: Vec<usize> = (0..4).map(|i| i * (k - 1) / 3).collect();
        let mixed: Vec<usize> = (0..m).map(|i| i * (k + m) / m).collect();
        let decodes = vec![
            ("first", (0..some).collect(), vec![Planning::Excluded, Planning::Cached, Planning::Included]),
            ("few", few, vec![Planning::Excluded]),
            ("mixed", mixed, vec![Planning::Excluded, Planning::Cached]),
        ];
        let pantile = Pantile::new("pantile", &spec);
        Group { section: WIDE, code: spec, k, m, peers, pantile, unit: 64, decodes }
    };
    sizes.map(group).into()
}

/// A bit-matrix code of Jerasure beside an array code of as many columns: lengths that it cannot
/// take are its own affair.
struct OwnColumns {
    inner: Jerasure,
    columns: usize,
}

impl Peer for OwnColumns {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn data_bytes(&self, len: usize) -> usize {
        self.inner.data_bytes(self.covered_bytes(len))
    }

    fn covered_bytes(&self, len: usize) -> usize {
        self.inner.whole_packets(len)
    }

    fn prepare<'a>(&'a self, operation: &Operation) -> Option<peer::Runner<'a>> {
        let mut run = self.inner.prepare(operation)?;
        Some(Box::new(move |stripes, start, calls| {
            assert_eq!(stripes.buffers(), self.columns);
            let len = self.covered_bytes(stripes.len);
            stripes.with_len(len, |stripes| run(stripes, start, calls));
        }))
    }
}

fn measure_group(
    group: &Group,
    size: usize,
    staggered: bool,
    stripes: &mut Stripes,
    repeats: usize,
    cells: &mut Vec<Value>,
) {
    let len = size / group.unit * group.unit;
    if len == 0 {
        return;
    }
    let footprint = if size >= 1 << 20 { COLD_BYTES } else { 1 };
    stripes.lay_out(group.k + group.m, len, staggered, footprint);
    let mut operations = vec![("encode", "", Operation::Encode)];
    for (losses, lost, plannings) in &group.decodes {
        for &planning in plannings {
            operations.push(("decode", losses, Operation::Decode { lost: lost.clone(), planning }));
        }
    }
    for (operation_name, losses, operation) in operations {
        let mut results = Map::new();
        let limit = group.pantile.limit(&operation);
        // Of codes whose elements may be interleaved.
        let of_columns =
            if group.section == "array" { group.pantile.limit_of_columns(&operation) } else { None };
        let mut contestants: Vec<(String, usize, peer::Runner)> = Vec::new();
        for peer in &group.peers {
            if peer.covered_bytes(len) == 0 {
                continue;
            }
            if let Some(mut run) = peer.prepare(&operation) {
                match check(&**peer, &operation, &mut run, stripes, group.k) {
                    Ok(()) => contestants.push((peer.name(), peer.data_bytes(len), run)),
                    Err(what) => eprintln!("{} {}: {what}", group.code, peer.name()),
                }
            }
        }
        let rows = group.pantile.rows();
        let data = group.pantile.data_bytes(len);
        for order in limit.orders(len / rows, Stores::Auto) {
            let limit = &limit;
            let run: peer::Runner = Box::new(move |stripes, start, calls| {
                let views: Vec<_> = sets(stripes, start, calls.min(stripes.sets()))
                    .map(|set| stripes.elements(set, rows))
                    .collect();
                in_turn(views, calls, |stripe| limit.run(order, stripe).expect("a stripe"));
            });
            contestants.push((format!("limit {}", name_of(order)), data, run));
        }
        let orders = of_columns
            .iter()
            .flat_map(|limit| limit.orders(len, Stores::Auto).into_iter().map(move |order| (limit, order)));
        for (limit, order) in orders {
            let run: peer::Runner = Box::new(move |stripes, start, calls| {
                let views: Vec<_> =
                    sets(stripes, start, calls.min(stripes.sets())).map(|set| stripes.views(set)).collect();
                in_turn(views, calls, |stripe| limit.run(order, stripe).expect("a stripe"));
            });
            contestants.push((format!("column limit {}", name_of(order)), data, run));
        }
        let times = interleave(&mut contestants, stripes, repeats);
        let (mut best_limit, mut best_of_columns) = (0.0f64, 0.0f64);
        for ((name, bytes, _), mut times) in contestants.iter().zip(times) {
            times.sort_by(f64::total_cmp);
            let median = times[times.len() / 2];
            let rate = *bytes as f64 / median;
            let spread = (times[3 * times.len() / 4] - times[times.len() / 4]) / median;
            if name.starts_with("limit") {
                best_limit = best_limit.max(rate);
            } else if name.starts_with("column limit") {
                best_of_columns = best_of_columns.max(rate);
            } else {
                results.insert(
                    name.clone(),
                    json!({ "gb_per_s": rounded(rate, 2), "spread": rounded(spread, 3) }),
                );
            }
        }
        let planning = match &operation {
            Operation::Encode => Value::Null,
            Operation::Decode { planning, .. } => format!("{planning:?}").to_lowercase().into(),
        };
        let lost = match &operation {
            Operation::Encode => Value::Null,
            Operation::Decode { lost, .. } => json!(lost),
        };
        let mut cell = json!({ "section": group.section, "code": group.code, "k": group.k, "m": group.m,
            "chunk_len_bytes": len, "layout": if staggered { "staggered" } else { "aligned" },
            "op": operation_name, "losses": losses, "lost": lost, "planning": planning,
            "limit_gb_per_s": rounded(best_limit, 2), "results": results });
        if best_of_columns > 0.0 {
            cell["column_limit_gb_per_s"] = rounded(best_of_columns, 2).into();
        }
        cells.push(cell);
    }
}

fn name_of(order: LimitOrder) -> String {
    let form = match (order.shared, order.in_sequence) {
        (true, _) => "shared",
        (false, true) => "sequence",
        (false, false) => "slices",
    };
    let visit = match order.visit {
        Visit::Line => " line",
        Visit::Usual => "",
        Visit::Wide => " wide",
    };
    format!("{form}{visit}{}", if order.streaming { " streaming" } else { "" })
}

/// Nanoseconds per call of each contestant, repeat by repeat; who begins changes every time.
fn interleave(
    contestants: &mut [(String, usize, peer::Runner)],
    stripes: &Stripes,
    repeats: usize,
) -> Vec<Vec<f64>> {
    let mut set = 0;
    let mut time = |run: &mut peer::Runner, calls: usize| {
        let before = thread_cpu_ns();
        run(stripes, set, calls);
        set = (set + calls) % stripes.sets();
        (thread_cpu_ns() - before) as f64 / calls as f64
    };
    let calls: Vec<usize> = contestants
        .iter_mut()
        .map(|(_, _, run)| {
            time(run, 1);
            let rough = time(run, 3).max(20.0);
            let rough = if rough < 5e4 { time(run, (1e5 / rough) as usize + 1).max(20.0) } else { rough };
            ((RUN_NS / rough) as usize).max(1)
        })
        .collect();
    let mut times = vec![Vec::new(); contestants.len()];
    for repeat in 0..repeats {
        for i in 0..contestants.len() {
            let i = (i + repeat * 5) % contestants.len();
            times[i].push(time(&mut contestants[i].2, calls[i]));
        }
    }
    times
}

/// Checks that a library brings back what it encoded.
fn check(
    peer: &dyn Peer,
    operation: &Operation,
    run: &mut peer::Runner,
    stripes: &Stripes,
    k: usize,
) -> Result<(), String> {
    let Some(mut encode) = peer.prepare(&Operation::Encode) else { return Err("it cannot encode".into()) };
    let before: Vec<Vec<u8>> = stripes.views(0).iter().map(|view| view.to_vec()).collect();
    encode(stripes, 0, 1);
    let encoded: Vec<Vec<u8>> = stripes.views(0).iter().map(|view| view.to_vec()).collect();
    let Operation::Decode { lost, .. } = operation else {
        // A systematic code leaves the data alone. An array code with parity in every column has
        // none to leave.
        let kept = peer.name().starts_with("pantile") || before[..k] == encoded[..k];
        return if kept { Ok(()) } else { Err("it changed the data".into()) };
    };
    for &l in lost {
        stripes.views(0)[l].fill(0xee);
    }
    run(stripes, 0, 1);
    let covered = peer.covered_bytes(stripes.len);
    let wrong = stripes
        .views(0)
        .iter()
        .zip(&encoded)
        .position(|(view, encoded)| view[..covered] != encoded[..covered]);
    // What the library does not cover is lost still.
    for (view, encoded) in stripes.views(0).into_iter().zip(&encoded) {
        view.copy_from_slice(encoded);
    }
    match wrong {
        Some(buffer) => Err(format!("buffer {buffer} is wrong after {operation:?}")),
        None => Ok(()),
    }
}

fn machine() -> Value {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        cpu.lines()
            .find(|line| line.starts_with(name))
            .and_then(|line| line.split(": ").nth(1))
            .unwrap_or("")
            .to_string()
    };
    let caches: Vec<String> = (0..4)
        .filter_map(|i| {
            let read = |what: &str| {
                std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{i}/{what}")).ok()
            };
            Some(format!("L{} {} {}", read("level")?.trim(), read("type")?.trim(), read("size")?.trim()))
        })
        .collect();
    json!({ "cpu": field("model name"), "vendor": field("vendor_id"), "family": field("cpu family"), "model": field("model\t"),
        "caches": caches, "cpus": std::thread::available_parallelism().map_or(0, usize::from) })
}

fn versions(rivals: &Rivals) -> Value {
    let mut versions = Map::new();
    for (name, _) in &rivals.isal {
        versions.insert(name.clone(), "libisal.so.2".into());
    }
    versions.insert(
        "klauspost".into(),
        json!(rivals.klauspost.map(|_| "github.com/klauspost/reedsolomon v1.14.2, one goroutine")),
    );
    versions.insert("rusty_erasure".into(), "0.4.3".into());
    versions
        .insert("jerasure".into(), json!(rivals.jerasure.map(|_| "libJerasure.so.2 of the distribution")));
    Value::Object(versions)
}

fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}
