//! Runs one seed from beginning to end: load, faults and kills; then faults stop, and all flushed
//! content must be read.

mod taken;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use pantile_volume::{Action, DeviceBlock, Event, Found, Scrub, ScrubStatus, Slot, UserBlock};

use crate::direct::{DirectRead, DirectReads};
use crate::faults::Faults;
use crate::workload::Workload;
use crate::{
    Ask, Cause, Content, Disk, Engine, Failure, Fault, Kill, Load, Model, Promise, Random, Stats, World,
    WorldConfig,
};

/// In one of this many seeds the devices that can fail according to the engine are removed. This
/// happens while there are faults, and about as often at the end. Each time costs a scrub, an
/// opening and a read of everything.
const MARGIN_RARITY: u64 = 3;

/// The most actions that an engine may give after one event.
const ACTIONS_MOST: u64 = 1 << 20;

/// Configuration of a run.
#[derive(Clone, Debug)]
pub struct Config {
    /// The devices.
    pub world: WorldConfig,
    /// The number of blocks of the volume.
    pub user_blocks: u64,
    /// The tolerance of the code.
    pub promise: Promise,
    /// By slot, the blocks that identify a device as a member. An engine that finds most of them
    /// damaged may rebuild the device, which then lacks content long after these blocks are written
    /// again.
    pub heads: Vec<Vec<DeviceBlock>>,
    /// The number of requests before faults stop.
    pub requests: u32,
    /// The shape of these requests.
    pub load: Load,
    /// The kinds of faults; each seed has some of them.
    pub faults: Vec<Fault>,
    /// The approximate number of kills of a seed at most; some seeds have none.
    pub kills_most: u32,
    /// True if crashes and losses take turns: no crash while a device is away or the engine has a
    /// repair left, and no loss before it is ready again. This suits volumes that do not tolerate
    /// both together.
    pub in_turns: bool,
    /// Steps within which the engine must be ready, come to rest, or be clean.
    pub steps_most: u64,
    /// The number of buffers that the engine may keep when everything is flushed and done.
    pub buffers_kept: usize,
    /// True if the engine gets scrub commands: at random times, and at the end, so that nothing bad
    /// is left.
    pub scrubs: bool,
    /// True if the engine gets idle and still events at random times.
    pub idles: bool,
    /// True if users read devices themselves at the places that the engine gives.
    pub direct_reads: bool,
    /// True if users have epochs of delayed parity, too.
    pub epochs: bool,
    /// The number of lines of the trace in the report of a failed run.
    pub tail_lines: usize,
    /// A command that repeats a run; `{seed}` stands for the seed.
    pub replay: String,
}

impl Config {
    /// Returns a configuration of 300 requests on a small world with all faults.
    pub fn small(devices: u32, device_blocks: u64, user_blocks: u64, tolerance: u32) -> Config {
        Config {
            world: WorldConfig { volume: *b"pantile-sim-test", devices, device_blocks, tears: true },
            user_blocks,
            promise: Promise::whole_devices(tolerance),
            heads: Vec::new(),
            requests: 300,
            load: Load { blocks_most: 8, open_most: 8 },
            faults: Fault::ALL.to_vec(),
            kills_most: 8,
            in_turns: false,
            steps_most: 100_000,
            buffers_kept: 0,
            scrubs: false,
            idles: false,
            direct_reads: false,
            epochs: false,
            tail_lines: 60,
            replay: "PANTILE_SEED={seed} cargo test --release --package pantile-sim".to_owned(),
        }
    }
}

/// The devices and the session of a new engine.
pub struct Start<'a> {
    /// The devices. For a new volume all are zeros, and writes to them here are durable at once.
    pub disks: &'a mut [Disk],
    /// The number of the session: 0 for a new volume; else the volume must be opened.
    pub session: u32,
}

/// The reason why no engine could be made.
pub type Refusal = Box<dyn std::error::Error>;

/// Runs one seed. `make` makes the first engine, and another one after each kill.
#[allow(clippy::result_large_err, reason = "one a run")]
pub fn run_seed<E: Engine>(
    seed: u64,
    make: impl FnMut(Start<'_>) -> Result<E, Refusal>,
    config: &Config,
) -> Result<Stats, Failure> {
    let mut run = Run::new(seed, make, config);
    let cause = match catch_unwind(AssertUnwindSafe(|| run.all())) {
        Ok(Ok(())) => return Ok(run.stats()),
        Ok(Err(cause)) => cause,
        Err(panic) => Cause::Panicked { says: words(&*panic) },
    };
    Err(run.failure(cause))
}

/// Runs many seeds on several threads and adds their counts. If any seed fails, returns the failure
/// of the lowest one.
#[allow(clippy::result_large_err, reason = "one a run")]
pub fn run_seeds<E: Engine>(
    seeds: Range<u64>,
    threads: u64,
    make: impl Fn(Start<'_>) -> Result<E, Refusal> + Sync,
    config: &Config,
) -> Result<Stats, Failure> {
    each_seed(seeds, threads, |seed| run_seed(seed, &make, config))
}

/// Runs many seeds on several threads like [`run_seeds`], each by a function of the caller.
#[allow(clippy::result_large_err, reason = "one a run")]
pub fn each_seed(
    seeds: Range<u64>,
    threads: u64,
    run: impl Fn(u64) -> Result<Stats, Failure> + Sync,
) -> Result<Stats, Failure> {
    // Thread i takes every seed that is i modulo `threads`, up to the lowest that has failed
    // anywhere.
    let end = AtomicU64::new(seeds.end);
    let part = |thread: u64| {
        let mut total = Stats::default();
        for seed in (seeds.start + thread..seeds.end).step_by(threads as usize) {
            if seed >= end.load(Ordering::Relaxed) {
                break;
            }
            match run(seed) {
                Ok(stats) => total.add(&stats),
                Err(failure) => {
                    end.fetch_min(seed, Ordering::Relaxed);
                    return Err(failure);
                }
            }
        }
        Ok(total)
    };
    let ends: Vec<Result<Stats, Failure>> = std::thread::scope(|scope| {
        let part = &part;
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || part(thread))).collect();
        running.into_iter().map(|thread| thread.join().expect("panics of engines are caught")).collect()
    });
    if let Some(failure) = ends.iter().filter_map(|end| end.as_ref().err()).min_by_key(|failure| failure.seed)
    {
        return Err(failure.clone());
    }
    let mut total = Stats::default();
    ends.iter().flatten().for_each(|stats| total.add(stats));
    Ok(total)
}

/// Returns the devices and the user's expectations after the requests of a seed, without faults,
/// with everything flushed.
#[allow(clippy::result_large_err, reason = "one a run")]
pub fn prepare<E: Engine>(
    seed: u64,
    make: impl FnMut(Start<'_>) -> Result<E, Refusal>,
    config: &Config,
) -> Result<(Vec<Disk>, Model), Failure> {
    let mut run = Run::new(seed, make, config);
    let mut all = || {
        run.begin_in_peace()?;
        while run.go_on_in_peace()? {}
        run.ask_and_rest(&Ask::Flush)
    };
    match all() {
        Ok(()) => {
            let mut model = run.model.clone();
            model.crashed(Kill::Power);
            Ok((run.world.disks().to_vec(), model))
        }
        Err(cause) => Err(run.failure(cause)),
    }
}

/// Opens a volume on these devices without faults, reads everything, and returns the devices.
#[allow(clippy::result_large_err, reason = "one a run")]
pub fn open_and_read<E: Engine>(
    seed: u64,
    make: impl FnMut(Start<'_>) -> Result<E, Refusal>,
    config: &Config,
    disks: Vec<Disk>,
    model: Model,
) -> Result<Vec<Disk>, Failure> {
    let mut run = Run::resumed(seed, make, config, disks, model);
    let end = catch_unwind(AssertUnwindSafe(|| run.open_and_read_all()));
    match end.unwrap_or_else(|panic| Err(Cause::Panicked { says: words(&*panic) })) {
        Ok(()) => Ok(run.world.disks().to_vec()),
        Err(cause) => Err(run.failure(cause)),
    }
}

fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no words").to_owned()
}

pub(crate) struct Run<'a, E, M> {
    seed: u64,
    config: &'a Config,
    make: M,
    engine: Option<E>,
    world: World,
    model: Model,
    workload: Workload,
    faults: Faults,
    direct: Option<DirectReads>,
    random: Random,
    session: u32,
    /// The approximate number of kills during the requests.
    kills: u64,
    /// The next block of a sequential read that follows some kills and decides all uncertain
    /// versions.
    audit: Option<u64>,
    /// The number of steps until the next kill, if there will be one.
    kill_in: Option<u64>,
    /// A scrub command is sent in one of this many steps.
    scrub_rarity: Option<u64>,
    /// Draws the still events.
    stills: Option<Random>,
    /// Draws slow devices and their speeds. A separate stream, so that other choices do not depend
    /// on it.
    paces: Random,
    /// Draws when devices are removed according to the engine, and which. A separate stream, too.
    takes: Random,
    stats: Stats,
}

/// Faults happen only in a storm.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Weather {
    Storm,
    Calm,
}

impl<'a, E: Engine, M: FnMut(Start<'_>) -> Result<E, Refusal>> Run<'a, E, M> {
    pub(crate) fn new(seed: u64, make: M, config: &'a Config) -> Run<'a, E, M> {
        let mut random = Random::new(seed);
        let kills = random.below(u64::from(config.kills_most) + 1);
        let rarity =
            *Random::new(!seed).pick(&[None, Some(30), Some(200), Some(1000)]).expect("there are rates");
        Run {
            seed,
            config,
            make,
            engine: None,
            world: World::new(&config.world, random.bits()),
            model: Model::new(config.user_blocks, random.bits()),
            workload: match config.epochs {
                true => Workload::new(&config.load, random.fork()).with_epochs(seed ^ 0x0e90_c450),
                false => Workload::new(&config.load, random.fork()),
            },
            faults: Faults::new(config, random.fork()),
            direct: config.direct_reads.then(|| DirectReads::new(seed ^ 0xd1_5ec7)),
            session: 0,
            kills,
            audit: None,
            kill_in: None,
            scrub_rarity: rarity.filter(|_| config.scrubs),
            paces: Random::new(seed ^ 0x9a_ce),
            takes: Random::new(seed ^ 0x7a_ce5),
            stills: config.idles.then(|| Random::new(seed ^ 0x57_111)),
            stats: Stats::default(),
            random,
        }
    }

    /// Makes a run that continues after a power failure, without further faults.
    pub(crate) fn resumed(
        seed: u64,
        make: M,
        config: &'a Config,
        disks: Vec<Disk>,
        model: Model,
    ) -> Run<'a, E, M> {
        let mut run = Run::new(seed, make, config);
        run.world = World::with_disks(&config.world, seed, disks);
        run.model = model;
        run.session = 1;
        run.calm();
        run
    }

    pub(crate) fn open_and_read_all(&mut self) -> Result<(), Cause> {
        self.start()?;
        self.until(Weather::Calm, |run| run.ready())?;
        self.read_all()
    }

    pub(crate) fn begin_in_peace(&mut self) -> Result<(), Cause> {
        self.calm();
        self.start()?;
        self.until(Weather::Calm, |run| run.ready())
    }

    /// Makes one request or step without faults; `false`: all are done.
    pub(crate) fn go_on_in_peace(&mut self) -> Result<bool, Cause> {
        let more = self.stats.requests < u64::from(self.config.requests);
        if more && self.workload.wants(self.world.open_requests(), self.world.is_idle()) {
            let of_epochs = self.workload.next_of_epochs(&mut self.model);
            let ask = of_epochs.unwrap_or_else(|| self.workload.next(&mut self.model));
            self.ask(&ask)?;
        } else if more || !self.world.is_idle() || self.world.open_requests() > 0 {
            self.step(Weather::Calm)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    pub(crate) fn model(&self) -> &Model {
        &self.model
    }

    pub(crate) fn disks(&self) -> &[Disk] {
        self.world.disks()
    }

    fn calm(&mut self) {
        self.faults.stop();
        self.kills = 0;
        self.kill_in = None;
    }

    fn all(&mut self) -> Result<(), Cause> {
        self.start()?;
        self.until(Weather::Calm, |run| run.ready())?;
        let mut left = self.config.requests;
        let taken_at = self.takes.chance(1, MARGIN_RARITY).then(|| self.takes.below(left.into()) as u32);
        while left > 0 {
            if taken_at == Some(left) {
                self.take_at_its_word()?;
            }
            while !self.workload.wants(self.world.open_requests(), self.world.is_idle()) || !self.ready() {
                self.step(Weather::Storm)?;
            }
            let ask = self.next_audit().unwrap_or_else(|| {
                left -= 1;
                let of_epochs = self.workload.next_of_epochs(&mut self.model);
                of_epochs.unwrap_or_else(|| self.workload.next(&mut self.model))
            });
            if self.kill_in.is_none() && self.random.chance(self.kills, u64::from(self.config.requests)) {
                self.kill_in = Some(self.random.skewed(200));
            }
            self.ask(&ask)?;
        }
        self.until(Weather::Storm, |run| run.ready() && run.world.open_requests() == 0)?;
        self.close_epochs()?;
        self.peace()
    }

    /// Ends each open epoch, or aborts it if the end is refused.
    fn close_epochs(&mut self) -> Result<(), Cause> {
        self.calm();
        loop {
            let open = self.model.open_epochs().map(|(epoch, _)| epoch).next();
            let Some(epoch) = open else { break };
            self.ask_and_rest(&Ask::End { epoch })?;
            if self.model.open_epochs().any(|(open, _)| open == epoch) {
                self.ask_and_rest(&Ask::Abort { epoch })?;
            }
        }
        self.until(Weather::Calm, |run| run.ready() && !run.model.has_epochs())
    }

    /// Stops faults. All devices come back and the volume becomes clean; then it must have its
    /// promised tolerance.
    fn peace(&mut self) -> Result<(), Cause> {
        self.calm();
        if self.config.faults.contains(&Fault::Returns) && self.random.chance(1, 2) {
            self.until(Weather::Calm, |run| run.ready() && run.world.is_idle())?;
            let away = self.faults.all_away(&self.world);
            // All devices are present before the first event, because the engine's reaction can use
            // any of them.
            away.iter().for_each(|&(slot, found)| self.put_back(slot, found));
            for (slot, found) in away {
                self.tell_back(slot, found)?;
            }
        } else if self.config.kills_most == 0 && !self.faults.has_suspects() {
            // No engine was killed, and no device needs to come back.
        } else if self.faults.has_suspects() || self.random.chance(1, 2) {
            if self.config.kills_most == 0 || self.config.in_turns {
                // The kill must not come in the middle of the engine's work.
                self.until(Weather::Calm, |run| run.ready() && run.world.is_idle())?;
            }
            self.kill(true)?;
        }
        let before = self.stats.steps;
        self.until(Weather::Calm, |run| run.ready() && run.world.is_idle())?;
        if !self.engine().is_clean() {
            return Err(Cause::NotClean);
        }
        self.stats.steps_to_clean = self.stats.steps - before;
        self.faults.clean(self.world.disks(), self.session);
        self.read_all()?;
        if self.config.scrubs && self.random.chance(1, 2) {
            self.leave_nothing_bad()?;
        }
        self.ask_and_rest(&Ask::Flush)?;
        self.world.check_leaks(self.config.buffers_kept).map_err(Cause::Breach)?;
        if self.takes.chance(1, MARGIN_RARITY) {
            self.take_at_its_word()?;
        }
        self.lose_all_that_may_be_lost();
        self.kill(false)?;
        self.until(Weather::Calm, |run| run.ready())?;
        self.read_all()
    }

    /// Checks that a scrub with repair leaves nothing bad, whatever was bad before, within the
    /// promise. Scrubs of all devices, one by one, must do the same. The next scrub must find
    /// nothing, and from then on no device counts as damaged.
    fn leave_nothing_bad(&mut self) -> Result<(), Cause> {
        // A scrub does not read unmapped content, which could rot unnoticed.
        self.ask_and_rest(&Ask::Flush)?;
        if !self.faults.did_damage() {
            // A clean engine means that every device has all of its content.
            let status = self.scrub_to_the_end(false)?;
            if status.is_bad() {
                return Err(Cause::NotClean);
            }
        }
        let rots = self.config.faults.iter().any(|fault| matches!(fault, Fault::Flip | Fault::Unreadable));
        if rots {
            self.faults.rot_widely(&mut self.world);
        }
        match self.random.chance(1, 2) {
            true => self.scrub_to_the_end(true).map(drop)?,
            // Scrubs of one device after the other repair as much.
            false => (0..self.config.world.devices).try_for_each(|slot| {
                self.tell(Event::Scrub(Scrub::Device(Slot(slot))))?;
                self.until(Weather::Calm, |run| run.world.is_idle())
            })?,
        }
        if !self.engine().is_clean() {
            return Err(Cause::NotClean);
        }
        let status = self.scrub_to_the_end(false)?;
        if status.is_bad() {
            return Err(Cause::LeftBad(Box::new(status)));
        }
        self.world.disks_mut().iter_mut().for_each(Disk::forgive);
        self.read_all()
    }

    fn scrub_to_the_end(&mut self, repair: bool) -> Result<ScrubStatus, Cause> {
        self.tell(Event::Scrub(Scrub::Start { repair }))?;
        self.until(Weather::Calm, |run| run.world.is_idle())?;
        let status = self.engine().scrubbed();
        let is_done = |status: &ScrubStatus| !status.running && status.done == status.total;
        status.clone().filter(is_done).ok_or_else(|| Cause::ScrubNotDone(status.map(Box::new)))
    }

    /// Puts a device back and sends the events for it: first its loss, in case the engine missed
    /// that.
    fn bring_back(&mut self, slot: Slot, found: Found) -> Result<(), Cause> {
        self.put_back(slot, found);
        self.tell_back(slot, found)
    }

    fn put_back(&mut self, slot: Slot, found: Found) {
        self.world.put_back(slot, found);
    }

    fn tell_back(&mut self, slot: Slot, found: Found) -> Result<(), Cause> {
        self.tell(Event::DeviceGone(slot))?;
        let found = match found {
            Found::Stale => self.found(slot),
            Found::Blank => Found::Blank,
        };
        self.faults.returned(slot, found);
        self.tell(Event::DeviceCame(slot, found))
    }

    /// Returns what the engine makes of a device that comes with its content.
    fn found(&self, slot: Slot) -> Found {
        let disk = &self.world.disks()[slot.0 as usize];
        let heads = self.config.heads.get(slot.0 as usize).into_iter().flatten();
        let bytes = |content: &Content| {
            let mut bytes = Vec::new();
            content.append_to(&mut bytes);
            bytes
        };
        let heads: Vec<Vec<u8>> = heads.filter_map(|&at| disk.newest(at).ok().map(bytes)).collect();
        self.engine().found(slot, &heads).unwrap_or(match self.world.has_earlier(slot) {
            true => Found::Blank,
            false => Found::Stale,
        })
    }

    fn tell_scrub(&mut self) -> Result<(), Cause> {
        match self.scrub_rarity {
            Some(rarity) if self.random.chance(1, rarity) => {
                let repair = self.random.chance(1, 2);
                let start = Scrub::Start { repair };
                let of_one = Scrub::Device(Slot(self.random.below(self.config.world.devices.into()) as u32));
                let wishes = [start, start, of_one, Scrub::Pause, Scrub::Resume, Scrub::Stop];
                let wish = *self.random.pick(&wishes).expect("there are wishes");
                self.tell(Event::Scrub(wish))
            }
            _ => Ok(()),
        }
    }

    fn lose_all_that_may_be_lost(&mut self) {
        let mut slots: Vec<Slot> = (0..self.config.world.devices).map(Slot).collect();
        while !slots.is_empty() {
            let slot = slots.swap_remove(self.random.below(slots.len() as u64) as usize);
            self.faults.lose(&mut self.world, slot, self.session);
        }
    }

    fn read_all(&mut self) -> Result<(), Cause> {
        self.audit = Some(0);
        while let Some(ask) = self.next_audit() {
            self.ask_and_rest(&ask)?;
        }
        Ok(())
    }

    fn next_audit(&mut self) -> Option<Ask> {
        let first = self.audit.filter(|&first| first < self.config.user_blocks)?;
        let count = self.config.load.blocks_most.min((self.config.user_blocks - first) as u32);
        self.audit = Some(first + u64::from(count));
        Some(Ask::Read { first: UserBlock(first), count })
    }

    fn ask_and_rest(&mut self, ask: &Ask) -> Result<(), Cause> {
        self.ask(ask)?;
        self.until(Weather::Calm, |run| run.world.is_idle() && run.world.open_requests() == 0)
    }

    fn until(&mut self, weather: Weather, done: impl Fn(&Self) -> bool) -> Result<(), Cause> {
        for _ in 0..self.config.steps_most {
            if done(self) {
                return Ok(());
            }
            self.step(weather)?;
        }
        Err(Cause::Endless { steps: self.config.steps_most })
    }

    fn engine(&self) -> &E {
        self.engine.as_ref().expect("an engine runs between starts")
    }

    fn ready(&self) -> bool {
        self.engine().is_ready()
    }

    fn ask(&mut self, ask: &Ask) -> Result<(), Cause> {
        self.stats.ends += u64::from(matches!(ask, Ask::End { .. }));
        let (id, event) = self.world.ask(ask);
        self.model.asked(id, ask);
        self.stats.requests += 1;
        if let (&Ask::Read { first, count }, Some(direct)) = (ask, &mut self.direct)
            && direct.wants()
            && let Some(lookup) = self.engine.as_ref().and_then(|engine| engine.lookup(first, count))
        {
            direct.begin(DirectRead { request: id, event, lookup, found: Vec::new() });
            return Ok(());
        }
        self.tell(event)
    }

    /// Lets a user read one stretch from a device, or complete a read; returns true if one did.
    fn look(&mut self) -> Result<bool, Cause> {
        let nothing_else = self.world.is_idle();
        let Some(direct) = &mut self.direct else { return Ok(false) };
        let Some(mut read) = direct.next(nothing_else) else { return Ok(false) };
        if let Some(stretch) = read.lookup.stretches.get(read.found.len()) {
            match self.world.look(stretch) {
                Some(found) => {
                    read.found.push(found);
                    direct.begin(read);
                }
                None => self.tell(read.event)?,
            }
        } else if let Some(found) = read.answer(self.world.volume()) {
            self.stats.direct_reads += 1;
            self.stats.direct_mixtures += u64::from(!read.lookup.mixtures.is_empty());
            let answer = self.world.answered_by_device(read.request, found);
            self.model.answered(answer.request, &answer.told).map_err(Cause::Wrong)?;
        } else {
            self.tell(read.event)?;
        }
        Ok(true)
    }

    /// Performs one action; random events may happen before and after it.
    fn step(&mut self, weather: Weather) -> Result<(), Cause> {
        if weather == Weather::Storm && (self.ready() || !self.config.in_turns) {
            if let Some((slot, found)) = self.faults.strike(&mut self.world, self.session) {
                self.bring_back(slot, found)?;
            }
            self.tell_scrub()?;
            if self.config.idles && self.random.chance(1, 100) {
                self.tell(Event::Idle)?;
            }
            if self.stills.as_mut().is_some_and(|stills| stills.chance(1, 60)) {
                self.tell(Event::Still)?;
            }
            if self.paces.chance(1, 120) {
                let slot = Slot(self.paces.below(self.world.disks().len() as u64) as u32);
                let times = *self.paces.pick(&[1, 1, 2, 3, 5, 1000]).expect("there are some");
                self.tell(Event::Pace(slot, times))?;
            }
        }
        if self.look()? {
            return Ok(());
        }
        let lie = self.faults.lie(&self.world, self.session);
        self.model.epochs.may_lose |= self.faults.did_harm();
        let Some(event) = self.world.step(lie) else {
            return Err(Cause::Stuck { open: self.world.open_requests(), ready: self.ready() });
        };
        self.stats.steps += 1;
        if matches!(event, Event::DeviceGone(_)) {
            self.model.epochs.may_lose = true;
        }
        self.tell(event)?;
        if self.ready() && self.engine().is_clean() {
            self.faults.clean(self.world.disks(), self.session);
        }
        let may_kill = !self.config.in_turns || self.is_whole();
        if weather == Weather::Storm && may_kill && self.is_time_to_kill() {
            self.kill(false)?;
        }
        Ok(())
    }

    fn tell(&mut self, event: Event) -> Result<(), Cause> {
        self.engine.as_mut().expect("an engine runs").handle(event);
        self.perform_all()?;
        self.engine().refused().map_or(Ok(()), |says| Err(Cause::NotOpened { says }))
    }

    fn perform_all(&mut self) -> Result<(), Cause> {
        for _ in 0..ACTIONS_MOST {
            let Some(action) = self.next_action() else { return Ok(()) };
            if let Some(answer) = self.world.perform(action).map_err(Cause::Breach)? {
                self.model.answered(answer.request, &answer.told).map_err(Cause::Wrong)?;
            }
        }
        Err(Cause::Endless { steps: ACTIONS_MOST })
    }

    fn next_action(&mut self) -> Option<Action> {
        self.engine.as_mut().expect("an engine runs").next_action()
    }

    /// Returns true if all devices are present, and the engine has no repair left.
    fn is_whole(&self) -> bool {
        self.ready() && self.engine().is_clean() && !self.faults.has_suspects()
    }

    fn is_time_to_kill(&mut self) -> bool {
        match self.kill_in {
            Some(0) => true,
            Some(left) => {
                self.kill_in = Some(left - 1);
                false
            }
            None => false,
        }
    }

    /// Ends everything at once, and starts again.
    fn kill(&mut self, all_back: bool) -> Result<(), Cause> {
        self.stats.kills += 1;
        self.stats.kills_in_recovery += u32::from(!self.ready());
        let kill = if self.random.chance(1, 4) { Kill::Process } else { Kill::Power };
        self.engine = None;
        self.world.kill(kill);
        self.direct.iter_mut().for_each(DirectReads::forget);
        self.model.crashed(kill);
        if self.kills > 0 || all_back {
            self.faults.put_back(&mut self.world, self.session, all_back);
            if !self.config.in_turns {
                self.faults.strike_at_kill(&mut self.world, self.session);
            }
        }
        // The next kill may come in the middle of recovery.
        self.kill_in = (self.kills > 0 && self.random.chance(1, 3)).then(|| self.random.skewed(100));
        self.audit = self.random.chance(1, 2).then_some(0);
        self.session += 1;
        self.start()
    }

    fn start(&mut self) -> Result<(), Cause> {
        let start = Start { disks: self.world.disks_mut(), session: self.session };
        match (self.make)(start) {
            Ok(engine) => self.engine = Some(engine),
            Err(refusal) => return Err(Cause::NotOpened { says: refusal.to_string() }),
        }
        self.perform_all()
    }

    fn stats(mut self) -> Stats {
        self.stats.faults = self.faults.done().clone();
        self.stats.buffers_most = self.world.buffers_most() as u64;
        self.stats.virtual_ns = self.world.now_ns();
        self.stats.counts = self.world.counts().to_vec();
        self.stats.trace_hash = self.world.trace().hash();
        self.stats
    }

    pub(crate) fn failure(mut self, cause: Cause) -> Failure {
        let says = self.engine.as_ref().map(Engine::describe).unwrap_or_default();
        let mut tail = self.world.trace().tail(self.config.tail_lines).to_owned();
        if !says.is_empty() {
            tail.push_str(&says);
        }
        Failure {
            seed: self.seed,
            step: self.stats.steps,
            session: self.session,
            at_ns: self.world.now_ns(),
            cause,
            tail,
            replay: self.config.replay.replace("{seed}", &self.seed.to_string()),
        }
    }
}
