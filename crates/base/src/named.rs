//! Enumerations whose variants stand with their names.
//!
//! Worked example: with `named! { enum Switch { On = "on", Off = "off", } }`, `Switch::ALL` is
//! `[Switch::On, Switch::Off]`, `Switch::Off.name()` is `"off"`, and `Switch::named("off")` finds
//! it.

/// An enumeration: each variant has its name beside it, `ALL` has them in order, `named` finds one.
#[macro_export]
macro_rules! named {
    ($(#[$attribute:meta])* $visibility:vis enum $type:ident {
        $($(#[$about:meta])* $variant:ident = $name:literal,)+
    }) => {
        $(#[$attribute])*
        $visibility enum $type {
            $($(#[$about])* $variant,)+
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
