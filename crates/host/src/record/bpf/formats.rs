//! How the programs lay out their records, and the texts that tell readers.
//!
//! The records are those of tracefs with fixed fields: what reads pages of tracefs reads these.
//! Worked example: a `sched_wakeup` has 36 bytes, `common_type` 3 (2 bytes), `common_flags` (1), a
//! free one, `common_pid` (4), `comm` (16), `pid`, `prio` and `target_cpu` (4 each).

use schedcast_trace::Tracepoint;

/// Bytes of a task's name, `TASK_COMM_LEN`.
pub(super) const NAME_BYTES: usize = 16;
/// Room for the path of an executed file; a longer one is cut.
pub(super) const PATH_BYTES: usize = 64;
/// In front of each record on its way from the kernel.
pub(super) const TIME_BYTES: usize = 8;

/// Places of fields, counted from the time in front of the record.
pub(super) mod at {
    const fn behind_time(offset: usize) -> i16 {
        (super::TIME_BYTES + offset) as i16
    }
    /// `common_type`; `common_flags` is the byte after next.
    pub(crate) const TYPE: i16 = behind_time(0);
    pub(crate) const COMMON_PID: i16 = behind_time(4);
    pub(crate) const COMM: i16 = behind_time(8);
    pub(crate) const PID: i16 = behind_time(24);
    pub(crate) const PRIO: i16 = behind_time(28);
    /// `target_cpu` of a wakeup, `orig_cpu` of a migration.
    pub(crate) const CPU: i16 = behind_time(32);
    pub(crate) const DEST_CPU: i16 = behind_time(36);
    pub(crate) const PREV_STATE: i16 = behind_time(32);
    pub(crate) const NEXT_COMM: i16 = behind_time(40);
    pub(crate) const NEXT_PID: i16 = behind_time(56);
    pub(crate) const NEXT_PRIO: i16 = behind_time(60);
    pub(crate) const CHILD_PID: i16 = behind_time(28);
    pub(crate) const CHILD_COMM: i16 = behind_time(32);
    pub(crate) const RUNTIME: i16 = behind_time(32);
    pub(crate) const PATH: i16 = behind_time(8);
    pub(crate) const EXEC_PID: i16 = behind_time(72);
    pub(crate) const OLD_PID: i16 = behind_time(76);
}

/// A field: its declaration in C, where it stands and how long it is.
pub(super) type Field = (&'static str, i16, usize);

/// How the record of an event is laid out.
pub(super) trait Layout {
    /// `common_type`
    fn number(self) -> u16;
    /// The tracepoint is within a lock that is taken with interrupts off, a run queue's or a
    /// task's.
    fn has_irqs_off(self) -> bool;
    /// The fields behind the common ones.
    fn fields(self) -> &'static [Field];
    /// Length of the record, without the time.
    fn bytes(self) -> usize;
    /// The text that tells readers of pages, as tracefs has it in `events/sched/NAME/format`.
    fn format(self) -> String;
}

impl Layout for Tracepoint {
    fn number(self) -> u16 {
        self as u16 + 1
    }

    fn has_irqs_off(self) -> bool {
        !matches!(self, Tracepoint::Fork | Tracepoint::Exec | Tracepoint::Exit)
    }

    fn fields(self) -> &'static [Field] {
        const COMM: Field = ("char comm[16]", at::COMM, NAME_BYTES);
        const PID: Field = ("pid_t pid", at::PID, 4);
        const PRIO: Field = ("int prio", at::PRIO, 4);
        match self {
            Tracepoint::Switch => &[
                ("char prev_comm[16]", at::COMM, NAME_BYTES),
                ("pid_t prev_pid", at::PID, 4),
                ("int prev_prio", at::PRIO, 4),
                ("long prev_state", at::PREV_STATE, 8),
                ("char next_comm[16]", at::NEXT_COMM, NAME_BYTES),
                ("pid_t next_pid", at::NEXT_PID, 4),
                ("int next_prio", at::NEXT_PRIO, 4),
            ],
            Tracepoint::Waking | Tracepoint::Wakeup | Tracepoint::WakeupNew => {
                &[COMM, PID, PRIO, ("int target_cpu", at::CPU, 4)]
            }
            Tracepoint::Migrate => &[
                COMM,
                PID,
                PRIO,
                ("int orig_cpu", at::CPU, 4),
                ("int dest_cpu", at::DEST_CPU, 4),
            ],
            Tracepoint::Fork => &[
                ("char parent_comm[16]", at::COMM, NAME_BYTES),
                ("pid_t parent_pid", at::PID, 4),
                ("pid_t child_pid", at::CHILD_PID, 4),
                ("char child_comm[16]", at::CHILD_COMM, NAME_BYTES),
            ],
            Tracepoint::Exec => &[
                ("char filename[64]", at::PATH, PATH_BYTES),
                ("pid_t pid", at::EXEC_PID, 4),
                ("pid_t old_pid", at::OLD_PID, 4),
            ],
            Tracepoint::Exit => &[COMM, PID, PRIO],
            Tracepoint::Runtime => &[COMM, PID, ("u64 runtime", at::RUNTIME, 8)],
        }
    }

    fn bytes(self) -> usize {
        let ends = self
            .fields()
            .iter()
            .map(|(_, at, bytes)| *at as usize + bytes);
        ends.max().unwrap_or(TIME_BYTES) - TIME_BYTES
    }

    fn format(self) -> String {
        let common: [Field; 3] = [
            ("unsigned short common_type", at::TYPE, 2),
            ("unsigned char common_flags", at::TYPE + 2, 1),
            ("int common_pid", at::COMMON_PID, 4),
        ];
        let mut text = format!("name: {}\nID: {}\nformat:\n", self.name(), self.number());
        for (declaration, at, bytes) in common.iter().chain(self.fields()) {
            let offset = *at as usize - TIME_BYTES;
            let is_signed = u8::from(["int", "pid_t", "long"].iter().any(|kind| {
                declaration
                    .strip_prefix(kind)
                    .is_some_and(|rest| rest.starts_with(' '))
            }));
            text += &format!(
                "\tfield:{declaration};\toffset:{offset};\tsize:{bytes};\tsigned:{is_signed};\n"
            );
        }
        if self == Tracepoint::Switch {
            text += PREV_STATE;
        }
        text
    }
}

/// The letters of states, which the kernel has had like this since 4.14.
const PREV_STATE: &str = "\nprint fmt: \"prev_state=%s%s\", __print_flags(REC->prev_state & 0xff, \"|\", \
    { 0x01, \"S\" }, { 0x02, \"D\" }, { 0x04, \"T\" }, { 0x08, \"t\" }, { 0x10, \"X\" }, { 0x20, \"Z\" }, { 0x40, \"P\" }, \
    { 0x80, \"I\" }), REC->prev_state & 0x100 ? \"+\" : \"\"\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_the_lengths_of_their_last_fields() {
        let lengths = Tracepoint::ALL.map(Tracepoint::bytes);
        assert_eq!(lengths, [64, 36, 36, 36, 40, 48, 80, 32, 40]);
    }

    #[test]
    fn a_format_says_what_the_kernel_would() {
        let text = Tracepoint::Wakeup.format();
        let expected = "name: sched_wakeup\nID: 3\nformat:\n\
            \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
            \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
            \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
            \tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
            \tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n\
            \tfield:int prio;\toffset:28;\tsize:4;\tsigned:1;\n\
            \tfield:int target_cpu;\toffset:32;\tsize:4;\tsigned:1;\n";
        assert_eq!(text, expected);
    }
}
