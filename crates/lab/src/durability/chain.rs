//! A Markov chain in continuous time that ends in loss, solved without a subtraction.
//!
//! Rates of an array differ by twenty orders of magnitude. A textbook elimination would compute
//! the rate to loss as the difference of two nearly equal numbers. Here states are eliminated one
//! by one, as Grassmann, Taksar and Heyman (1985) do for stationary distributions. A diagonal is
//! never stored: it is the sum of the rates out of its state. Every operation adds, multiplies or
//! divides numbers that are not negative, so each result has nearly all its digits, however rare
//! the loss.

/// States 0, 1, ..., of which 0 is the start, and two ways to end.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    /// Rate from a state to another; the diagonal is not used.
    rates: Vec<Vec<f64>>,
    /// Rates to loss, by cause.
    losses: Vec<[f64; 2]>,
}

impl Chain {
    /// Returns a chain of `states` states without transitions.
    pub fn new(states: usize) -> Chain {
        Chain { rates: vec![vec![0.0; states]; states], losses: vec![[0.0; 2]; states] }
    }

    /// Adds a transition. One from a state to itself changes nothing.
    pub fn add(&mut self, from: usize, to: usize, rate: f64) {
        self.rates[from][to] += rate;
    }

    /// Adds a transition to loss, by cause 0 or 1.
    pub fn lose(&mut self, from: usize, cause: usize, rate: f64) {
        self.losses[from][cause] += rate;
    }

    /// Returns the mean time from state 0 to loss, and the share of the losses by cause 1.
    ///
    /// The time is infinite if no loss can be reached.
    /// Cost: states^3.
    pub fn mean_time(&self) -> (f64, f64) {
        let (mut rates, mut losses) = (self.rates.clone(), self.losses.clone());
        // Cost of one visit of a state, including the visits of eliminated states that follow it.
        let mut visit = vec![1.0; rates.len()];
        for gone in (1..rates.len()).rev() {
            // The last remaining state, and the rates from it.
            let (Some(row), Some(lost)) = (rates.pop(), losses.pop()) else { break };
            let out = row[..gone].iter().sum::<f64>() + lost.iter().sum::<f64>();
            if out == 0.0 {
                continue;
            }
            for (from, others) in rates.iter_mut().enumerate() {
                let share = others[gone] / out;
                if share == 0.0 {
                    continue;
                }
                for (to, (rate, through)) in others.iter_mut().zip(&row[..gone]).enumerate() {
                    // A return to the same state is no transition.
                    if to != from {
                        *rate += share * through;
                    }
                }
                losses[from].iter_mut().zip(lost).for_each(|(rate, through)| *rate += share * through);
                visit[from] += share * visit[gone];
            }
        }
        let Some(&[columns, sectors]) = losses.first() else { return (f64::INFINITY, 0.0) };
        let loss = columns + sectors;
        (visit[0] / loss, if loss > 0.0 { sectors / loss } else { 0.0 })
    }

    /// Returns the probability of a loss within the time.
    ///
    /// The time is halved until a step is short. The step is a sum of powers of a matrix of
    /// probabilities, and is squared again as often: sums and products of numbers that are not
    /// negative. A chain so quick that this takes more than 2^26 steps has long forgotten its
    /// start, and its loss comes like a Poisson event.
    pub fn loss_within(&self, time: f64) -> f64 {
        const HALVINGS_MOST: f64 = 26.0;
        let states = self.rates.len();
        let out = |s: usize| {
            let others = self.rates[s].iter().enumerate().filter(|(to, _)| *to != s);
            others.map(|(_, rate)| rate).sum::<f64>() + self.losses[s].iter().sum::<f64>()
        };
        let quickest = (0..states).map(out).fold(0.0, f64::max);
        let halvings = (quickest * time / 0.5).log2().ceil().max(0.0);
        if quickest * time == 0.0 {
            return 0.0;
        }
        if halvings > HALVINGS_MOST {
            return -(-time / self.mean_time().0).exp_m1();
        }
        // Column `states` is the loss.
        let jumps: Vec<Vec<f64>> = (0..states)
            .map(|from| {
                let mut row: Vec<f64> = self.rates[from].iter().map(|rate| rate / quickest).collect();
                row[from] = (1.0 - out(from) / quickest).max(0.0);
                row.push(self.losses[from].iter().sum::<f64>() / quickest);
                row
            })
            .collect();
        let mean = quickest * time / halvings.exp2();
        let mut power: Vec<Vec<f64>> =
            (0..states).map(|s| (0..=states).map(|to| if to == s { 1.0 } else { 0.0 }).collect()).collect();
        let mut weight = (-mean).exp();
        let mut step: Vec<Vec<f64>> =
            power.iter().map(|row| row.iter().map(|x| x * weight).collect()).collect();
        // Entries far from the diagonal need as many jumps as there are states between.
        for jump in 1..states + 24 {
            power = product(&power, &jumps);
            weight *= mean / jump as f64;
            for (sums, row) in step.iter_mut().zip(&power) {
                sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += weight * x);
            }
        }
        for _ in 0..halvings as u32 {
            step.iter_mut().for_each(|row| to_one(row));
            step = product(&step, &step);
        }
        step[0][states]
    }
}

/// Returns the probabilities of one step after another; losses are final.
fn product(first: &[Vec<f64>], second: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let states = first.len();
    let row = |from: &Vec<f64>| {
        let mut sum = vec![0.0; states + 1];
        sum[states] = from[states];
        for (&share, to) in from.iter().zip(second).filter(|(share, _)| **share > 0.0) {
            sum.iter_mut().zip(to).for_each(|(sum, x)| *sum += share * x);
        }
        sum
    };
    first.iter().map(row).collect()
}

/// Scales a row to the sum 1, so that rounding does not grow with each squaring.
fn to_one(row: &mut [f64]) {
    let Some((loss, rest)) = row.split_last_mut() else { return };
    let sum: f64 = rest.iter().sum();
    if sum > 0.0 {
        let scale = (1.0 - *loss).max(0.0) / sum;
        rest.iter_mut().for_each(|x| *x *= scale);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns failures at n - f times lambda, repairs one at a time at mu, loss beyond the
    /// tolerance.
    fn one_by_one(disks: usize, tolerance: usize, lambda: f64, mu: f64) -> Chain {
        let mut chain = Chain::new(tolerance + 1);
        for lost in 0..=tolerance {
            let rate = (disks - lost) as f64 * lambda;
            match lost < tolerance {
                true => chain.add(lost, lost + 1, rate),
                false => chain.lose(lost, 0, rate),
            }
            if lost > 0 {
                chain.add(lost, lost - 1, mu);
            }
        }
        chain
    }

    fn close(ours: f64, theirs: f64, share: f64, what: &str) {
        assert!((ours / theirs - 1.0).abs() < share, "{what}: {ours:e}, not {theirs:e}");
    }

    const RATES: [(f64, f64); 5] = [(1e-6, 0.04), (1e-3, 1.0), (0.3, 0.2), (1e-12, 1e8), (1e-17, 1e6)];

    #[test]
    fn raid5_has_its_closed_form() {
        for (lambda, mu) in RATES {
            for n in [2, 5, 20] {
                let (mean, _) = one_by_one(n, 1, lambda, mu).mean_time();
                let m = n as f64;
                let exact = ((2.0 * m - 1.0) * lambda + mu) / (m * (m - 1.0) * lambda * lambda);
                close(mean, exact, 1e-13, "two states");
                if mu / lambda > 1e6 {
                    close(mean, mu / (m * (m - 1.0) * lambda.powi(2)), 1e-4, "Patterson, Gibson, Katz");
                }
            }
        }
    }

    #[test]
    fn raid6_and_replicas_have_their_closed_forms() {
        for (lambda, mu) in RATES {
            for n in [3, 6, 30] {
                let (mean, _) = one_by_one(n, 2, lambda, mu).mean_time();
                let m = n as f64;
                let (a, b, c) = (m * lambda, (m - 1.0) * lambda, (m - 2.0) * lambda);
                // Each sum is the time from one state to the next, first passages included.
                let exact = 1.0 / a + (1.0 + mu / a) / b + (1.0 + mu / b + mu * mu / (a * b)) / c;
                close(mean, exact, 1e-13, "three states");
                if mu / lambda > 1e6 {
                    let form = mu * mu / (m * (m - 1.0) * (m - 2.0) * lambda.powi(3));
                    close(mean, form, 1e-4, "RAID-6");
                }
            }
            // Two copies: 3 lambda + mu over 2 lambda^2. Three: mu^2 over 6 lambda^3 where repair
            // is quick.
            let (two, _) = one_by_one(2, 1, lambda, mu).mean_time();
            close(two, (3.0 * lambda + mu) / (2.0 * lambda * lambda), 1e-13, "two copies");
            if mu / lambda > 1e6 {
                let (three, _) = one_by_one(3, 2, lambda, mu).mean_time();
                close(three, mu * mu / (6.0 * lambda.powi(3)), 1e-4, "three copies");
            }
        }
    }

    #[test]
    fn the_share_of_a_cause_and_no_loss_at_all() {
        let mut chain = one_by_one(4, 1, 1e-9, 1.0);
        chain.lose(1, 1, 9e-9);
        let (_, share) = chain.mean_time();
        close(share, 0.75, 1e-13, "9 of 12");
        let mut endless = Chain::new(2);
        endless.add(0, 1, 1.0);
        endless.add(1, 0, 1.0);
        assert_eq!(endless.mean_time().0, f64::INFINITY);
        assert_eq!(endless.loss_within(1e3), 0.0);
    }

    #[test]
    fn loss_within_a_time_is_that_of_the_equation() {
        // No repair: the smallest of n exponentials, and the second smallest.
        for (rate, time) in [(1e-3, 7.0), (0.4, 3.0), (1e-12, 1.0), (2.0, 100.0)] {
            let x = rate * time;
            let one = one_by_one(4, 0, rate, 0.0).loss_within(time);
            close(one, -(-4.0 * x).exp_m1(), 1e-12, "first of four");
            let second = one_by_one(2, 1, rate, 0.0).loss_within(time);
            close(second, (-(-x).exp_m1()).powi(2), 1e-10, "both of two");
        }
        // With repair: the two-state equation solved by its eigenvalues, where that loses no
        // digits.
        let (l, mu, n, t) = (0.02f64, 0.5, 5.0, 10.0);
        let (a, b) = (n * l, (n - 1.0) * l);
        let (sum, root) = (a + b + mu, ((a + b + mu).powi(2) - 4.0 * a * b).sqrt());
        let (s, r) = ((-sum + root) / 2.0, (-sum - root) / 2.0);
        let alive = (s * (r * t).exp() - r * (s * t).exp()) / (s - r);
        close(one_by_one(5, 1, l, mu).loss_within(t), 1.0 - alive, 1e-11, "RAID-5");
    }

    #[test]
    fn no_digit_is_lost_at_a_loss_of_ten_to_the_minus_forty() {
        let (lambda, mu, year) = (5e-8, 1e3, 8766.0);
        let chain = one_by_one(8, 4, lambda, mu);
        let (mean, _) = chain.mean_time();
        let within = chain.loss_within(year);
        assert!(within < 1e-40, "{within:e}");
        // The first loss cannot come before some repairs could have ended: a ten-millionth of the
        // time is missing.
        close(within, year / mean, 1e-6, "a year");
        let (mean, _) = one_by_one(8, 4, lambda, 1e-2).mean_time();
        let within = one_by_one(8, 4, lambda, 1e-2).loss_within(year);
        let missing = 1.0 - within * mean / year;
        // The last step waits for four holding times of about 1 / mu each, less those that a repair
        // cuts short.
        assert!((0.01..0.06).contains(&missing), "{missing}");
    }
}
