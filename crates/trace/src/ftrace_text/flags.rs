//! The flag columns between CPU and time.
//!
//! Their number depends on kernel and configuration, so `d.s2` and `d.s2.` and `d..s2..` say the
//! same:
//!
//! | columns | kernel | order |
//! |---|---|---|
//! | 4 | older | irqs-off, need-resched, hardirq/softirq, preempt-depth |
//! | 5 | recent | the same, then migrate-disable |
//! | 5 | some PREEMPT_RT | irqs-off, need-resched, need-resched-lazy, hardirq/softirq, preempt-depth |
//! | 7, 8 | PREEMPT_RT | the same, then preempt-lazy-depth and migrate-disable |
//!
//! A trace read from tracefs draws the order above its first event (`_-----=> irqs-off` and so on);
//! [`Layout`] learns it from there. Text of trace-cmd has no such drawing. Then the third column
//! decides: an interrupt letter can only stand there without a lazy column, an `L` only with one;
//! if it is a dot, four and five columns have no lazy one.

use crate::event::{Context, Level};

/// Where the two columns stand whose place varies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    columns: usize,
    lazy: Option<usize>,
    interrupt: Option<usize>,
}

impl Layout {
    /// Learns from one comment line; lines that draw no flag column change nothing.
    pub(super) fn learn(&mut self, comment: &[u8]) {
        let Some(arrow) = memchr::memmem::find(comment, b"=> ") else {
            return;
        };
        let label = comment[arrow + 3..].trim_ascii();
        match label {
            b"irqs-off" | b"irqs-off/BH-disabled" => {
                *self = Layout {
                    columns: 1,
                    ..Layout::default()
                };
                return;
            }
            _ if self.columns == 0 => return,
            b"need-resched_lazy" | b"need-resched-lazy" => self.lazy = Some(self.columns),
            b"hardirq/softirq" => self.interrupt = Some(self.columns),
            b"need-resched" | b"preempt-depth" | b"preempt-lazy-depth" | b"migrate-disable" => {}
            _ => return,
        }
        self.columns += 1;
    }

    /// The places of the lazy and the interrupt column in these flags.
    fn places(&self, flags: &[u8]) -> (Option<usize>, usize) {
        if let (true, Some(interrupt)) = (self.columns == flags.len(), self.interrupt) {
            return (self.lazy, interrupt);
        }
        let lazy = match flags[2] {
            b'L' | b'l' => true,
            b's' | b'h' | b'H' | b'z' | b'Z' => false,
            _ => flags.len() > 5,
        };
        if lazy { (Some(2), 3) } else { (None, 2) }
    }

    /// Decodes the flags, or gives the offset of the first letter that has no meaning in its
    /// column.
    pub(super) fn decode(&self, flags: &[u8]) -> Result<Context, usize> {
        let (lazy, interrupt) = self.places(flags);
        let mut context = Context::TASK;
        match flags[0] {
            b'.' | b'X' => {} // X: the architecture cannot tell
            b'd' => context = context.with_irqs_off(),
            b'D' => context = context.with_irqs_off().with_bh_off(),
            b'b' => context = context.with_bh_off(),
            _ => return Err(0),
        }
        match flags[1] {
            b'.' | b'p' => {} // p: only the preemption count is folded, no reschedule
            b'N' | b'n' => context = context.with_need_resched(),
            b'B' | b'b' => context = context.with_need_resched().with_need_resched_lazy(),
            b'L' | b'l' => context = context.with_need_resched_lazy(),
            _ => return Err(1),
        }
        if let Some(lazy) = lazy {
            match flags[lazy] {
                b'.' => {}
                b'L' | b'l' => context = context.with_need_resched_lazy(),
                _ => return Err(lazy),
            }
        }
        match flags[interrupt] {
            b'.' => {}
            b's' => context = context.with_level(Level::SoftIrq),
            b'h' => context = context.with_level(Level::HardIrq),
            b'H' => {
                context = context
                    .with_level(Level::SoftIrq)
                    .with_level(Level::HardIrq)
            }
            b'z' => context = context.with_level(Level::Nmi),
            b'Z' => context = context.with_level(Level::HardIrq).with_level(Level::Nmi),
            _ => return Err(interrupt),
        }
        Ok(context)
    }
}

/// True if the word can be flags: four to eight columns, and no digit first, which tells them from
/// a time.
pub(super) fn looks_like_flags(word: &[u8]) -> bool {
    (4..=8).contains(&word.len())
        && !word[0].is_ascii_digit()
        && word
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || *byte == b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guessed(flags: &str) -> Context {
        Layout::default().decode(flags.as_bytes()).unwrap()
    }

    fn drawn(labels: &[&str]) -> Layout {
        let mut layout = Layout::default();
        for label in labels {
            layout.learn(format!("#      || / _--=> {label}   ").as_bytes());
        }
        layout
    }

    const RT: [&str; 7] = [
        "irqs-off",
        "need-resched",
        "need-resched_lazy",
        "hardirq/softirq",
        "preempt-depth",
        "preempt-lazy-depth",
        "migrate-disable",
    ];

    #[test]
    fn columns_four_to_eight() {
        let softirq = Context::TASK.with_irqs_off().with_level(Level::SoftIrq);
        for flags in ["d.s2", "d.s2.", "d.s21", "d..s2..", "d..s2...", "d..s2."] {
            assert_eq!(guessed(flags), softirq, "{flags}");
        }
        let reschedule = Context::TASK.with_need_resched().with_level(Level::HardIrq);
        for flags in [".Nh3", ".Nh3.", ".N.h3..", ".N.h3.1."] {
            assert_eq!(guessed(flags), reschedule, "{flags}");
        }
    }

    #[test]
    fn every_interrupt_letter() {
        let level = |flags| guessed(flags).level().unwrap();
        assert_eq!(level("d..2."), Level::Task);
        assert_eq!(level("d.s2."), Level::SoftIrq);
        assert_eq!(level("d.h2."), Level::HardIrq);
        assert_eq!(level("d.z2."), Level::Nmi);
        assert_eq!(level("d.Z2."), Level::Nmi);
        assert!(guessed("d.H2.").in_softirq());
        assert_eq!(level("d.H2."), Level::HardIrq);
    }

    #[test]
    fn every_reschedule_letter() {
        for (letter, now, lazy) in [
            ('.', false, false),
            ('p', false, false),
            ('N', true, false),
            ('n', true, false),
            ('B', true, true),
            ('b', true, true),
            ('L', false, true),
            ('l', false, true),
        ] {
            let context = guessed(&format!("d{letter}.2."));
            let found = (context.need_resched(), context.need_resched_lazy());
            assert_eq!(found, (now, lazy), "{letter}");
        }
    }

    #[test]
    fn interrupt_mask_letters() {
        assert!(guessed("d..1.").irqs_off() && !guessed("d..1.").bh_off());
        assert!(guessed("D..1.").irqs_off() && guessed("D..1.").bh_off());
        assert!(!guessed("b..1.").irqs_off() && guessed("b..1.").bh_off());
        assert_eq!(guessed("X..1."), Context::TASK);
    }

    #[test]
    fn the_drawing_decides_where_letters_cannot() {
        // Five columns of PREEMPT_RT look like five of mainline until an interrupt letter comes.
        let layout = drawn(&RT[..5]);
        let level = layout.decode(b"d..h1").unwrap().level();
        assert_eq!(level, Some(Level::HardIrq));
        let guessed = Layout::default().decode(b"d..h1");
        assert_eq!(guessed, Ok(Context::TASK.with_irqs_off()));
        let layout = drawn(&RT);
        let context = layout.decode(b".nLs1..").unwrap();
        assert!(context.need_resched() && context.need_resched_lazy() && context.in_softirq());
    }

    #[test]
    fn a_new_drawing_replaces_the_old_one() {
        let mut layout = drawn(&RT);
        let texts =
            "irqs-off/BH-disabled need-resched hardirq/softirq preempt-depth migrate-disable";
        for label in texts.split(' ') {
            layout.learn(format!("# _-=> {label}").as_bytes());
        }
        let level = |layout: &Layout| layout.decode(b"d.s2.").unwrap().level();
        assert_eq!(level(&layout), Some(Level::SoftIrq));
        layout.learn(b"#  => started at: sys_read");
        layout.learn(b"#   TASK-PID  CPU#");
        assert_eq!(level(&layout), Some(Level::SoftIrq));
    }

    #[test]
    fn a_letter_without_meaning_is_found() {
        assert_eq!(Layout::default().decode(b"q..2."), Err(0));
        assert_eq!(Layout::default().decode(b"dq.2."), Err(1));
        assert_eq!(Layout::default().decode(b"d.q2."), Err(2));
    }

    #[test]
    fn times_are_not_flags() {
        assert!(!looks_like_flags(b"5371.782"));
        assert!(!looks_like_flags(b"d.2"));
        assert!(!looks_like_flags(b"d........"));
        assert!(looks_like_flags(b"...."));
    }
}
