//! The kernel that everything here was measured on, as rules.

use schedcast_kernel::rules::{KernelChoice, Preemption, Rules, Version};

/// Its release.
pub(crate) const VERSION: Version = Version::stable(6, 18, 44);
/// Patches that its provider added, found by experiment (`docs/validity/measured-kernel.md`).
pub(crate) const PATCHES: &[&str] = &["vcpu-pack"];
/// Its tick.
pub(crate) const HZ: u32 = 250;

/// Its rules on so many CPUs.
pub(crate) fn rules(cpus: usize) -> Rules {
    let choice = KernelChoice {
        patches: PATCHES,
        hz: HZ,
        preemption: Preemption::None,
        preempt_dynamic: Some(true),
        ..KernelChoice::released(VERSION, cpus as u32)
    };
    Rules::resolve(&choice).expect("these patches change that release")
}

/// The same in words.
pub(crate) fn title() -> String {
    format!("kernel {VERSION} with {}, HZ {HZ}", PATCHES.join(", "))
}
