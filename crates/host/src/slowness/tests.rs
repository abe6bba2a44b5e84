use super::*;

const AFTER: Duration = Duration::from_secs(30);

/// Simulates six devices with one load, whose reads take as many microseconds as `took` says.
/// Returns the devices that were called slow, for each second.
fn run(seconds: u64, reads_a_second: u64, mut took: impl FnMut(u64, usize) -> f64) -> Vec<[bool; 6]> {
    let tallies: [Tally; 6] = Default::default();
    let mut watch = Watch::new(6, Rule { after: AFTER });
    let mut called = Vec::new();
    for second in 0..seconds {
        for _ in 0..reads_a_second {
            for (device, tally) in tallies.iter().enumerate() {
                tally.note(took(second, device) as u32);
            }
        }
        watch.look(Duration::from_secs(second + 1), &mut tallies.iter());
        called.push(std::array::from_fn(|slot| watch.slow(Slot(slot as u32)).is_some()));
    }
    called
}

/// Returns the duration of a read on a healthy device. Most reads are from a cache or flash; a few
/// take longer because of a disk's arm, garbage collection or a scheduler. So the distribution has
/// a long tail.
fn healthy(random: &mut fastrand::Rng, median_us: f64) -> f64 {
    let tail = 1.0 / (1.0 - random.f64());
    let hit = if random.u32(..10) == 0 { 20.0 } else { 1.0 };
    (median_us * (0.3 + random.f64()) * hit * tail.sqrt()).min(4e9)
}

#[test]
fn no_device_is_called_slow_in_an_hour_of_load_on_six_equal_devices() {
    let light = (0..8).flat_map(|seed| [(seed, 1), (seed, 3), (seed, 20)]);
    for (seed, reads_a_second) in light.chain([(8, 200), (9, 200)]) {
        let mut random = fastrand::Rng::with_seed(seed);
        // Bursts, in which devices are a hundred times as slow: one device for up to 15 s, and the
        // three devices of one disk, or all of them, for up to 5 minutes. Causes are hiccups,
        // neighbours and schedulers.
        let mut bursts: Vec<(u64, u64, u32)> = Vec::new();
        let mut at = 0;
        while at < 3600 {
            at += random.u64(15..60);
            let (len, who) = match random.u32(..3) {
                0 => (random.u64(1..16), 1 << random.u32(..6)),
                1 => (random.u64(1..300), if random.bool() { 0b111 } else { 0b111000 }),
                _ => (random.u64(1..300), 0b111111),
            };
            bursts.push((at, at + len, who));
            at += len;
        }
        let called = run(3600, reads_a_second, |second, device| {
            let is_in =
                |&(from, to, who): &(u64, u64, u32)| from <= second && second < to && who & 1 << device != 0;
            let slower = if bursts.iter().any(is_in) { 100.0 } else { 1.0 };
            healthy(&mut random, 800.0) * slower
        });
        let alarms = called.iter().flatten().filter(|&&is_slow| is_slow).count();
        assert_eq!(alarms, 0, "seed {seed}, {reads_a_second} reads a second");
    }
}

#[test]
fn a_device_ten_times_as_slow_is_called_slow_within_a_minute_and_no_other_is() {
    for (seed, reads_a_second) in (0..8).flat_map(|seed| [(seed, 3), (seed, 30), (seed, 100)]) {
        let mut random = fastrand::Rng::with_seed(seed);
        let (from, to) = (300, 900);
        let called = run(1200, reads_a_second, |second, device| {
            let is_slow = device == 4 && (from..to).contains(&second);
            healthy(&mut random, 800.0) * if is_slow { 10.0 } else { 1.0 }
        });
        for (second, called) in (1..).zip(&called) {
            let others = called.iter().enumerate().filter(|(device, _)| *device != 4);
            assert!(others.clone().all(|(_, is_slow)| !is_slow), "seed {seed}, after {second} s: {called:?}");
            let expected = match second {
                ..=320 => Some(false),
                360..=900 => Some(true),
                // The warning ends about a minute after the recovery.
                901..=950 => Some(true),
                980.. => Some(false),
                _ => None,
            };
            assert!(expected.is_none_or(|is_slow| called[4] == is_slow), "seed {seed}, after {second} s");
        }
    }
}

#[test]
fn a_device_of_few_and_very_long_reads_is_called_slow() {
    // Reads avoid the device, and only one probe at a time measures it.
    for took_s in [1, 2, 4] {
        let tallies: [Tally; 6] = Default::default();
        let mut watch = Watch::new(6, Rule { after: AFTER });
        for second in 1..60u64 {
            tallies.iter().skip(1).for_each(|tally| (0..40).for_each(|_| tally.note(5000)));
            if second % took_s == 0 {
                tallies[0].note(took_s as u32 * 1_000_000);
            }
            watch.look(Duration::from_secs(second), &mut tallies.iter());
        }
        assert!(watch.slow(Slot(0)).is_some_and(|slow| slow.times >= 100), "{took_s} s a read");
        assert!((1..6).all(|slot| watch.slow(Slot(slot)).is_none()));
    }
}

#[test]
fn small_differences_and_single_reads_are_no_reason() {
    let ten_times = run(300, 400, |_, device| if device == 0 { 900.0 } else { 90.0 });
    assert!(ten_times.iter().flatten().all(|is_slow| !is_slow), "under a millisecond");
    let alone = run(300, 1, |second, device| match (device, second % 5) {
        (0, 0) => 1_000_000.0,
        _ => 500.0,
    });
    assert!(alone.iter().flatten().all(|is_slow| !is_slow), "one read of five");
}

#[test]
fn a_warning_lasts_over_an_idle_time_and_ends_when_the_device_is_as_fast_as_the_others_were() {
    let tallies: [Tally; 6] = Default::default();
    let mut watch = Watch::new(6, Rule { after: AFTER });
    let mut now = 0;
    let mut seconds = |watch: &mut Watch, count: u64, us: [u32; 6]| {
        for _ in 0..count {
            for (tally, us) in tallies.iter().zip(us).filter(|(_, us)| *us > 0) {
                (0..4).for_each(|_| tally.note(us));
            }
            now += 1;
            watch.look(Duration::from_secs(now), &mut tallies.iter());
        }
    };
    seconds(&mut watch, 60, [1000, 1000, 50_000, 1000, 1000, 1000]);
    let slow = watch.slow(Slot(2)).expect("it is slow");
    assert!((40..=60).contains(&slow.times) && slow.median_us >= 40_000, "{slow:?}");
    seconds(&mut watch, 300, [0; 6]);
    assert!(watch.slow(Slot(2)).is_some(), "nothing was read of it");
    seconds(&mut watch, 300, [0, 0, 50_000, 0, 0, 0]);
    assert!(watch.slow(Slot(2)).is_some(), "it is as slow as before");
    seconds(&mut watch, 40, [0, 0, 1000, 0, 0, 0]);
    assert!(watch.slow(Slot(2)).is_none());
    seconds(&mut watch, 300, [0, 0, 50_000, 0, 0, 0]);
    assert!(watch.slow(Slot(2)).is_none(), "the others were not read meanwhile");
}

#[test]
fn classes_are_a_fifth_wide_and_ascend() {
    for us in (0..5000).chain([1 << 20, u32::MAX - 1, u32::MAX]) {
        let least = least_of(class_of(us));
        assert!(least <= us && us - least <= least / 4, "{us}: {least}");
        assert!(class_of(us) <= class_of(us.saturating_add(1)) && class_of(us) < CLASSES);
    }
}
