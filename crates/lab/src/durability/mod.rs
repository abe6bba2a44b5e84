//! Probability that a code loses data, on given disks with a given repair. Two methods compute it;
//! each names its omissions.
//!
//! * exact counts of fatal sets and rebuild times from plans, in a Markov chain over the number of
//!   lost columns ([`Chain`]);
//! * Monte Carlo of the same disks, with the sets of columns themselves and with rare events made
//!   frequent ([`Simulated`]).
//!
//! Model: each column is a disk, or moves from disk to disk by a placement. A set of lost disks is
//! tolerated if the code tolerates the loss of the columns on them in every stripe. Disks fail
//! independently at a constant rate. All lost columns that have a spare are rebuilt at once, by
//! one plan, in a time of exponential distribution; a further failure restarts the rebuild. A
//! rebuild that needs an unreadable sector is a loss of data, if only of that sector. Deliberately
//! left out: failures with a common cause, bad batches, wear, operators, faults of the software.
//! They make real losses far more frequent than twelve nines; the numbers compare codes and
//! promise nothing.

mod array;
mod chain;
mod disks;
mod levels;
mod simulate;

pub use chain::Chain;
pub use disks::{Disks, Domains, HOURS_PER_YEAR};
pub use levels::{Examined, Level};
pub use simulate::{Estimate, Simulated};

use crate::figure::{Figure, Listing, Point, Points, number};
use crate::{Report, parallel};
use array::Array;
use pantile::Code;
use pantile::code::Placement;
use pantile::plan::{Certificate, Method, ProveOptions, prove};

/// The name of the experiment.
pub const NAME: &str = "durability";

/// Options of an examination.
#[derive(Clone, Debug)]
pub struct Options {
    /// Placement of the columns of a stripe on disks.
    pub placement: Placement,
    /// The disks, and the repair of a failed one.
    pub disks: Disks,
    /// Years in which a loss counts.
    pub years: f64,
    /// Cycles of the Monte Carlo; 0 leaves it out.
    pub cycles: usize,
    /// Seed of the Monte Carlo.
    pub seed: u64,
    /// Threads; the result does not depend on their number.
    pub threads: usize,
    /// Factor by which less work is done than usual: 1, or more where many codes are examined.
    /// Fewer sets are then examined each, see [`Durability::is_sampled`].
    pub haste: u64,
}

impl Default for Options {
    fn default() -> Options {
        let (placement, disks) = (Placement::Fixed, Disks::default());
        Options { placement, disks, years: 1.0, cycles: 100_000, seed: 1, threads: 1, haste: 1 }
    }
}

/// Durability of one code.
#[derive(Clone, Debug)]
pub struct Durability {
    /// The canonical spec.
    pub code: String,
    /// Disks that it takes, one per column.
    pub columns: usize,
    /// Stored bytes per user byte.
    pub overhead: f64,
    /// User bytes of one array.
    pub data_bytes: f64,
    /// Lost columns that are always tolerated.
    pub tolerance: usize,
    /// True if the tolerance was proved here; otherwise it is claimed and not contradicted.
    pub is_proved: bool,
    /// Counts of fatal sets.
    pub certificate: Certificate,
    /// Levels of the chain, from no loss up.
    pub levels: Vec<Level>,
    /// Mean hours to loss, by the chain.
    pub hours: f64,
    /// Probability of a loss within [`Options::years`], by the chain.
    pub within: f64,
    /// Probability of a loss within one year, by the chain.
    pub within_a_year: f64,
    /// Share of losses that are unreadable sectors, by the chain.
    pub sectors: f64,
    /// Results of the Monte Carlo; `None` if it was not asked for, or cannot run.
    pub simulated: Option<Simulated>,
    /// Distribution over failure domains, if there are any.
    pub spread: Option<Spread>,
}

/// Distribution of an array's columns over failure domains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Maximum of columns in one domain.
    pub columns_most: usize,
    /// Domains that hold columns.
    pub domains: usize,
    /// Domains whose loss alone is a loss of data.
    pub fatal: usize,
}

impl Durability {
    /// Returns the losses per PB (10^15 bytes) of user data and year, which compares arrays of
    /// different sizes.
    pub fn losses_per_pb_year(&self) -> f64 {
        HOURS_PER_YEAR / self.hours / (self.data_bytes / 1e15)
    }

    /// Returns true if sets of lost columns were drawn, because there are too many to examine
    /// each.
    pub fn is_sampled(&self) -> bool {
        self.levels.iter().any(|level| matches!(level.examined, Examined::Drawn(_)))
    }

    /// Returns the nines of the probability of no loss within one year, whatever
    /// [`Options::years`] is: 4 for 99.99 %.
    pub fn nines(&self) -> f64 {
        -self.within_a_year.log10()
    }
}

/// Maximum of states of a chain with counted spares.
const STATES_MOST: usize = 400;

/// Reason why a code cannot be examined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The chain over lost columns and ready spares has too many states.
    TooManyStates {
        /// The code.
        code: String,
        /// Maximum of lost columns examined.
        columns: usize,
        /// Spares asked for.
        spares: usize,
    },
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Refusal::TooManyStates { code, columns, spares } = self;
        write!(
            out,
            "{code} with {spares} spares has {} states of up to {columns} lost columns, and at most {STATES_MOST} are possible; \
             name fewer spares, or 'immediate'",
            states(*columns, *spares)
        )
    }
}

impl std::error::Error for Refusal {}

fn states(top: usize, spares: usize) -> usize {
    (top + 1).saturating_mul(spares.saturating_add(top + 1))
}

/// Levels examined beyond the tolerance; losing more columns at once counts as a loss of data.
pub(crate) const LEVELS_BEYOND: usize = 3;

/// Maximum of haste: a smaller sample would be meaningless.
const HASTE_MOST: u64 = 100;

/// Examines one code.
///
/// Cost: at most seconds for codes of up to some 30 columns, less with haste; larger codes are
/// sampled, and the result says so.
pub fn examine(code: &Code, options: &Options) -> Result<Durability, Refusal> {
    let claimed = code.claim().tolerance;
    let haste = options.haste.clamp(1, HASTE_MOST);
    let limits = ProveOptions {
        placement: options.placement,
        lost_most: Some(claimed + LEVELS_BEYOND + 1),
        sets_most: 2_000_000 / haste,
        work_most: 500_000_000 / haste,
        sample: 100_000 / haste,
        threads: options.threads,
        ..ProveOptions::default()
    };
    let certificate = prove(code, &limits, &|_, _, _| true);
    let proved = certificate.tolerance();
    let is_contradicted =
        certificate.levels.iter().any(|level| level.lost <= claimed && level.survived < level.looked_at());
    let safe = if is_contradicted { proved } else { proved.max(claimed) };
    let highest = certificate.levels.iter().filter(|level| level.survived > 0).map(|level| level.lost).max();
    let top = highest.unwrap_or(0).clamp(safe, safe + LEVELS_BEYOND);
    if let Some(spares) = options.disks.spares
        && states(top, spares) > STATES_MOST
    {
        return Err(Refusal::TooManyStates { code: code.spec().to_string(), columns: top, spares });
    }
    let mut array = Array::new((code, options.placement), &options.disks, safe, top);
    let levels = levels::levels(&mut array, &certificate, levels::Draws { seed: options.seed, haste });
    let chain = levels::chain(&array, &levels);
    let (hours, sectors) = chain.mean_time();
    let time = options.years * HOURS_PER_YEAR;
    let simulated = match options.cycles {
        0 => None,
        // The Monte Carlo covers only columns that fail independently.
        _ if !array.groups.is_empty() => None,
        cycles => simulate::simulate(&array, cycles, time, options.seed, options.threads),
    };
    let stored: usize = (0..code.columns()).map(|c| code.rows(c)).sum();
    Ok(Durability {
        code: code.spec().to_string(),
        columns: code.columns(),
        overhead: 1.0 / code.rate(),
        data_bytes: code.rate() * stored as f64 / code.rows_max() as f64 * options.disks.len_bytes,
        tolerance: safe,
        is_proved: proved >= safe,
        certificate,
        levels,
        hours,
        within: chain.loss_within(time),
        within_a_year: chain.loss_within(HOURS_PER_YEAR),
        sectors,
        simulated,
        spread: spread(&array),
    })
}

fn spread(array: &Array<'_>) -> Option<Spread> {
    let domains = array.disks.domains.as_ref()?;
    Some(match array.groups.is_empty() {
        true => Spread {
            columns_most: 1,
            domains: array.columns().min(domains.count),
            fatal: if array.safe == 0 { array.columns() } else { 0 },
        },
        false => Spread {
            columns_most: array.groups.iter().map(|group| group.len()).max().unwrap_or(0),
            domains: array.groups.len(),
            fatal: array.groups.iter().filter(|group| array.without(&[], group).is_none()).count(),
        },
    })
}

/// Returns the code that stands in for one with too many sets, or with rebuilds that take too long
/// to plan; `None` if the code itself is examined.
///
/// The stand-in has the same tolerance, and its rebuild reads whole columns. The error is on the
/// safe side: a rebuild that reads less loses less. For a code of n columns with a tolerance t
/// above eight, the stand-in has n - t + 8 columns and tolerates eight losses. More than t lost
/// columns include at least nine of any n - t + 8, so the stand-in loses data whenever the code
/// does.
pub fn stand_in(code: &Code) -> Option<Code> {
    /// Maximum of tolerance: probabilities of more simultaneous losses are indistinguishable from
    /// 0.
    const TOLERANCE_MOST: usize = 8;
    let (tolerance, columns) = (code.claim().tolerance, code.columns());
    let m = tolerance.min(TOLERANCE_MOST);
    let has_many_rows = code.claim().mds && code.rows_max() > 1;
    (has_many_rows || tolerance > TOLERANCE_MOST)
        .then(|| Code::parse(&format!("rs:{}+{m}", columns - tolerance)).ok())
        .flatten()
}

/// Examines codes on all threads and returns the report. `progress` receives the number done.
pub fn run(codes: &[Code], options: &Options, progress: &(dyn Fn(usize) + Sync)) -> Result<Report, Refusal> {
    let outer = options.threads.clamp(1, codes.len().max(1));
    let inner = Options { threads: (options.threads / outer).max(1), ..options.clone() };
    let done = std::sync::atomic::AtomicUsize::new(0);
    let found = parallel::map(outer, codes, |code| {
        let found = examine(code, &inner);
        progress(done.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1);
        found
    });
    let found: Vec<Durability> = found.into_iter().collect::<Result<_, _>>()?;
    Ok(report(&found, options))
}

fn report(found: &[Durability], options: &Options) -> Report {
    let mut report = Report::new(NAME, "Durability");
    report.say(assumptions(options));
    report.say(match options.placement {
        Placement::Fixed => "Placement fixed: each disk holds one column of every stripe.".to_string(),
        rotated => format!(
            "Placement {rotated}: columns move from disk to disk by stripe, and a set of disks can be lost if the columns on them can be lost in every stripe."
        ),
    });
    report.say(
        "Fatal sets are counted by proof, and rebuild times come from plans. A Markov chain over the number of lost columns gives the mean time to \
         data loss (MTTDL) and the probability of a loss. A Monte Carlo with importance sampling computes this probability again from the sets of \
         columns, with its 95 % confidence interval. A loss is that of any data in one array, if only of one sector.",
    );
    report.say(
        "Left out: failures with a common cause, bad batches, wear, operators, software. They cause the losses of real arrays with many nines; use the \
         numbers to compare codes.",
    );
    if options.disks.spares.is_some() {
        report.say(
            "Counted spares: if fewer are ready than columns are lost, the columns of lowest number are rebuilt first. The chain has only the number of lost \
             columns and treats the others as any set: an approximation unless all sets are alike. The Monte Carlo has the sets; if the \
             two differ, trust it.",
        );
    }
    for one in found {
        measures(&mut report, one, options);
        if let Some((spread, domains)) = one.spread.zip(options.disks.domains.as_ref()) {
            report.say(spread_in_words(one, spread, domains.what));
        }
        let is_drawn =
            |level: &&Level| matches!(level.examined, Examined::Drawn(_)) && level.lost <= one.tolerance;
        if let Some(level) = one.levels.iter().find(is_drawn) {
            report.say(format!(
                "{}: too many sets of {} columns to examine each; the chain has the mean of a sample. If the two methods differ, \
                 trust the Monte Carlo.",
                one.code, level.lost
            ));
        }
    }
    paper(&mut report, found, options);
    report.answer = answer(found);
    report.figures.push(Figure::Listing(summary(found, options)));
    report.figures.push(Figure::Listing(counts(found)));
    report.figures.push(Figure::Points(front(found)));
    report
}

/// Returns the assumed disks as a sentence.
pub fn assumptions(options: &Options) -> String {
    let disks = &options.disks;
    let rebuild = disks.repair_bytes_per_s.map_or("the disks being the only limit".to_string(), |limit| {
        format!("all reads of a rebuild together at most {} MiB/s", number(limit / (1u64 << 20) as f64))
    });
    let spares = match disks.spares {
        None => "there is always a spare".to_string(),
        Some(spares) => format!(
            "{spares} spares, a disk replaced {} h after it failed or was used (mean)",
            number(disks.replace_hours)
        ),
    };
    let scrub = disks.scrub_hours.map_or("never scrubbed".to_string(), |hours| {
        format!("scrubbed every {} days", number(hours / 24.0))
    });
    let domains = disks.domains.as_ref().map_or(String::new(), |domains| {
        format!(
            " Columns are spread over {} {}s, each of which is lost for good with all its disks with a probability of {} % a year.",
            domains.count,
            domains.what,
            number(100.0 * domains.lost_per_year)
        )
    });
    format!(
        "Disks of {} TiB, {} % of which fail in a year; {} MiB/s for rebuilds, {rebuild}; {spares}; {} unreadable bits per bit read, {scrub}, \
         {} TiB read by users from each disk in a year: {} unreadable sectors met in a whole disk. Losses count within {}.{domains}",
        number(disks.len_bytes / (1u64 << 40) as f64),
        number(100.0 * disks.failed_per_year),
        number(disks.bytes_per_s / (1u64 << 20) as f64),
        exponent(disks.unreadable_per_bit),
        number(disks.user_bytes_per_year / (1u64 << 40) as f64),
        number(disks.unreadable_per_disk()),
        within(options),
    )
}

fn measures(report: &mut Report, one: &Durability, options: &Options) {
    let case = &one.code;
    report.counted(case, "disks", one.columns as f64, None);
    report.counted(case, "stored bytes per byte", one.overhead, None);
    let how = if one.is_proved { "proved" } else { "claimed; a sample does not contradict it" };
    report.counted(case, "any so many columns may be lost", one.tolerance as f64, None).note =
        Some(how.into());
    for level in &one.certificate.levels {
        let fatal = level.looked_at() - level.survived;
        let how = match level.method {
            Method::Exact => format!("exact, of {}", level.sets),
            Method::Sampled { drawn, fatal_share_most } => format!(
                "of a sample of {drawn} among {}; at most {fatal_share_most:.2e} of all with 95 % confidence",
                level.sets
            ),
        };
        report.counted(case, format!("fatal sets of {}", level.lost), fatal as f64, None).note = Some(how);
    }
    for level in &one.levels {
        let how = match level.examined {
            Examined::Each => "mean over all sets that may be lost".to_string(),
            Examined::Alike => "every set is alike".to_string(),
            Examined::Drawn(sets) => format!("mean over a sample of {sets} sets"),
        };
        let f = level.lost;
        if f > 0 {
            report.computed(case, format!("rebuild, {f} lost, hours"), level.hours, None).note = Some(how);
            report.computed(case, format!("a rebuild of {f} fails by a sector"), level.unreadable, None);
        }
        report.counted(case, format!("share of losses beside {f} that are fatal"), level.fatal_share, None);
    }
    if let Some((spread, domains)) = one.spread.zip(options.disks.domains.as_ref()) {
        let what = domains.what;
        report.counted(case, format!("columns on one {what}, at the most"), spread.columns_most as f64, None);
        report.counted(case, format!("{what}s whose loss alone is fatal"), spread.fatal as f64, None);
    }
    let quantity = format!("loss within {}", within(options));
    report.computed(case, "MTTDL, years", one.hours / HOURS_PER_YEAR, None);
    report.computed(case, &quantity, one.within, None);
    report.computed(case, "nines", one.nines(), None);
    report.computed(case, "share of losses that are unreadable sectors", one.sectors, None);
    report.computed(case, "losses per PB of data and year", one.losses_per_pb_year(), None);
    match (&one.simulated, options.cycles) {
        (Some(simulated), cycles) => {
            let note = format!("{cycles} cycles, seed {}", options.seed);
            for (quantity, of, unit) in [
                ("MTTDL, years".to_string(), simulated.hours, HOURS_PER_YEAR),
                (quantity, simulated.within, 1.0),
            ] {
                report.simulated(case, format!("{quantity}, Monte Carlo"), of.value / unit, None).note =
                    Some(note.clone());
                report.simulated(
                    case,
                    format!("{quantity}, Monte Carlo, least (95 %)"),
                    of.least / unit,
                    None,
                );
                report.simulated(case, format!("{quantity}, Monte Carlo, most (95 %)"), of.most / unit, None);
            }
        }
        (None, 0) => {}
        (None, _) if one.spread.is_some_and(|spread| spread.columns_most > 1) => {
            report.say(format!("{case}: no Monte Carlo, which knows of columns that fail one by one."))
        }
        (None, _) => report.say(format!(
            "{case}: no Monte Carlo, for failures come too fast for the array to be whole again."
        )),
    }
}

/// Returns the distribution over domains as a sentence.
fn spread_in_words(one: &Durability, spread: Spread, what: &str) -> String {
    let Spread { columns_most, domains, fatal } = spread;
    let each = match columns_most {
        1 => format!("each column on a {what} of its own"),
        more => format!("up to {more} columns on one {what}, {domains} {what}s in all"),
    };
    let loss = match fatal {
        0 => format!("any one {what} may be lost"),
        fatal if fatal == domains => format!("the loss of one {what} alone loses data"),
        fatal => format!("the loss of one {what} alone loses data for {fatal} of the {domains}"),
    };
    format!("{}: {each}; {loss}.", one.code)
}

/// Returns the codes that lose data most and least rarely.
fn answer(found: &[Durability]) -> String {
    let said = |one: &Durability| {
        format!("{}: {:.1} nines, {} bytes stored for each byte", one.code, one.nines(), number(one.overhead))
    };
    let by_nines = |a: &&Durability, b: &&Durability| a.nines().total_cmp(&b.nines());
    match (found.iter().max_by(by_nines), found.iter().min_by(by_nines)) {
        (Some(best), Some(worst)) if found.len() > 1 => {
            format!("Safest is {}; least safe is {}.", said(best), said(worst))
        }
        (Some(only), _) => format!("{}.", said(only)),
        _ => String::new(),
    }
}

/// Returns the table of the codes.
fn summary(found: &[Durability], options: &Options) -> Listing {
    let head = [
        "code",
        ">disks",
        ">overhead",
        ">tolerance",
        ">rebuild, h",
        ">MTTDL, years",
        ">loss",
        ">Monte Carlo, 95 %",
        ">nines",
        ">by sectors",
        ">per PB-year",
    ];
    let rows = found.iter().map(|one| {
        let interval = one.simulated.map_or("-".into(), |simulated| {
            format!("{} .. {}", rare(simulated.within.least), rare(simulated.within.most))
        });
        vec![
            one.code.clone(),
            one.columns.to_string(),
            number(one.overhead),
            format!("{}{}", one.tolerance, if one.is_proved { "" } else { " claimed" }),
            one.levels.get(1).map_or("-".into(), |level| number(level.hours)),
            number(one.hours / HOURS_PER_YEAR),
            rare(one.within),
            interval,
            format!("{:.1}", one.nines()),
            format!("{:.0} %", 100.0 * one.sectors),
            rare(one.losses_per_pb_year()),
        ]
    });
    Listing {
        title: "Durability of the codes".into(),
        caption: format!(
            "Per array; the loss is within {}, its interval the Monte Carlo's. Nines: of no loss within one year. Rebuild: of one lost column, mean. By sectors: the share of losses that are unreadable sectors met by a rebuild. \
             Per PB-year: losses per 10^15 bytes of user data and year, for arrays differ in size.",
            within(options)
        ),
        head: head.map(str::to_string).to_vec(),
        rows: rows.collect(),
    }
}

/// Returns the fatal sets by level.
fn counts(found: &[Durability]) -> Listing {
    let highest = found.iter().map(|one| one.certificate.levels.len()).max().unwrap_or(0).min(12);
    let head = std::iter::once("code".to_string()).chain((1..=highest).map(|lost| format!(">{lost} lost")));
    let rows = found.iter().map(|one| {
        let cell = |lost: usize| match one.certificate.levels.get(lost - 1) {
            None => String::new(),
            Some(level) => match level.method {
                Method::Exact if level.survived == 0 => "all".into(),
                Method::Exact => format!("{} of {}", level.sets - level.survived, level.sets),
                Method::Sampled { .. } => format!("~{:.3} %", 100.0 * (1.0 - level.survived_share())),
            },
        };
        std::iter::once(one.code.clone()).chain((1..=highest).map(cell)).collect()
    });
    Listing {
        title: "Fatal sets of disks".into(),
        caption: "Exact counts; a share with ~ is of a random sample.".into(),
        head: head.collect(),
        rows: rows.collect(),
    }
}

/// Returns durability against overhead.
fn front(found: &[Durability]) -> Points {
    let at = |one: &Durability| (one.overhead, -one.losses_per_pb_year().log10());
    let points = found.iter().map(|one| {
        let (x, y) = at(one);
        let beaten = found.iter().map(at).any(|(a, b)| a <= x && b >= y && (a < x || b > y));
        Point { name: one.code.clone(), x, y, is_front: !beaten }
    });
    Points {
        title: "Durability against overhead".into(),
        x: "stored bytes per user byte".into(),
        y: "-log10 of losses per PB and year".into(),
        points: points.collect(),
        caption: "Filled and joined: the Pareto front, codes that no other beats in one without being worse in the other.".into(),
    }
}

/// Returns the time in which losses count.
fn within(options: &Options) -> String {
    match options.years == 1.0 {
        true => "1 year".into(),
        false => format!("{} years", number(options.years)),
    }
}

fn exponent(value: f64) -> String {
    if value == 0.0 { "0".into() } else { format!("{value:e}") }
}

/// Returns a probability as text.
fn rare(value: f64) -> String {
    if value == 0.0 { "0".into() } else { format!("{value:.2e}") }
}

/// Adds the rebuild times that would give the printed losses on these disks: a different one for
/// each code, and none that a disk can achieve.
fn paper(report: &mut Report, found: &[Durability], options: &Options) {
    let mut needed = Vec::new();
    for one in found {
        let Some(printed) = crate::papers::shec::annual_loss_printed(&one.code) else { continue };
        let published = printed.value;
        let case = format!("{}, the paper's table", one.code);
        report.computed(&case, "annual loss, without sectors", annual(one, options, 1.0), printed).note =
            Some("the paper gives neither MTBF nor MTTR".into());
        // All rebuilds are sped up by one factor until the printed value is met; bisection,
        // because the loss grows with the time.
        let (mut low, mut high) = (-20.0f64, 3.0f64);
        for _ in 0..80 {
            let middle = f64::midpoint(low, high);
            match annual(one, options, 10f64.powf(middle)) < published {
                true => low = middle,
                false => high = middle,
            }
        }
        let hours = one.levels.get(1).map_or(0.0, |level| level.hours);
        let seconds = 10f64.powf(low) * hours * 3600.0;
        report.computed(&case, "rebuild time that would give the printed loss, s", seconds, None);
        needed.push(seconds);
    }
    if needed.is_empty() {
        return;
    }
    let times: Vec<String> = needed.iter().map(|&seconds| format!("{} s", number(seconds))).collect();
    let another = if needed.len() > 1 { ", another time for each code" } else { "" };
    report.say(format!(
        "The SHEC paper prints annual losses without MTBF and MTTR, and no inputs reproduce its table: with these disks, the rebuild of one \
         column would have to take {}{another}. Among codes of the same first fatal level MTBF and MTTR cancel in the ratios of the plain model; \
         those differ too (pantile-lab shec), so that no choice of them helps.",
        times.join(", ")
    ));
}

/// Returns the loss within a year with all rebuilds slower by the factor and no unreadable
/// sectors.
fn annual(one: &Durability, options: &Options, slower: f64) -> f64 {
    let rate = options.disks.failures_per_hour();
    let mut chain = Chain::new(one.levels.len());
    for (f, level) in one.levels.iter().enumerate() {
        let failed = (one.columns - f) as f64 * rate;
        let fatal = if f + 1 == one.levels.len() { 1.0 } else { level.fatal_share };
        chain.lose(f, 0, failed * fatal);
        if fatal < 1.0 {
            chain.add(f, f + 1, failed * (1.0 - fatal));
        }
        if let Some(&rebuilt) = level.rebuilds_per_hour.last() {
            chain.add(f, 0, rebuilt / slower);
        }
    }
    -(-HOURS_PER_YEAR / chain.mean_time().0).exp_m1()
}
