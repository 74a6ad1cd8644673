//! Enumerations whose variants stand with their names.
//!
//! Worked example: with `named! { enum Switch { On = "on", Off = "off", } }`, `Switch::ALL` is
//! `[Switch::On, Switch::Off]`, `Switch::Off.name()` is `"off"`, and `Switch::named("off")` finds
//! it. The command line offers `on` and `off` with the documentation of the variants as help.

/// An enumeration that [`named!`](crate::named!) made.
pub trait Named: Copy + 'static {
    /// All of them, in order.
    fn all() -> &'static [Self];
    /// Its name.
    fn name(self) -> &'static str;
    /// Its documentation, as written.
    fn about(self) -> &'static str;
}

/// An enumeration: each variant has its name beside it, `ALL` has them in order, `named` finds one.
#[macro_export]
macro_rules! named {
    (@about doc = $text:literal) => { $text };
    (@about $($other:tt)+) => { "" };
    ($(#[$attribute:meta])* $visibility:vis enum $type:ident {
        $($(#[$($about:tt)+])* $variant:ident = $name:literal,)+
    }) => {
        $(#[$attribute])*
        $visibility enum $type {
            $($(#[$($about)+])* $variant,)+
        }

        impl $crate::named::Named for $type {
            fn all() -> &'static [Self] {
                &Self::ALL
            }

            fn name(self) -> &'static str {
                self.name()
            }

            fn about(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!($($crate::named!(@about $($about)+)),*),)+
                }
            }
        }

        impl $type {
            /// All of them, in order.
            #[allow(dead_code)]
            $visibility const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// The one of this name.
            #[allow(dead_code)]
            $visibility fn named(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|known| known.name() == name)
            }

            /// Its name.
            #[must_use]
            $visibility const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}
