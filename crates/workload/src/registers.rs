//! Names of a program's registers.

/// Names of registers, numbered from the first on; behind `=>` who else may see them.
///
/// Worked example: `registers! { 3; LEFT RIGHT }` makes `LEFT` register 3 and `RIGHT` register 4,
/// `registers! { 3 => pub(super), LEFT RIGHT }` does so for the module above, too.
macro_rules! registers {
    (@each $first:expr, [$($seen:tt)*]) => {};
    (@each $first:expr, [$($seen:tt)*] $(#[$about:meta])* $name:ident $($rest:tt)*) => {
        $(#[$about])*
        $($seen)* const $name: schedcast_sim::Reg = schedcast_sim::Reg($first);
        $crate::registers::registers! { @each $first + 1, [$($seen)*] $($rest)* }
    };
    ($first:expr => $seen:vis, $($names:tt)+) => {
        $crate::registers::registers! { @each $first, [$seen] $($names)+ }
    };
    ($first:expr; $($names:tt)+) => {
        $crate::registers::registers! { @each $first, [] $($names)+ }
    };
}
pub(crate) use registers;
