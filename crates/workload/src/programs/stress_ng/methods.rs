//! How long stress-ng's CPU methods take.
//!
//! Measured with stress-ng 0.15.06 of Debian 12 on one CPU of a virtual AMD EPYC (November 2026),
//! alone on the machine: the length of a call from the pause it makes after 64 of them at half
//! load, the time of a bogo operation from its rate at full load. The two differ because stress-ng
//! weighs calls so that every method makes about as many operations a second: a call of `crc16` is
//! six operations, one of `collatz` 0.002. Both are good to 10 %. As a check, `all` was measured at
//! 523 µs an operation, and this table gives 555.

use std::sync::LazyLock;

use schedcast_base::rows;

/// A CPU method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Method {
    /// Its name.
    pub name: &'static str,
    /// CPU time of one call.
    pub call_ns: u64,
    /// CPU time of one bogo operation.
    pub operation_ns: u64,
}

impl Method {
    /// Growth of the counter of bogo operations with one call, in millionths of an operation.
    pub(crate) const fn call_millionths(&self) -> u64 {
        let millionths = self.call_ns * 1_000_000 / self.operation_ns;
        if millionths == 0 { 1 } else { millionths }
    }
}

/// All methods, in the order in which `all` calls them.
pub(crate) static METHODS: LazyLock<Vec<Method>> = LazyLock::new(|| {
    let method = |line: &'static str| {
        let mut cells = line.split(' ');
        Some(Method {
            name: cells.next()?,
            call_ns: cells.next()?.parse().ok()?,
            operation_ns: cells.next()?.parse().ok()?,
        })
    };
    let lines = rows::lines(include_str!("methods.txt"));
    lines.map(|line| method(line).expect("a row")).collect()
});
