//! `pantile ceph scan` and `ceph verify`: wrong shards of a Ceph pool whose checksums are right.

use crate::args;
use crate::describe::count;
use crate::failure::{Failure, Outcome, Verdict};
use crate::files;
use crate::interrupt;
use crate::json::OUTPUT_VERSION;
use crate::progress::Progress;
use crate::sets;
use crate::terminal::{Terminal, print, print_json};
use clap::Args;
use pantile::code::foreign::Profile;
use pantile_lab::ceph::export::ExportError;
use pantile_lab::ceph::fold::Folding;
use pantile_lab::ceph::lies::{
    Compared, Found, Group, Head, Scan, ScanError, Scanned, Wrong, compare, shards_of,
};
use pantile_lab::ceph::{Dump, Pool, PoolKind};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, BufReader, BufWriter, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Read all shards of a pool on a stopped OSD, for 'ceph verify'
///
/// Answers: what does this OSD really store of the pool? Each placement group is exported by
/// 'ceph-objectstore-tool', which needs the OSD to be stopped and changes nothing. The scan has a
/// few bytes for each shard that satisfy the code's equations as the shards do.
#[derive(Args)]
#[command(after_long_help = "\
One OSD after another, with writes to the pool going on:

    ceph osd set noout
    systemctl stop ceph-osd@3
    pantile ceph scan POOL --data-path /var/lib/ceph/osd/ceph-3 --out osd.3.scan
    systemctl start ceph-osd@3
    ceph osd unset noout             after the last one
    pantile ceph verify POOL osd.*.scan

Where OSDs run in containers, --tool is a script of yours: exec cephadm shell --name osd.3 -- ceph-objectstore-tool \"$@\"

Examples:
  pantile ceph scan images --data-path /var/lib/ceph/osd/ceph-3 --out osd.3.scan --rate 200M")]
pub struct ScanCommand {
    #[command(flatten)]
    pool: PoolArgs,
    #[command(flatten)]
    store: Store,
    /// The scan; a file of this name is replaced.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// The most bytes that are read in a second.
    #[arg(long, value_name = "SIZE", value_parser = args::size)]
    rate: Option<u64>,
}

/// Find the shards of a pool that are wrong though every checksum is right
///
/// Answers: which OSD lies about which object? The scans of all OSDs ('pantile ceph scan') are
/// compared by the equations of the code. Objects that were written between two scans are counted
/// and left out. Deep scrub compares checksums that an OSD computes of its own shard: in a pool
/// with overwrites it cannot find this.
#[derive(Args)]
#[command(after_long_help = "\
--repair runs on the host of the OSD that stores the wrong shards, while that OSD is stopped: it reads each of them again, \
sees that the other OSDs of the placement group serve and that their shards are enough, and removes the wrong shard with \
'ceph-objectstore-tool'. Ceph then computes it from the others: start the OSD and run 'ceph pg repair'.

Exit status: 0 all shards are right, 1 some are wrong or missing, 2 the question cannot be answered.

Examples:
  pantile ceph verify images osd.*.scan
  pantile ceph verify images osd.*.scan --repair --data-path /var/lib/ceph/osd/ceph-3")]
pub struct VerifyCommand {
    #[command(flatten)]
    pool: PoolArgs,
    /// The scans of the pool's OSDs.
    #[arg(required = true, value_name = "SCAN")]
    scans: Vec<PathBuf>,
    /// Remove the wrong shards of a stopped OSD, so that Ceph computes them from the others.
    #[arg(long, requires = "data_path")]
    repair: bool,
    /// Also remove shards that are only probably wrong.
    #[arg(long, requires = "repair")]
    guess: bool,
    #[command(flatten)]
    store: OptionalStore,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct PoolArgs {
    /// The pool.
    #[arg(value_name = "POOL")]
    name: String,
    /// The output of 'ceph osd dump -f json'; without it the command is run.
    #[arg(long, value_name = "FILE")]
    dump: Option<PathBuf>,
    /// Only this placement group; may be repeated.
    #[arg(long, value_name = "PG")]
    pg: Vec<String>,
}

#[derive(Args)]
struct Store {
    /// The folder of the stopped OSD.
    #[arg(long, value_name = "DIR")]
    data_path: PathBuf,
    /// The program that reads it.
    #[arg(long, value_name = "PROGRAM", default_value = TOOL)]
    tool: PathBuf,
}

#[derive(Args)]
struct OptionalStore {
    /// The folder of the stopped OSD that --repair changes.
    #[arg(long, value_name = "DIR", requires = "repair")]
    data_path: Option<PathBuf>,
    /// The program that reads and changes it.
    #[arg(long, value_name = "PROGRAM", default_value = TOOL)]
    tool: PathBuf,
}

const TOOL: &str = "ceph-objectstore-tool";

/// A pool whose shards can be compared.
struct Checkable {
    id: i64,
    profile: Profile,
    chunk: usize,
}

impl PoolArgs {
    fn find(&self) -> Result<Checkable, Failure> {
        let text = match &self.dump {
            Some(path) => super::ceph::text_of(path, "ceph osd dump -f json")?,
            None => output_of(Command::new("ceph").args(["osd", "dump", "-f", "json"])).map_err(|why| {
                Failure::System(format!("{why}; give --dump, the output of 'ceph osd dump -f json'"))
            })?,
        };
        let dump = Dump::parse(&text).map_err(|error| Failure::Input(format!("the dump: {error}")))?;
        let name = sets::name(&self.name);
        let pool: &Pool = dump.pools.iter().find(|pool| pool.name == self.name).ok_or_else(|| {
            Failure::Input(format!("there is no pool {name} in the cluster; 'ceph osd pool ls' lists them"))
        })?;
        let cannot = |why: &str| Failure::Input(format!("pool {name}: {why}"));
        let PoolKind::Erasure { profile: Some(profile), .. } = &pool.kind else {
            return Err(cannot("it has copies and no erasure code; deep scrub compares copies"));
        };
        if pool.is_optimised {
            return Err(cannot(
                "with allow_ec_optimizations shards of one object have unlike versions; such pools cannot be checked yet",
            ));
        }
        let words = profile.name_of_chunks().map_err(|why| cannot(&why))?;
        let profile = Profile::parse(&words).map_err(|error| cannot(&error.to_string()))?;
        let data = profile.code.data().len() / profile.code.rows_max();
        let chunk = usize::try_from(pool.stripe_bytes).unwrap_or(0) / data.max(1);
        Ok(Checkable { id: pool.id, profile, chunk })
    }

    fn wants(&self, pg: &str) -> bool {
        self.pg.is_empty() || self.pg.iter().any(|wanted| wanted == pg)
    }
}

fn output_of(command: &mut Command) -> Result<Vec<u8>, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("'{program}' cannot be run: {error}"))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(format!("'{program}' fails: {}", last_line(&output.stderr))),
    }
}

fn last_line(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("without a word");
    sets::name(&line.chars().take(300).collect::<String>())
}

/// A stopped OSD.
struct Stopped<'s> {
    path: &'s Path,
    tool: &'s Path,
    osd: u32,
}

impl<'s> Stopped<'s> {
    fn new(path: &'s Path, tool: &'s Path) -> Result<Stopped<'s>, Failure> {
        let whoami = path.join("whoami");
        let text =
            std::fs::read_to_string(&whoami).map_err(|error| Failure::file("read", &whoami, &error))?;
        let osd = text.trim().parse().map_err(|_| {
            Failure::Input(format!("{} has no number of an OSD", sets::name(&whoami.to_string_lossy())))
        })?;
        Ok(Stopped { path, tool, osd })
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.tool);
        command.arg("--data-path").arg(self.path).args(words).stdin(Stdio::null());
        command
    }

    fn cannot(&self, what: &str, why: &str) -> Failure {
        Failure::System(format!(
            "OSD {}: {what}: {why}; it must be stopped, and shards that fail their own checksums are for 'ceph pg repair' first",
            self.osd
        ))
    }

    /// Returns the shards that this OSD stores of the placement groups of a pool.
    fn groups(&self, pool: i64) -> Result<Vec<Group>, Failure> {
        let said = output_of(&mut self.command(&["--op", "list-pgs"]))
            .map_err(|why| self.cannot("its placement groups cannot be listed", &why))?;
        let said = String::from_utf8_lossy(&said);
        Ok(said.lines().filter_map(Group::parse).filter(|group| group.pool() == Some(pool)).collect())
    }

    /// Calls `use_it` with the export of a shard of a placement group.
    fn export<T>(
        &self,
        group: &Group,
        rate: Option<u64>,
        use_it: impl FnOnce(&mut Export) -> Result<T, ScanError>,
    ) -> Result<T, Failure> {
        let name = group.to_string();
        let what = format!("the export of {name}");
        let mut child = self
            .command(&["--op", "export", "--pgid", &name, "--file", "-"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| self.cannot(&what, &error.to_string()))?;
        let from = child.stdout.take().expect("it was asked for");
        // Messages of the tool during the stream would fill a pipe that no thread reads.
        let mut said = child.stderr.take().expect("it was asked for");
        let said = std::thread::spawn(move || {
            let mut text = Vec::new();
            let mut part = [0; 4096];
            while let Ok(read @ 1..) = said.read(&mut part) {
                text.extend_from_slice(&part[..read]);
                text.drain(..text.len().saturating_sub(4096));
            }
            text
        });
        let mut export = Export { child, from, rate, started: Instant::now(), read: 0 };
        let used = use_it(&mut export);
        let rest = if used.is_ok() { io::copy(&mut export.from, &mut io::sink()).map(drop) } else { Ok(()) };
        if used.is_err() {
            let _ = export.child.kill();
        }
        let status = export.child.wait();
        let said = said.join().unwrap_or_default();
        match (used, status) {
            _ if interrupt::asked() => Err(Failure::Interrupted(format!("{what} was interrupted"))),
            (Ok(used), Ok(status)) if status.success() && rest.is_ok() => Ok(used),
            // The tool ended first, so its message has the cause.
            (Ok(_) | Err(ScanError::Export(ExportError::Read(_))), _) => {
                Err(self.cannot(&what, &last_line(&said)))
            }
            (Err(error), _) => Err(self.cannot(&what, &error.to_string())),
        }
    }
}

/// The output of the tool, limited to the requested rate.
struct Export {
    child: Child,
    from: ChildStdout,
    rate: Option<u64>,
    started: Instant,
    read: u64,
}

impl Read for Export {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if interrupt::asked() {
            return Err(io::Error::other("interrupted"));
        }
        let read = self.from.read(into)?;
        self.read += read as u64;
        if let Some(rate) = self.rate {
            let due = Duration::from_secs_f64(self.read as f64 / rate.max(1) as f64);
            std::thread::sleep(due.saturating_sub(self.started.elapsed()));
        }
        Ok(read)
    }
}

impl ScanCommand {
    pub fn run(self, terminal: &Terminal) -> Outcome {
        interrupt::listen();
        let pool = self.pool.find()?;
        let mut folding = Folding::new(&pool.profile, pool.chunk)
            .map_err(|error| Failure::Input(format!("pool {}: {error}", sets::name(&self.pool.name))))?;
        let store = Stopped::new(&self.store.data_path, &self.store.tool)?;
        let groups: Vec<Group> =
            store.groups(pool.id)?.into_iter().filter(|group| self.pool.wants(&group.pg)).collect();
        let path = &self.out;
        let cannot = |error: ScanError| match error {
            ScanError::Io(error) => Failure::file("write", path, &error),
            other => Failure::System(other.to_string()),
        };
        let file = files::create(path)?;
        let head = Head::new(store.osd, pool.id, &pool.profile, pool.chunk);
        let mut scan = Scan::new(BufWriter::new(file), &head).map_err(cannot)?;
        let progress = Progress::start(terminal, "reading shards");
        for (done, group) in groups.iter().enumerate() {
            progress.set("reading shards", "placement groups", done as u64, groups.len() as u64);
            store.export(group, self.rate, |export| scan.add(group, export, &mut folding))?;
        }
        drop(progress);
        let (file, shards, bytes) = scan.end().map_err(cannot)?;
        let file = file.into_inner().map_err(|error| Failure::file("write", path, error.error()))?;
        files::give_name(file, true).map_err(|error| Failure::file("write", path, &error))?;
        print(&format!(
            "OSD {}: {} in {}, {}\n",
            store.osd,
            count(shards as usize, "shard"),
            count(groups.len(), "placement group"),
            sets::bytes(bytes)
        ))?;
        Ok(Verdict::Good)
    }
}

#[derive(Serialize)]
struct VerifyJson {
    output_version: u32,
    groups: u64,
    objects: u64,
    changed: u64,
    unchecked: u64,
    partly_scanned: BTreeSet<String>,
    found: Vec<FoundJson>,
}

#[derive(Serialize)]
struct FoundJson {
    pg: String,
    object: String,
    namespace: String,
    snap: Option<i64>,
    is: &'static str,
    shards: Vec<ShardJson>,
}

#[derive(Serialize)]
struct ShardJson {
    shard: usize,
    osd: Option<u32>,
    evidence_bits: Option<u32>,
    certain: Option<bool>,
    recoverable: Option<bool>,
    removed: bool,
}

impl VerifyCommand {
    pub fn run(self, terminal: &Terminal) -> Outcome {
        let pool = self.pool.find()?;
        let mut scans = Vec::new();
        for path in &self.scans {
            let file = files::input(path).map_err(|error| Failure::file("read", path, &error))?;
            scans.push(Scanned::open(BufReader::new(file)).map_err(|error| {
                Failure::Input(format!("{}: {error}", sets::name(&path.to_string_lossy())))
            })?);
        }
        if let Some(scan) = scans.iter().find(|scan| scan.head().pool != pool.id) {
            return Err(Failure::Input(format!(
                "the scan of OSD {} is of pool {}, and {} is pool {}",
                scan.head().osd,
                scan.head().pool,
                sets::name(&self.pool.name),
                pool.id
            )));
        }
        let compared = compare(&mut scans, &pool.profile, |pg| self.pool.wants(pg))
            .map_err(|error| Failure::Input(error.to_string()))?;
        let mut removed = BTreeSet::new();
        if let Some(path) = self.store.data_path.as_deref().filter(|_| self.repair) {
            interrupt::listen();
            let store = Stopped::new(path, &self.store.tool)?;
            let chunk = scans.first().map_or(0, |scan| scan.head().chunk);
            removed = repair(&store, &compared, &pool.profile, chunk, self.guess)?;
        }
        match self.json {
            true => print_json(&in_json(&compared, &removed))?,
            false => print(&in_words(&self.pool.name, &compared, &removed, self.repair, terminal))?,
        }
        Ok(if compared.found.is_empty() { Verdict::Good } else { Verdict::Bad })
    }
}

/// The wrong shards of the comparison.
fn wrong(compared: &Compared) -> impl Iterator<Item = &Wrong> {
    compared.found.iter().flat_map(|(_, _, found)| match found {
        Found::Wrong(wrong) => &wrong[..],
        Found::Unknown | Found::Lengths | Found::Missing(_) => &[],
    })
}

/// Removes the wrong shards that the stopped OSD stores. Before each removal its evidence is
/// checked again.
///
/// Errors: the cluster or the tool does not answer. Shards that must not be removed are left out.
fn repair(
    store: &Stopped<'_>,
    compared: &Compared,
    profile: &Profile,
    chunk: usize,
    guess: bool,
) -> Result<BTreeSet<(Group, String)>, Failure> {
    let mut removed = BTreeSet::new();
    let of_store: Vec<&Wrong> = wrong(compared)
        .filter(|wrong| wrong.osd == store.osd && wrong.is_recoverable && (wrong.is_certain || guess))
        .collect();
    let groups: BTreeSet<&Group> = of_store.iter().map(|wrong| &wrong.group).collect();
    let mut folding = Folding::new(profile, chunk).map_err(Failure::input)?;
    for group in groups {
        let acting = acting(&group.pg)?;
        let now = store.export(group, None, |export| shards_of(export, &mut folding))?;
        for wrong in of_store.iter().filter(|wrong| wrong.group == *group) {
            let name = &wrong.shard.name;
            let serves = |(shard, osd): (&usize, &u32)| acting.get(*shard) == Some(&i64::from(*osd));
            if !wrong.good.iter().all(serves) {
                return Err(Failure::Damage(format!(
                    "{}: not all OSDs with the right shards serve it now, and nothing is removed; wait until only OSD {} \
                     is away ('ceph pg map {}')",
                    group.pg, store.osd, group.pg
                )));
            }
            if !now.contains(&wrong.shard) {
                return Err(Failure::Damage(format!(
                    "{group}: {} was written after the scan, and is not removed; scan all OSDs again",
                    sets::name(&name.oid)
                )));
            }
            let spec = serde_json::json!({
                "oid": name.oid, "key": name.key, "snapid": name.snap, "hash": name.hash, "max": 0,
                "pool": group.pool(), "namespace": name.namespace, "shard_id": group.shard,
            });
            let words = ["--pgid", &group.to_string(), &spec.to_string(), "remove", "--force"];
            output_of(&mut store.command(&words))
                .map_err(|why| store.cannot(&format!("{} cannot be removed", sets::name(&name.oid)), &why))?;
            removed.insert((group.clone(), name_of(&name.oid, &name.namespace, name.snap)));
        }
    }
    Ok(removed)
}

/// Returns the OSDs that serve a placement group, by shard.
fn acting(pg: &str) -> Result<Vec<i64>, Failure> {
    let text =
        output_of(Command::new("ceph").args(["pg", "map", pg, "-f", "json"])).map_err(Failure::System)?;
    let map: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    let acting = map["acting"].as_array().ok_or_else(|| {
        Failure::System(format!("'ceph pg map {pg} -f json' does not say which OSDs serve it"))
    })?;
    Ok(acting.iter().map(|osd| osd.as_i64().unwrap_or(-1)).collect())
}

/// Returns the name that `rados` would print for an object.
fn name_of(oid: &str, namespace: &str, snap: i64) -> String {
    let mut name = sets::name(oid);
    if !namespace.is_empty() {
        let _ = write!(name, " in namespace {}", sets::name(namespace));
    }
    if snap != HEAD {
        let _ = write!(name, ", snapshot {snap}");
    }
    name
}

/// The snapshot number of an object that is no snapshot.
const HEAD: i64 = -2;

fn in_json(compared: &Compared, removed: &BTreeSet<(Group, String)>) -> VerifyJson {
    let found = compared.found.iter().map(|(pg, name, found)| {
        let called = name_of(&name.oid, &name.namespace, name.snap);
        let shards: Vec<ShardJson> = match found {
            Found::Wrong(wrong) => wrong
                .iter()
                .map(|wrong| ShardJson {
                    shard: wrong.group.shard,
                    osd: Some(wrong.osd),
                    evidence_bits: Some(wrong.evidence_bits),
                    certain: Some(wrong.is_certain),
                    recoverable: Some(wrong.is_recoverable),
                    removed: removed.contains(&(wrong.group.clone(), called.clone())),
                })
                .collect(),
            Found::Missing(groups) => groups
                .iter()
                .map(|group| ShardJson {
                    shard: group.shard,
                    osd: None,
                    evidence_bits: None,
                    certain: None,
                    recoverable: None,
                    removed: false,
                })
                .collect(),
            Found::Unknown | Found::Lengths => Vec::new(),
        };
        FoundJson {
            pg: pg.clone(),
            object: name.oid.clone(),
            namespace: name.namespace.clone(),
            snap: Some(name.snap).filter(|&snap| snap != HEAD),
            is: match found {
                Found::Wrong(_) => "wrong",
                Found::Unknown => "unknown",
                Found::Lengths => "lengths",
                Found::Missing(_) => "missing",
            },
            shards,
        }
    });
    VerifyJson {
        output_version: OUTPUT_VERSION,
        groups: compared.groups,
        objects: compared.objects,
        changed: compared.changed,
        unchecked: compared.unchecked,
        partly_scanned: compared.partly.clone(),
        found: found.collect(),
    }
}

fn in_words(
    pool: &str,
    compared: &Compared,
    removed: &BTreeSet<(Group, String)>,
    repaired: bool,
    terminal: &Terminal,
) -> String {
    let mut out = String::new();
    for (pg, name, found) in &compared.found {
        let name = name_of(&name.oid, &name.namespace, name.snap);
        match found {
            Found::Wrong(wrong) => {
                for wrong in wrong {
                    let Wrong { group, osd, evidence_bits, .. } = wrong;
                    let what = if wrong.is_certain { "wrong" } else { "probably wrong" };
                    let _ = write!(
                        out,
                        "{group}: OSD {osd} stores a {what} shard of {name} (a larger error looks so once in 2^{evidence_bits})"
                    );
                    out += match () {
                        _ if removed.contains(&(group.clone(), name.clone())) => ": removed\n",
                        _ if !wrong.is_recoverable => "; the other shards are not enough to compute it\n",
                        _ => "\n",
                    };
                }
            }
            Found::Unknown => {
                let _ = writeln!(out, "{pg}: some shard of {name} is wrong, and the code cannot tell which");
            }
            Found::Lengths => {
                let _ = writeln!(out, "{pg}: shards of {name} have unlike lengths; deep scrub names them");
            }
            Found::Missing(groups) => {
                let groups: Vec<String> = groups.iter().map(Group::to_string).collect();
                let _ = writeln!(out, "{pg}: {name} is missing in {}; scrub names them", groups.join(", "));
            }
        }
    }
    let _ = writeln!(
        out,
        "{} in {} compared, {} of them with a fault.",
        count(compared.objects as usize, "object"),
        count(compared.groups as usize, "placement group"),
        compared.found.len()
    );
    if compared.changed > 0 {
        let _ = writeln!(
            out,
            "{} written between the scans: nothing is known of them until the next scans.",
            count(compared.changed as usize, "object")
        );
    }
    if compared.unchecked > 0 {
        let _ = writeln!(
            out,
            "{} not checked: too few shards were scanned.",
            count(compared.unchecked as usize, "object")
        );
    }
    if !compared.partly.is_empty() {
        let some: Vec<&str> = compared.partly.iter().take(5).map(String::as_str).collect();
        let _ = writeln!(
            out,
            "{} with a shard in no scan ({}): scan all OSDs of the pool.",
            count(compared.partly.len(), "placement group"),
            some.join(", ")
        );
    }
    let verdict = match wrong(compared).next() {
        None if compared.found.is_empty() => "every shard that was compared is right.".to_string(),
        None => "no shard can be named.".to_string(),
        Some(first) if !repaired => format!(
            "damaged. Stop OSD {osd} and run 'pantile ceph verify {} SCANS --repair --data-path ITS-FOLDER' on its host.",
            sets::quoted(pool),
            osd = first.osd
        ),
        Some(_) if removed.is_empty() => {
            "nothing was removed: no certainly wrong shard is on this OSD.".to_string()
        }
        Some(_) => {
            let pgs: BTreeSet<&str> = removed.iter().map(|(group, _)| group.pg.as_str()).collect();
            let commands: Vec<String> = pgs.iter().map(|pg| format!("'ceph pg repair {pg}'")).collect();
            format!(
                "{} removed. Start the OSD, wait until the cluster is clean, and run {}.",
                count(removed.len(), "shard"),
                commands.join(", ")
            )
        }
    };
    let _ = writeln!(out, "{} {verdict}", terminal.bold("Verdict:"));
    out
}
