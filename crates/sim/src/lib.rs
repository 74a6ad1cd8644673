//! Where time moves: events, the machine, and what tasks do.

pub mod machine;
pub mod program;
pub mod wheel;
pub mod workload;
mod workload_check;

pub use machine::{Machine, MachineError};
pub use program::{
    Amount, Arithmetic, Compare, Instruction, Program, ProgramBuilder, ProgramError, Ref, Reg,
};
pub use workload::Workload;
pub use workload_check::WorkloadError;
