//! The published schema of Perfetto traces, as far as we read and write it, with its field numbers.
#![allow(missing_docs, dead_code)]

use prost::Message;

/// Messages with the kind, the name, the type and the number of each field.
macro_rules! messages {
    ($($name:ident { $([$($kind:tt)*] $field:ident: $type:ty = $tag:literal,)* })*) => {$(
        #[derive(Clone, PartialEq, Message)]
        pub(crate) struct $name {
            $(#[prost($($kind)*, tag = $tag)] pub $field: $type,)*
        }
    )*};
}

messages! {
    Trace {
        [message, repeated] packet: Vec<TracePacket> = "1",
    }
    TracePacket {
        [message, optional] ftrace_events: Option<FtraceEventBundle> = "1",
        [uint64, optional] timestamp: Option<u64> = "8",
        [uint32, optional] trusted_packet_sequence_id: Option<u32> = "10",
        [message, optional] track_event: Option<TrackEvent> = "11",
        [message, optional] interned_data: Option<InternedData> = "12",
        [uint32, optional] sequence_flags: Option<u32> = "13",
        [bytes = "vec", optional] compressed_packets: Option<Vec<u8>> = "50",
        [message, optional] track_descriptor: Option<TrackDescriptor> = "60",
    }
    TrackDescriptor {
        [uint64, optional] uuid: Option<u64> = "1",
        [string, optional] name: Option<String> = "2",
        [message, optional] process: Option<ProcessDescriptor> = "3",
        [message, optional] thread: Option<ThreadDescriptor> = "4",
        [uint64, optional] parent_uuid: Option<u64> = "5",
        [message, optional] counter: Option<CounterDescriptor> = "8",
    }
    ProcessDescriptor {
        [int32, optional] pid: Option<i32> = "1",
        [string, optional] process_name: Option<String> = "6",
    }
    ThreadDescriptor {
        [int32, optional] pid: Option<i32> = "1",
        [int32, optional] tid: Option<i32> = "2",
        [string, optional] thread_name: Option<String> = "5",
    }
    CounterDescriptor {
        [string, optional] unit_name: Option<String> = "6",
    }
    TrackEvent {
        [int32, optional] r#type: Option<i32> = "9",
        [uint64, optional] name_iid: Option<u64> = "10",
        [uint64, optional] track_uuid: Option<u64> = "11",
        [int64, optional] counter_value: Option<i64> = "30",
        [double, optional] double_counter_value: Option<f64> = "44",
        [fixed64, repeated, packed = "false"] flow_ids: Vec<u64> = "47",
        [fixed64, repeated, packed = "false"] terminating_flow_ids: Vec<u64> = "48",
    }
    InternedData {
        [message, repeated] event_names: Vec<EventName> = "2",
    }
    EventName {
        [uint64, optional] iid: Option<u64> = "1",
        [string, optional] name: Option<String> = "2",
    }
    FtraceEventBundle {
        [uint32, optional] cpu: Option<u32> = "1",
        [message, repeated] event: Vec<FtraceEvent> = "2",
        [bool, optional] lost_events: Option<bool> = "3",
        [message, optional] compact_sched: Option<CompactSched> = "4",
    }
    CompactSched {
        [uint64, repeated] switch_timestamp: Vec<u64> = "1",
        [int64, repeated] switch_prev_state: Vec<i64> = "2",
        [int32, repeated] switch_next_pid: Vec<i32> = "3",
        [int32, repeated] switch_next_prio: Vec<i32> = "4",
        [bytes = "vec", repeated] intern_table: Vec<Vec<u8>> = "5",
        [uint32, repeated] switch_next_comm_index: Vec<u32> = "6",
        [uint64, repeated] waking_timestamp: Vec<u64> = "7",
        [int32, repeated] waking_pid: Vec<i32> = "8",
        [int32, repeated] waking_target_cpu: Vec<i32> = "9",
        [int32, repeated] waking_prio: Vec<i32> = "10",
        [uint32, repeated] waking_comm_index: Vec<u32> = "11",
        [uint32, repeated] waking_common_flags: Vec<u32> = "12",
    }
    FtraceEvent {
        [uint64, optional] timestamp: Option<u64> = "1",
        [uint32, optional] pid: Option<u32> = "2",
        [message, optional] sched_switch: Option<SchedSwitch> = "4",
        [uint32, optional] common_flags: Option<u32> = "5",
        [message, optional] cpu_frequency: Option<StateOfCpu> = "11",
        [message, optional] cpu_idle: Option<StateOfCpu> = "13",
        [message, optional] sched_wakeup: Option<SchedWakeup> = "17",
        [message, optional] sched_waking: Option<SchedWakeup> = "20",
        [message, optional] sched_wakeup_new: Option<SchedWakeup> = "114",
        [message, optional] sched_process_exec: Option<SchedProcessExec> = "237",
        [message, optional] sched_process_exit: Option<SchedProcessExit> = "238",
        [message, optional] sched_process_fork: Option<SchedProcessFork> = "239",
        [message, optional] sched_migrate_task: Option<SchedMigrateTask> = "491",
    }
    SchedSwitch {
        [bytes = "vec", optional] prev_comm: Option<Vec<u8>> = "1",
        [int32, optional] prev_pid: Option<i32> = "2",
        [int32, optional] prev_prio: Option<i32> = "3",
        [int64, optional] prev_state: Option<i64> = "4",
        [bytes = "vec", optional] next_comm: Option<Vec<u8>> = "5",
        [int32, optional] next_pid: Option<i32> = "6",
        [int32, optional] next_prio: Option<i32> = "7",
    }
    SchedWakeup {
        [bytes = "vec", optional] comm: Option<Vec<u8>> = "1",
        [int32, optional] pid: Option<i32> = "2",
        [int32, optional] prio: Option<i32> = "3",
        [int32, optional] target_cpu: Option<i32> = "5",
    }
    SchedMigrateTask {
        [bytes = "vec", optional] comm: Option<Vec<u8>> = "1",
        [int32, optional] pid: Option<i32> = "2",
        [int32, optional] prio: Option<i32> = "3",
        [int32, optional] orig_cpu: Option<i32> = "4",
        [int32, optional] dest_cpu: Option<i32> = "5",
    }
    SchedProcessExec {
        [bytes = "vec", optional] filename: Option<Vec<u8>> = "1",
        [int32, optional] pid: Option<i32> = "2",
        [int32, optional] old_pid: Option<i32> = "3",
    }
    SchedProcessExit {
        [bytes = "vec", optional] comm: Option<Vec<u8>> = "1",
        [int32, optional] pid: Option<i32> = "2",
        [int32, optional] prio: Option<i32> = "4",
    }
    SchedProcessFork {
        [bytes = "vec", optional] parent_comm: Option<Vec<u8>> = "1",
        [int32, optional] parent_pid: Option<i32> = "2",
        [bytes = "vec", optional] child_comm: Option<Vec<u8>> = "3",
        [int32, optional] child_pid: Option<i32> = "4",
    }
    StateOfCpu {
        [uint32, optional] state: Option<u32> = "1",
        [uint32, optional] cpu_id: Option<u32> = "2",
    }
}
