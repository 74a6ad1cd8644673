//! Cache lines that many CPUs write: each is a serial resource.
//!
//! A CPU that writes needs the line for itself, one that reads needs a copy. Getting it from where
//! it is takes a transfer time that depends on the distance, and while the line is on its way no
//! other CPU gets it. Worked example, 50 ns between cores: CPUs 0, 1 and 2 add to a counter at the
//! same time; the line is with CPU 0. CPU 0 has it at once, CPU 1 after 50 ns, CPU 2 has to wait
//! for CPU 1's transfer and has it after 100 ns. However many CPUs ask, 20 million additions per
//! second is all there is.

use crate::machine::Machine;
use crate::machine::parts::Lines;
use schedcast_kernel::cpuset::CpuSet;
use schedcast_kernel::platform::{Access, Line};
use schedcast_kernel::table::Table;
use schedcast_kernel::topology::CpuPlace;
use schedcast_kernel::{Cpu, Ns};

schedcast_base::named! {
    /// Kinds of lines, with their names in `machine/overhead.line.*` metrics.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum LineKind {
        /// `tg->load_avg` of the groups.
        TgLoadAvg = "tg_load_avg",
        /// Locks of run queues.
        RqLock = "rq_lock",
        /// Idle hints of last level caches.
        LlcIdleHints = "llc_idle_hints",
        /// Words that tasks add to.
        Word = "word",
    }
}

impl LineKind {
    /// The kind of a line.
    #[inline(always)]
    pub const fn of(line: Line) -> Self {
        match line {
            Line::GroupLoadAvg(_) => LineKind::TgLoadAvg,
            Line::RqLock(_) => LineKind::RqLock,
            Line::LlcIdleHints(_) => LineKind::LlcIdleHints,
            Line::Word(_) => LineKind::Word,
        }
    }
}

/// Statistics of the time that reads of lines of one kind, or writes to them, took.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LineStatistics {
    /// Accesses.
    pub touches: u64,
    /// Accesses for which the line had to come from elsewhere.
    pub transfers: u64,
    /// Time CPUs spent on them, waiting included.
    pub spent_ns: Ns,
    /// Time they waited for others' transfers.
    pub waited_ns: Ns,
}

/// One line.
#[derive(Clone, Debug, Default)]
struct LineState {
    /// CPU that wrote last, where the line comes from.
    owner: Option<u32>,
    /// CPUs with a valid copy.
    holders: CpuSet,
    /// True if no CPU but the owner has a copy.
    exclusive: bool,
    /// When the last transfer is over.
    free_ns: Ns,
    /// Accesses under way.
    pending: u32,
}

impl LineState {
    #[inline(always)]
    fn is_hit(&self, cpu: Cpu, access: Access) -> bool {
        match access {
            Access::Read => self.holders.contains(cpu),
            Access::Write => self.exclusive && self.owner == Some(cpu.0),
        }
    }
}

/// All lines that are modelled.
#[derive(Clone, Debug)]
pub(crate) struct LineTable {
    part: Lines,
    places: Table<CpuPlace>,
    /// Kinds that are modelled, as in [`LineKind::ALL`].
    modelled: [bool; 4],
    /// Locks of all CPUs, hints of all CPUs, then groups and words in turn as they are met.
    states: Table<LineState>,
    /// By kind, as in [`LineKind::ALL`]; reads, then writes.
    pub statistics: [[LineStatistics; 2]; 4],
}

impl LineTable {
    pub(crate) fn new(machine: &Machine) -> Option<Self> {
        let part = machine.lines.clone()?;
        let places: Table<CpuPlace> = machine.topology.places.clone().into();
        Some(Self {
            modelled: [
                part.tg_load_avg,
                part.rq_lock,
                part.llc_idle_hints,
                part.words,
            ],
            states: vec![LineState::default(); 2 * places.len()].into(),
            statistics: Default::default(),
            part,
            places,
        })
    }

    /// Row of a line in `states`.
    #[inline(always)]
    fn row(&self, line: Line) -> usize {
        match line {
            Line::RqLock(cpu) => cpu.index(),
            Line::LlcIdleHints(cpu) => self.places.len() + cpu.index(),
            Line::GroupLoadAvg(group) => 2 * (self.places.len() + group.index()),
            Line::Word(number) => 2 * (self.places.len() + number as usize) + 1,
        }
    }

    #[cold]
    fn add_rows(&mut self, row: usize) {
        self.states.grow(row + 1, LineState::default());
    }

    /// An operation will want a line in its course. `true` when it has to ask for it at its time;
    /// `false` when it costs nothing: the line is not modelled, or at hand and no other access is
    /// under way to it.
    #[inline]
    pub(crate) fn expect(&mut self, cpu: Cpu, line: Line, access: Access) -> bool {
        let kind = LineKind::of(line) as usize;
        if !self.modelled[kind] {
            return false;
        }
        let row = self.row(line);
        if row >= self.states.len() {
            self.add_rows(row);
        }
        let state = &mut self.states[row];
        if state.pending == 0 && state.is_hit(cpu, access) {
            self.statistics[kind][access as usize].touches += 1;
            return false;
        }
        state.pending += 1;
        true
    }

    /// A line is asked for at `at`; all requests come in the order of time. Returns when the CPU
    /// has it.
    pub(crate) fn grant(&mut self, cpu: Cpu, line: Line, access: Access, at: Ns) -> Ns {
        let row = self.row(line);
        let statistics = &mut self.statistics[LineKind::of(line) as usize][access as usize];
        statistics.touches += 1;
        let state = &mut self.states[row];
        state.pending -= 1;
        if state.is_hit(cpu, access) {
            return at;
        }
        let transfer_ns = transfer_ns(&self.part, &self.places, state.owner, cpu);
        let begin = at.max(state.free_ns);
        let granted = begin + transfer_ns;
        statistics.transfers += 1;
        statistics.waited_ns += begin - at;
        statistics.spent_ns += granted - at;
        // The first reader after a write takes the line out of the writer's cache; from then on
        // there are copies.
        let service_percent = Ns::from(match access {
            Access::Read if !state.exclusive => self.part.read_service_percent,
            _ => self.part.write_service_percent,
        });
        state.free_ns = begin + transfer_ns * service_percent / 100;
        match access {
            Access::Read => state.exclusive = false,
            Access::Write => {
                state.owner = Some(cpu.0);
                state.exclusive = true;
                state.holders = CpuSet::EMPTY;
            }
        }
        state.holders.insert(cpu);
        granted
    }
}

/// From where the line is; the first time, from a last level cache.
fn transfer_ns(part: &Lines, places: &Table<CpuPlace>, owner: Option<u32>, cpu: Cpu) -> Ns {
    let Some(owner) = owner else {
        return part.same_llc_transfer_ns;
    };
    let (from, to) = (&places[owner as usize], &places[cpu]);
    if from.core == to.core {
        part.same_core_transfer_ns
    } else if from.llc == to.llc {
        part.same_llc_transfer_ns
    } else if from.node == to.node {
        part.other_llc_transfer_ns
    } else {
        part.other_node_transfer_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedcast_kernel::GroupId;
    use schedcast_kernel::topology::Topology;

    const LINE: Line = Line::GroupLoadAvg(GroupId(1));

    fn table(read_service_percent: u32) -> LineTable {
        let mut machine = Machine::preset("generic-8").unwrap();
        machine = machine.with_topology(Topology::regular(2, 1, 2, 2));
        machine.lines = Some(Lines {
            same_core_transfer_ns: 10,
            same_llc_transfer_ns: 50,
            other_llc_transfer_ns: 80,
            other_node_transfer_ns: 120,
            read_service_percent,
            write_service_percent: 100,
            tg_load_avg: true,
            rq_lock: false,
            llc_idle_hints: false,
            words: true,
        });
        LineTable::new(&machine).unwrap()
    }

    fn touch(table: &mut LineTable, cpu: u32, access: Access, at: Ns) -> Ns {
        if table.expect(Cpu(cpu), LINE, access) {
            table.grant(Cpu(cpu), LINE, access, at)
        } else {
            at
        }
    }

    #[test]
    fn worked_example_of_the_module_docs() {
        let mut table = table(100);
        touch(&mut table, 0, Access::Write, 0);
        let at = 1000;
        assert_eq!(touch(&mut table, 0, Access::Write, at), 1000);
        assert_eq!(touch(&mut table, 1, Access::Write, at), 1050);
        // CPU 5 is the sibling of CPU 1: it waits for its transfer, then 10 ns more.
        assert_eq!(touch(&mut table, 5, Access::Write, at), 1060);
        assert_eq!(touch(&mut table, 2, Access::Write, at), 1180);
    }

    #[test]
    fn a_read_after_a_write_costs_a_transfer_further_ones_nothing() {
        let mut table = table(100);
        touch(&mut table, 0, Access::Write, 0);
        assert_eq!(touch(&mut table, 1, Access::Read, 1000), 1050);
        assert_eq!(touch(&mut table, 1, Access::Read, 2000), 2000);
        // The writer's copy stays valid, but it has to take it back to write.
        assert_eq!(touch(&mut table, 0, Access::Read, 3000), 3000);
        assert_eq!(touch(&mut table, 0, Access::Write, 4000), 4010);
        assert_eq!(touch(&mut table, 1, Access::Read, 5000), 5050);
        let [reads, writes] = table.statistics[LineKind::TgLoadAvg as usize];
        assert_eq!((reads.touches, reads.transfers), (4, 2));
        assert_eq!((writes.touches, writes.transfers), (2, 2));
    }

    #[test]
    fn further_reads_may_overlap() {
        let mut table = table(20);
        touch(&mut table, 0, Access::Write, 0);
        assert_eq!(touch(&mut table, 1, Access::Read, 1000), 1050);
        // The first read took the line from its writer; the second keeps it for 10 of 50 ns.
        assert_eq!(touch(&mut table, 5, Access::Read, 1000), 1100);
        assert_eq!(touch(&mut table, 4, Access::Write, 1000), 1070);
    }

    #[test]
    fn words_are_lines_of_their_own() {
        let mut table = table(100);
        let add = |table: &mut LineTable, cpu: u32, word: u32| {
            let (cpu, line) = (Cpu(cpu), Line::Word(word));
            match table.expect(cpu, line, Access::Write) {
                true => table.grant(cpu, line, Access::Write, 1000),
                false => 1000,
            }
        };
        assert_eq!(add(&mut table, 0, 3), 1050);
        assert_eq!(add(&mut table, 1, 3), 1100);
        assert_eq!(add(&mut table, 1, 0), 1050);
        assert_eq!(add(&mut table, 1, 3), 1000);
    }

    #[test]
    fn n_cpus_get_one_transfer_after_the_other() {
        let mut table = table(100);
        touch(&mut table, 0, Access::Write, 0);
        // All at once on one socket and the other in turn: 120 ns each.
        let ends: Vec<Ns> = [2, 1, 3, 0]
            .map(|cpu| touch(&mut table, cpu, Access::Write, 1000))
            .to_vec();
        assert_eq!(ends, [1120, 1240, 1360, 1480]);
        let [_, writes] = table.statistics[LineKind::TgLoadAvg as usize];
        assert_eq!(writes.waited_ns, 120 + 240 + 360);
    }

    #[test]
    fn lines_that_are_not_modelled_cost_nothing() {
        let mut table = table(100);
        assert!(!table.expect(Cpu(1), Line::RqLock(Cpu(0)), Access::Write));
    }
}
