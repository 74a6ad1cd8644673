//! How late the timer interrupts of a CPU are.
//!
//! Worked example: `late_quantiles_ns = [7000, 9000, 32000]`, `late_kept_percent = 80`: half of all
//! interrupts are 7 to 9 µs late, half 9 to 32, and four out of five exactly as late as the one
//! before.

use crate::machine::parts::TimerInterrupt;
use crate::program::interpolate;
use crate::random::{self, Stream};
use schedcast_kernel::Ns;

/// State of a CPU from which the lateness of its next interrupt is drawn.
#[derive(Clone, Debug)]
pub(crate) struct Lateness {
    stream: Stream,
    before_ns: Option<Ns>,
}

impl Lateness {
    /// Before the first interrupt.
    pub(crate) fn new(stream: Stream) -> Self {
        Self {
            stream,
            before_ns: None,
        }
    }

    /// Lateness of the next interrupt.
    pub(crate) fn next_ns(&mut self, part: &TimerInterrupt) -> Ns {
        let die = (u128::from(random::draw(&mut self.stream)) * 100) >> 64;
        match self.before_ns {
            Some(before_ns) if die < u128::from(part.late_kept_percent) => before_ns,
            _ => {
                let uniform = random::draw(&mut self.stream);
                let late_ns = interpolate(&part.late_quantiles_ns, uniform);
                self.before_ns = Some(late_ns);
                late_ns
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_example_of_the_module_docs() {
        let part = TimerInterrupt {
            late_quantiles_ns: vec![7000, 9000, 32_000],
            late_kept_percent: 80,
        };
        let mut lateness = Lateness::new(random::stream(1, 2, 3));
        let drawn: Vec<Ns> = (0..10_000).map(|_| lateness.next_ns(&part)).collect();
        assert!(drawn.iter().all(|ns| (7000..=32_000).contains(ns)));
        let early = drawn.iter().filter(|ns| **ns < 9000).count();
        assert!(early.abs_diff(5000) < 400, "{early}");
        let kept = drawn.windows(2).filter(|pair| pair[0] == pair[1]).count();
        assert!(kept.abs_diff(8000) < 200, "{kept}");
    }
}
