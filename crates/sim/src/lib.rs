//! Where time moves: events, the machine, and what tasks do.

pub mod bench_workloads;
pub mod events;
pub mod hardware;
pub mod histogram;
pub mod machine;
pub mod probe;
pub mod program;
pub mod random;
mod segment;
mod timers;
mod waiting;
mod wheel;
pub mod workload;
mod workload_check;
mod world;

pub use machine::{Machine, MachineError};
pub use program::{
    Amount, Arithmetic, Compare, Distribution, Instruction, Program, ProgramBuilder, ProgramError,
    Ref, Reg,
};
pub use workload::Workload;
pub use workload_check::WorkloadError;
pub use world::{
    ANSWERED, MessageSpec, NOT_DUE, PatientMessage, PatientSpec, RequestSpec, Then, Unfinished,
    When,
};
pub use world::{Core, CpuTime, Explained, RunError, Watch, World};
