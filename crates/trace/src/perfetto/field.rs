//! Field numbers of the published schema, by message.

macro_rules! fields {
    ($($message:ident { $($name:ident = $number:literal)* })*) => {$(
        pub(crate) mod $message {
            $(pub(crate) const $name: u32 = $number;)*
        }
    )*};
}

fields! {
    trace { PACKET = 1 }
    packet {
        FTRACE_EVENTS = 1 TIMESTAMP = 8 SEQUENCE_ID = 10 TRACK_EVENT = 11 INTERNED_DATA = 12
        SEQUENCE_FLAGS = 13 COMPRESSED_PACKETS = 50 TRACK_DESCRIPTOR = 60
        ZSTD_COMPRESSED_PACKETS = 133
    }
    descriptor { UUID = 1 NAME = 2 PROCESS = 3 THREAD = 4 PARENT_UUID = 5 COUNTER = 8 }
    process { PID = 1 NAME = 6 }
    thread { PID = 1 TID = 2 NAME = 5 }
    counter { UNIT_NAME = 6 }
    event {
        TYPE = 9 NAME_IID = 10 TRACK_UUID = 11 COUNTER_VALUE = 30 DOUBLE_COUNTER_VALUE = 44
        FLOW_IDS = 47 TERMINATING_FLOW_IDS = 48
    }
    interned { EVENT_NAMES = 2 }
    name { IID = 1 NAME = 2 }
    bundle { CPU = 1 EVENT = 2 LOST_EVENTS = 3 COMPACT_SCHED = 4 }
    ftrace {
        TIMESTAMP = 1 PID = 2 SCHED_SWITCH = 4 COMMON_FLAGS = 5 CPU_FREQUENCY = 11 CPU_IDLE = 13
        SCHED_WAKEUP = 17 SCHED_WAKING = 20 SCHED_WAKEUP_NEW = 114 SCHED_MIGRATE_TASK = 491
    }
}
