//! The letters of `prev_state`, which every kernel numbers in its own way and spells out in the
//! event's format.
//!
//! The format ends in a table such as `{ 0x01, "S" }, { 0x02, "D" }, … { 0x80, "I" }`. Bits that
//! are in no entry are not shown, except the next one above all entries: it means "preempted" and
//! prints as `+`.
//!
//! Worked example. Entries up to 0x80 have the bits 0xff, so 0x100 is "preempted": 0x00 is `R`,
//! 0x100 is `R+`, 0x02 is `D`. Linux 4.13 has entries up to 0x400 and prints 0x402 as `D|N`;
//! "preempted" is 0x800 there.

use crate::event::PrevState;

/// The meaning of every value of `prev_state`, by number.
#[derive(Clone, Debug)]
pub(super) struct States {
    by_value: Vec<Option<PrevState>>,
}

/// More bits than any kernel has had.
const BITS_MAX: u64 = 1 << 14;

impl States {
    /// Reads the table in an event's `print fmt`; `None` if it has none, or none that makes sense.
    pub(super) fn parse(print: &str) -> Option<States> {
        let from = print.find("prev_state")?;
        let table = &print[from..];
        let table = &table[table.find("__print_flags(")?..];
        let mut entries = Vec::new();
        let mut rest = table;
        while let Some((before, after)) = rest.split_once('{') {
            if !entries.is_empty() && before.contains(')') {
                break;
            }
            let (entry, behind) = after.split_once('}')?;
            let (bit, letter) = entry.split_once(',')?;
            entries.push((number(bit.trim())?, letter.trim().trim_matches('"')));
            rest = behind;
        }
        States::new(&entries)
    }

    fn new(entries: &[(u64, &str)]) -> Option<States> {
        let mask = entries.iter().fold(0, |mask, (bit, _)| mask | bit);
        if mask == 0 || mask >= BITS_MAX {
            return None;
        }
        let preempted = mask + 1;
        if !preempted.is_power_of_two() {
            return None;
        }
        let by_value = (0..preempted * 2).map(|value| {
            let letters: Vec<&str> = entries
                .iter()
                .filter(|(bit, _)| value & bit != 0)
                .map(|(_, letter)| *letter)
                .collect();
            let mut text = if letters.is_empty() {
                "R".to_owned()
            } else {
                letters.join("|")
            };
            if value & preempted != 0 {
                text.push('+');
            }
            PrevState::from_text(text.as_bytes())
        });
        Some(States {
            by_value: by_value.collect(),
        })
    }

    /// The state that the kernel would print for these bits.
    pub(super) fn decode(&self, bits: u64) -> Option<PrevState> {
        let shown = bits & (self.by_value.len() as u64 - 1);
        self.by_value[shown as usize]
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_a_recent_kernel() {
        let print = r#" "prev_state=%s%s ==>", (REC->prev_state & ((((0 | 0x01) + 1) << 1) - 1)) ? __print_flags(REC->prev_state & ((((0x0 | 0x40) + 1) << 1) - 1), "|", { 0x01, "S" }, { 0x02, "D" }, { 0x04, "T" }, { 0x08, "t" }, { 0x10, "X" }, { 0x20, "Z" }, { 0x40, "P" }, { 0x80, "I" }) : "R", REC->prev_state & 0x100 ? "+" : "", REC->next_comm { 0x1000, "?" }"#;
        let states = States::parse(print).unwrap();
        for bits in 0..512 {
            // Several bits at once join as in old kernels; the first one counts.
            assert_eq!(states.decode(bits), PrevState::from_bits(bits), "{bits}");
        }
        assert_eq!(states.decode(0x402), Some(PrevState::Uninterruptible));
    }

    #[test]
    fn the_table_of_an_old_kernel() {
        let print = r#""prev_state=%s%s", REC->prev_state & (2048-1) ? __print_flags(REC->prev_state & (2048-1), "|", { 1, "S"} , { 2, "D" }, { 4, "T" }, { 8, "t" }, { 16, "Z" }, { 32, "X" }, { 64, "x" }, { 128, "K" }, { 256, "W" }, { 512, "P" }, { 1024, "N" }) : "R", REC->prev_state & 2048 ? "+" : """#;
        let states = States::parse(print).unwrap();
        assert_eq!(states.decode(0), Some(PrevState::Running));
        assert_eq!(states.decode(2048), Some(PrevState::Preempted));
        assert_eq!(states.decode(16), Some(PrevState::Zombie));
        assert_eq!(states.decode(2 + 128), Some(PrevState::Uninterruptible));
        assert_eq!(states.decode(2 + 1024), Some(PrevState::Idle));
    }

    #[test]
    fn nonsense_is_no_table() {
        for print in [
            "prev_state",
            "prev_state __print_flags(x)",
            "prev_state __print_flags(x, { 1, \"S\" }, { 4, \"T\" })",
            "prev_state __print_flags(x, { 99999999999, \"S\" })",
            "prev_state __print_flags(x, { 1",
        ] {
            assert!(States::parse(print).is_none(), "{print}");
        }
    }
}
