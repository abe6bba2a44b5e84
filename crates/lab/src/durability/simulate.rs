//! Monte Carlo of the same model, with sets of columns instead of their number, and with failures
//! made frequent and weighted accordingly.
//!
//! The array is simulated in cycles. A cycle begins with a failure in the whole array and ends
//! when the array is whole again. The mean time to loss is the mean length of a cycle over the
//! probability that it ends in a loss. In a fixed share of the steps a failure comes first,
//! instead of in its own small share. The weight of a cycle is the product of true over simulated
//! probabilities (balanced failure biasing: Shahabuddin 1994). At each step the probability of a
//! loss by the next event is added, with the weight, and the cycle goes on as if there were none:
//! no cycle has to meet the rare event itself. The lengths come from cycles without bias.
//!
//! **From cycles to a probability.** While the array is whole, failures come like Poisson events,
//! at rate r. Each begins a cycle that ends in a loss with probability p, after L hours, or leaves
//! the array whole again after B hours. So the time spent whole before the fatal failure is
//! exponential with rate r p; the elapsed time is that time and the B of the other failures. With
//! V(t) for the time spent whole within t, a loss comes in time with probability E[1 - exp(-r p
//! V(T - L))]. With m for the mean of a cycle, both parts included:
//!
//! * E V(t) is t / (r m), plus the part of the last B that reaches beyond t: 0 to E[B^2] / (r m^2)
//!   (Lorden's bound). Half of it, the limit in the long run, is added here;
//! * exp(-r p V) at the mean of V is too small a chance to survive (Jensen), by at most a share p
//!   E[B^2] / m^2 of the exponent, and p E[L^2] / (2 m^2) for the spread of L. This follows from
//!   the martingale exp(g Z - r p V) of the time Z, while g B is small for the g near p / m.
//!
//! The interval is that of chance, widened by these bounds: it contains the error of every
//! approximation. Tests compare it with an exact chain.

use super::array::Array;
use crate::parallel;
use pantile_sim::Random;

/// An estimate with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The best value.
    pub value: f64,
    /// The lower end of the interval.
    pub least: f64,
    /// The upper end.
    pub most: f64,
}

impl Estimate {
    /// Returns a value with a relative standard error.
    fn around(value: f64, error: f64) -> Estimate {
        // The interval is symmetric in the logarithm: neither end can be negative, and the inverse
        // of the value has the inverse interval.
        let factor = (1.96 * error).exp();
        Estimate { value, least: value / factor, most: value * factor }
    }

    fn map(self, f: impl Fn(f64) -> f64) -> Estimate {
        let (a, b) = (f(self.least), f(self.most));
        Estimate { value: f(self.value), least: a.min(b), most: a.max(b) }
    }
}

/// Results of the cycles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Simulated {
    /// Mean hours to loss.
    pub hours: Estimate,
    /// Probability of a loss within the time asked for.
    pub within: Estimate,
}

/// Cycles that one task simulates.
const BLOCK: usize = 1000;
/// Steps after which an array counts as never whole again.
const STEPS_MOST: usize = 20_000;
/// Initial weight, so that the squares of the rarest losses are above the smallest number.
const SCALE: f64 = 1e140;
/// Simulated share of failures below the level at which the first losses are fatal, and from that
/// level on.
const BIAS: [f64; 2] = [0.8, 0.3];

/// Simulates a number of cycles. `None` if one does not end: failures are too frequent for the
/// rebuilds.
pub(super) fn simulate(
    array: &Array<'_>,
    cycles: usize,
    hours: f64,
    seed: u64,
    threads: usize,
) -> Option<Simulated> {
    let blocks: Vec<usize> = (0..cycles.div_ceil(BLOCK)).collect();
    let sums = parallel::map(threads, &blocks, |&block| {
        let mut random = Random::new(seed.wrapping_add((block as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let mut random = random.fork();
        let mut sums = [Sum::default(); 6];
        for i in 0..BLOCK.min(cycles - block * BLOCK) {
            let cycle = cycle(array, &mut random, Some(hours))?;
            sums[0].add(cycle.loss);
            sums[1].add(cycle.in_time);
            sums[2].add(cycle.late);
            sums[3].add(cycle.late_squared);
            if i % 4 == 0 {
                let cycle = self::cycle(array, &mut random, None)?;
                sums[4].add(cycle.hours);
                sums[5].add(cycle.busy_squared);
            }
        }
        Some(sums)
    });
    let mut all = [Sum::default(); 6];
    for sums in sums {
        all.iter_mut().zip(sums?).for_each(|(all, sum)| all.join(sum));
    }
    let [loss, in_time, late, late_squared, length, busy_squared] = all;
    let error = |sum: Sum| sum.error().hypot(length.error());
    let mean = length.mean() / (loss.mean() / SCALE);
    let p = loss.mean() / SCALE;
    // Mean length, without the time of cycles that end in a loss.
    let cycle = length.mean() - late.mean() / SCALE;
    let beyond = p * busy_squared.mean() / (cycle * cycle);
    let expected = in_time.mean() / SCALE / cycle;
    let by_chance = Estimate::around(expected + beyond / 2.0, error(in_time));
    let spread = late_squared.mean() / SCALE / (2.0 * cycle * cycle) * p * expected.exp();
    let within = Estimate {
        least: (by_chance.least - beyond / 2.0 - expected * beyond - spread).max(0.0),
        most: by_chance.most + beyond / 2.0,
        ..by_chance
    };
    Some(Simulated {
        hours: Estimate::around(mean, error(loss)),
        within: within.map(|expected| -(-expected).exp_m1()),
    })
}

#[derive(Clone, Copy, Default)]
struct Sum {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Sum {
    fn add(&mut self, value: f64) {
        self.join(Sum { count: 1.0, sum: value, squares: value * value });
    }

    fn join(&mut self, other: Sum) {
        self.count += other.count;
        self.sum += other.sum;
        self.squares += other.squares;
    }

    fn mean(self) -> f64 {
        self.sum / self.count
    }

    /// Returns the standard error of the mean over the mean.
    fn error(self) -> f64 {
        let mean = self.mean();
        if mean == 0.0 {
            return 0.0;
        }
        let spread = (self.squares / self.sum / mean - 1.0).max(0.0);
        (spread / self.count).sqrt()
    }
}

struct Cycle {
    /// Weighted probability that it ends in a loss.
    loss: f64,
    /// `loss` times the hours within which the cycle must have begun for the loss to be in time.
    in_time: f64,
    /// `loss` times the hours from the first failure to the loss.
    late: f64,
    /// `loss` times the square of these hours.
    late_squared: f64,
    /// Mean length, given the steps that it took.
    hours: f64,
    /// Mean square of the hours from the first failure until the array is whole again; 0 if it
    /// ends in a loss.
    busy_squared: f64,
}

/// Simulates one cycle. With a horizon it is biased and never ends in a loss; otherwise it has the
/// true probabilities.
fn cycle(array: &Array<'_>, random: &mut Random, horizon: Option<f64>) -> Option<Cycle> {
    let disks = array.disks;
    let columns = array.columns();
    let failures_per_hour = array.failures_per_hour();
    let mut lost: Vec<u16> = Vec::with_capacity(array.top + 1);
    let mut ready = disks.spares.unwrap_or(usize::MAX);
    let mut found = Cycle {
        loss: 0.0,
        in_time: 0.0,
        late: 0.0,
        late_squared: 0.0,
        hours: 1.0 / (columns as f64 * failures_per_hour),
        busy_squared: 0.0,
    };
    // Mean and variance of the hours from the first failure on, given the steps.
    let (mut busy, mut variance) = (0.0, 0.0);
    let (mut weight, mut since) = (SCALE, 0.0);
    for step in 0..STEPS_MOST {
        let loss = array.loss(&lost);
        let others = columns - lost.len();
        let fatal = if lost.len() == array.top { others } else { loss.fatal_count };
        let is_first = step == 0;
        let at_once = lost.len().min(ready);
        let rebuilt = if at_once > 0 { 1.0 / loss.hours[at_once - 1] } else { 0.0 };
        let missing = disks.spares.map_or(0, |spares| spares + lost.len() - ready);
        let arrived = missing as f64 / disks.replace_hours;
        let failed = others as f64 * failures_per_hour;
        let total = failed + rebuilt + arrived;
        if !is_first {
            found.hours += 1.0 / total;
            busy += 1.0 / total;
            variance += 1.0 / (total * total);
            since -= uniform(random).ln() / total;
        }
        let lose = fatal as f64 * failures_per_hour + rebuilt * loss.unreadable;
        let (fails, mends) =
            ((others - fatal) as f64 * failures_per_hour, rebuilt * (1.0 - loss.unreadable) + arrived);
        let is_failure = match horizon {
            Some(horizon) => {
                let share = weight * lose / total;
                found.loss += share;
                found.in_time += share * (horizon - since).max(0.0);
                found.late += share * since;
                found.late_squared += share * since * since;
                weight *= (fails + mends) / total;
                if fails + mends == 0.0 || weight == 0.0 {
                    return Some(found);
                }
                let truth = fails / (fails + mends);
                let bias = BIAS[usize::from(lost.is_empty() || lost.len() >= array.safe)];
                let chosen = if truth == 0.0 || truth == 1.0 { truth } else { truth.max(bias) };
                let is_failure = uniform(random) <= chosen;
                weight *= if is_failure { truth / chosen } else { (1.0 - truth) / (1.0 - chosen) };
                is_failure
            }
            None => {
                let mut at = uniform(random) * total;
                at -= lose;
                if at <= 0.0 {
                    return Some(found);
                }
                at <= fails
            }
        };
        if is_failure {
            let mut left = random.below((others - fatal) as u64);
            let open = (0..columns as u16).filter(|c| lost.binary_search(c).is_err());
            for column in open.filter(|&c| !loss.is_fatal(c.into())) {
                if left == 0 {
                    let at = lost.partition_point(|&c| c < column);
                    lost.insert(at, column);
                    break;
                }
                left -= 1;
            }
        } else if uniform(random) * mends <= arrived {
            ready += 1;
        } else {
            lost.drain(..at_once);
            if disks.spares.is_some() {
                ready -= at_once;
            }
        }
        if lost.is_empty() && disks.spares.is_none_or(|spares| spares == ready) {
            found.busy_squared = busy * busy + variance;
            return Some(found);
        }
    }
    None
}

/// Returns a number above 0 and at most 1.
fn uniform(random: &mut Random) -> f64 {
    ((random.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64
}
