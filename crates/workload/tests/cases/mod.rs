//! Tables of cases.

/// Pairs of an input and what is expected of it, a row each.
macro_rules! cases {
    ($($input:expr => $expected:expr;)*) => { [$(($input, $expected)),*] };
}
