//! Lists of CPUs as the kernel and `taskset` write them.
//!
//! `0-3,8` names the CPUs 0, 1, 2, 3 and 8. A stride takes only some CPUs of a range: the kernel
//! writes `0-7:1/2` for the first of every two, 0, 2, 4 and 6, and `taskset` writes `0-7:2`.

use std::fmt;

/// CPUs that the list of a kernel may name: the largest `NR_CPUS` that distributions build with.
pub const NR_CPUS_MAX: u32 = 8192;

/// How a list writes the stride of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stride {
    /// `:used/group`, as in files of the kernel (`bitmap_parselist`), which allow blanks too.
    UsedOfGroup,
    /// `:step`, as in the words of util-linux (`cpulist_parse`), which allow no blanks.
    Step,
}

/// A set of CPU numbers, in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuList(Vec<u32>);

impl FromIterator<u32> for CpuList {
    fn from_iter<T: IntoIterator<Item = u32>>(cpus: T) -> Self {
        let mut cpus = Vec::from_iter(cpus);
        cpus.sort_unstable();
        cpus.dedup();
        CpuList(cpus)
    }
}

impl CpuList {
    /// Reads a list of CPUs below `count`. An empty list is refused.
    ///
    /// # Errors
    /// Description of the mistake in the text, to be completed with its place by the caller.
    ///
    /// ```
    /// use schedcast_base::cpu_list::{CpuList, Stride};
    /// let list = CpuList::parse("0-7:1/2,8", 512, Stride::UsedOfGroup)?;
    /// assert_eq!(list.cpus(), [0, 2, 4, 6, 8]);
    /// # Ok::<(), String>(())
    /// ```
    pub fn parse(text: &str, count: u32, stride: Stride) -> Result<CpuList, String> {
        let mut cpus = Vec::new();
        for part in text.split(',') {
            match stride {
                Stride::UsedOfGroup => push_range(part.trim(), count, stride, &mut cpus)?,
                Stride::Step => push_range(part, count, stride, &mut cpus)?,
            }
        }
        Ok(CpuList::from_iter(cpus))
    }

    /// The CPU numbers, ascending and without repetition.
    pub fn cpus(&self) -> &[u32] {
        &self.0
    }

    /// The largest CPU number.
    pub fn last(&self) -> Option<u32> {
        self.0.last().copied()
    }
}

fn push_range(part: &str, count: u32, stride: Stride, cpus: &mut Vec<u32>) -> Result<(), String> {
    let number = |digits: &str| -> Result<u32, String> {
        let parsed = match digits.starts_with('+') {
            true => None,
            false => digits.parse::<u32>().ok(),
        };
        parsed.ok_or_else(|| format!("`{part}` is not a CPU or a range such as 0-3"))
    };
    let cpu = |digits: &str| match number(digits)? {
        cpu if cpu < count => Ok(cpu),
        cpu => Err(format!("CPU {cpu} is beyond {}", count.saturating_sub(1))),
    };
    let (range, every) = match part.split_once(':') {
        Some((range, every)) => (range, Some(every)),
        None => (part, None),
    };
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let (first, last) = (cpu(first)?, cpu(last)?);
    if first > last {
        return Err(format!("the range `{range}` runs backwards"));
    }
    let (used, group) = match (every, stride) {
        (None, _) => (1, 1),
        (Some(step), Stride::Step) => (1, number(step)?),
        (Some(every), Stride::UsedOfGroup) => {
            let (used, group) = every
                .split_once('/')
                .ok_or_else(|| format!("`{part}` lacks its group size: first-last:used/group"))?;
            (number(used)?, number(group)?)
        }
    };
    if group == 0 || used > group {
        return Err(format!("`{part}` uses {used} CPUs of every {group}"));
    }
    cpus.extend((first..=last).filter(|cpu| (cpu - first) % group < used));
    Ok(())
}

/// Prints the shortest list without strides: `0-3,8`.
impl fmt::Display for CpuList {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for run in self.0.chunk_by(|left, right| left + 1 == *right) {
            match run {
                [only] => write!(formatter, "{separator}{only}")?,
                [first, .., last] => write!(formatter, "{separator}{first}-{last}")?,
                [] => {}
            }
            separator = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_read_as_the_kernel_reads_them() {
        let list =
            |text| CpuList::parse(text, 8192, Stride::UsedOfGroup).map(|list| list.to_string());
        assert_eq!(list("0-3,8\n"), Ok("0-3,8".to_string()));
        assert_eq!(list("8, 1,0 ,2"), Ok("0-2,8".to_string()));
        assert_eq!(list("0-7:1/2"), Ok("0,2,4,6".to_string()));
        assert_eq!(list("4-9:2/3"), Ok("4-5,7-8".to_string()));
        let wrong = "|a|3-1|0-|-|0-3:2|0-3:3/2|0-3:0/0|8192|-1|1,,2|0 1|+5|0-99999999999";
        for text in wrong.split('|') {
            assert!(list(text).is_err(), "{text}");
        }
    }

    #[test]
    fn lists_read_as_taskset_reads_them() {
        let list = |text| CpuList::parse(text, 8, Stride::Step).map(|list| list.to_string());
        assert_eq!(list("0-2,5"), Ok("0-2,5".to_string()));
        assert_eq!(list("0-7:3"), Ok("0,3,6".to_string()));
        for text in [
            "", "8", "2-1", "1-", "0,,1", "0, 1", "0-7:1/2", "0-7:0", "0-7:",
        ] {
            assert!(list(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_list_survives_its_text() {
        for cpus in [vec![0], vec![0, 1, 2, 7, 9, 10], vec![299, 300]] {
            let list = CpuList(cpus);
            let text = list.to_string();
            assert_eq!(CpuList::parse(&text, 301, Stride::UsedOfGroup), Ok(list));
        }
    }
}
