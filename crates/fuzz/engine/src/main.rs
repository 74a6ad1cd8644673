//! libFuzzer draws inputs by coverage for the target named in `FUZZ_TARGET`.
//!
//! libFuzzer's own mutations of bytes take turns with those of text that keep its form.

#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use schedcast_fuzz::{TARGETS, Target, mutate, target};

/// The target that was asked for.
fn chosen() -> &'static Target {
    static CHOSEN: OnceLock<&'static Target> = OnceLock::new();
    CHOSEN.get_or_init(|| {
        let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
        target(&name).unwrap_or_else(|| {
            let names: Vec<&str> = TARGETS.iter().map(|one| one.name).collect();
            panic!("FUZZ_TARGET must be one of {}", names.join(", "))
        })
    })
}

fuzz_target!(|data: &[u8]| (chosen().run)(data));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    if !chosen().text || seed.is_multiple_of(2) {
        return fuzzer_mutate(data, size, max_size);
    }
    let mut varied = mutate(&data[..size], u64::from(seed));
    varied.truncate(max_size.min(data.len()));
    data[..varied.len()].copy_from_slice(&varied);
    varied.len()
});
