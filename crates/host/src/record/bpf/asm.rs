//! Instructions of the kernel's BPF machine, one by one: an assembler with labels.
//!
//! An instruction has 8 bytes: the opcode, four bits each for the target and the source register,
//! an offset of 16 and a value of 32 bits
//! (`Documentation/bpf/standardization/instruction-set.rst`). There are eleven registers: `R0` has results, `R1` to `R5` have arguments and are lost in a call, `R6` to `R9` stay, `R10`
//! is the end of a stack of 512 bytes. Bytes are in the order of little-endian machines, which are
//! the only ones that this recorder is for.
//!
//! Worked example. `if r0 == 0 goto out; r0 = *(u32 *)(r0 + 8); out: exit` is
//!
//! ```text
//! 15 00 01 00 00 00 00 00     jump 1 further if equal to the value 0
//! 61 00 08 00 00 00 00 00     load 4 bytes
//! 95 00 00 00 00 00 00 00     exit
//! ```

/// A register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Reg {
    R0,
    R1,
    R2,
    R3,
    R4,
    R6 = 6,
    R7,
    R8,
    R9,
    /// End of the stack.
    R10,
}

/// How many bytes are loaded or stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Width {
    Four = 0x00,
    Eight = 0x18,
}

/// When a jump is taken. Numbers are compared as unsigned ones of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum When {
    Equal = 0x10,
    /// One of the value's bits is set.
    AnyBit = 0x40,
    NotEqual = 0x50,
    AtMost = 0xb0,
}

/// Arithmetic with 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Op {
    Add = 0x00,
    Or = 0x40,
    And = 0x50,
    Move = 0xb0,
}

/// A place to jump to, forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label(usize);

// Classes and modes of opcodes.
const LOAD_WIDE: u8 = 0x18;
const LOAD: u8 = 0x61;
const STORE_VALUE: u8 = 0x62;
const STORE: u8 = 0x63;
const ADD_IN_MEMORY: u8 = 0xdb;
const ARITHMETIC: u8 = 0x07;
const JUMP: u8 = 0x05;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
/// The second operand is a register.
const BY_REGISTER: u8 = 0x08;

/// Source register of a wide load whose first word is the file of a map.
const MAP_BY_FILE: u8 = 1;

/// A program while it is written.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    code: Vec<[u8; 8]>,
    /// Where each label is, once it is set.
    labels: Vec<Option<usize>>,
    /// Jumps and their labels.
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    fn put(&mut self, opcode: u8, target: u8, source: u8, offset: i16, value: i32) {
        let [o0, o1] = offset.to_le_bytes();
        let [v0, v1, v2, v3] = value.to_le_bytes();
        self.code
            .push([opcode, source << 4 | target, o0, o1, v0, v1, v2, v3]);
    }

    /// `target = target OP value`; a move forgets the old one.
    pub(super) fn op(&mut self, op: Op, target: Reg, value: i32) {
        self.put(ARITHMETIC | op as u8, target as u8, 0, 0, value);
    }

    /// The same with a register.
    pub(super) fn op_reg(&mut self, op: Op, target: Reg, source: Reg) {
        let opcode = ARITHMETIC | op as u8 | BY_REGISTER;
        self.put(opcode, target as u8, source as u8, 0, 0);
    }

    /// `target = *(source + offset)`
    pub(super) fn load(&mut self, width: Width, target: Reg, source: Reg, offset: i16) {
        self.put(LOAD | width as u8, target as u8, source as u8, offset, 0);
    }

    /// `*(target + offset) = source`
    pub(super) fn store(&mut self, width: Width, target: Reg, offset: i16, source: Reg) {
        self.put(STORE | width as u8, target as u8, source as u8, offset, 0);
    }

    /// `*(target + offset) = value`, which is extended by its sign.
    pub(super) fn store_value(&mut self, width: Width, target: Reg, offset: i16, value: i32) {
        self.put(STORE_VALUE | width as u8, target as u8, 0, offset, value);
    }

    /// `*(u64 *)(target + offset) += source`, also against other CPUs.
    pub(super) fn add_in_memory(&mut self, target: Reg, offset: i16, source: Reg) {
        self.put(ADD_IN_MEMORY, target as u8, source as u8, offset, 0);
    }

    fn wide(&mut self, target: Reg, meaning: u8, low: u32, high: u32) {
        self.put(LOAD_WIDE, target as u8, meaning, 0, low as i32);
        self.put(0, 0, 0, 0, high as i32);
    }

    /// A number of 64 bits.
    pub(super) fn number(&mut self, target: Reg, value: u64) {
        self.wide(target, 0, value as u32, (value >> 32) as u32);
    }

    /// The map that a file descriptor stands for.
    pub(super) fn map(&mut self, target: Reg, file: i32) {
        self.wide(target, MAP_BY_FILE, file as u32, 0);
    }

    /// Calls a helper of the kernel, by its number in `enum bpf_func_id`.
    pub(super) fn call(&mut self, helper: i32) {
        self.put(CALL, 0, 0, 0, helper);
    }

    /// Ends the program; `R0` must hold something.
    pub(super) fn exit(&mut self) {
        self.put(EXIT, 0, 0, 0, 0);
    }

    /// A label that is not set yet.
    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// The next instruction is where jumps to this label go.
    pub(super) fn set(&mut self, label: Label) {
        self.labels[label.0] = Some(self.code.len());
    }

    /// Goes on at `label`.
    pub(super) fn jump(&mut self, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.put(JUMP, 0, 0, 0, 0);
    }

    /// Goes on at `label` if `left` and `right` are so.
    pub(super) fn jump_if(&mut self, when: When, left: Reg, right: i32, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.put(JUMP | when as u8, left as u8, 0, 0, right);
    }

    /// The same with two registers.
    pub(super) fn jump_if_reg(&mut self, when: When, left: Reg, right: Reg, label: Label) {
        self.jumps.push((self.code.len(), label));
        let opcode = JUMP | when as u8 | BY_REGISTER;
        self.put(opcode, left as u8, right as u8, 0, 0);
    }

    /// The instructions, with every jump's distance.
    ///
    /// # Panics
    /// If a label was never set: the programs here are fixed, so that would be an error in them.
    pub(super) fn finish(mut self) -> Vec<[u8; 8]> {
        for (at, label) in self.jumps {
            let target = self.labels[label.0].expect("every label is set");
            let distance = (target as i64 - at as i64 - 1) as i16;
            self.code[at][2..4].copy_from_slice(&distance.to_le_bytes());
        }
        self.code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(write: impl FnOnce(&mut Assembler)) -> Vec<u8> {
        let mut assembler = Assembler::default();
        write(&mut assembler);
        assembler.finish().concat()
    }

    /// Opcodes from the tables of the kernel's instruction-set.rst: class, width or source,
    /// operation.
    #[test]
    fn instructions_have_the_documented_bytes() {
        use Reg::*;
        let is = |write: fn(&mut Assembler), expected: &str| {
            let bytes = one(write)
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect::<String>();
            assert_eq!(bytes, expected);
        };
        // BPF_MOV | BPF_K | BPF_ALU64 = 0xb0 | 0 | 7, and with a register BPF_X = 8.
        is(|it| it.op(Op::Move, R2, -1), "b7020000ffffffff");
        is(|it| it.op_reg(Op::Move, R6, R1), "bf16000000000000");
        is(|it| it.op(Op::Add, R2, -4), "07020000fcffffff");
        is(|it| it.op(Op::And, R1, 1), "5701000001000000");
        is(|it| it.op_reg(Op::Or, R1, R2), "4f21000000000000");
        // BPF_LDX | BPF_MEM | BPF_W = 1 | 0x60 | 0; BPF_DW = 0x18.
        is(|it| it.load(Width::Four, R3, R7, 8), "6173080000000000");
        is(|it| it.load(Width::Eight, R7, R6, 16), "7967100000000000");
        // BPF_STX = 3, BPF_ST = 2.
        is(|it| it.store(Width::Four, R10, -4, R0), "630afcff00000000");
        is(|it| it.store(Width::Eight, R9, 0, R0), "7b09000000000000");
        is(
            |it| it.store_value(Width::Eight, R10, -8, 5),
            "7a0af8ff05000000",
        );
        // BPF_STX | BPF_ATOMIC (0xc0) | BPF_DW, the value BPF_ADD = 0.
        is(|it| it.add_in_memory(R0, 0, R1), "db10000000000000");
        is(|it| it.call(131), "8500000083000000");
        is(Assembler::exit, "9500000000000000");
    }

    #[test]
    fn wide_loads_take_two_slots() {
        let number = one(|it| it.number(Reg::R2, 0x1122_3344_5566_7788));
        assert_eq!(number[..8], [0x18, 2, 0, 0, 0x88, 0x77, 0x66, 0x55]);
        assert_eq!(number[8..], [0, 0, 0, 0, 0x44, 0x33, 0x22, 0x11]);
        // BPF_PSEUDO_MAP_FD = 1 stands in the source register.
        assert_eq!(one(|it| it.map(Reg::R1, 7))[..5], [0x18, 0x11, 0, 0, 7]);
    }

    #[test]
    fn jumps_count_the_instructions_between() {
        let code = one(|it| {
            let out = it.label();
            it.jump_if(When::Equal, Reg::R0, 0, out);
            it.number(Reg::R2, 9);
            it.jump_if_reg(When::NotEqual, Reg::R3, Reg::R2, out);
            it.jump(out);
            it.load(Width::Four, Reg::R0, Reg::R0, 8);
            it.set(out);
            it.exit();
        });
        // Over five slots, two of them the number.
        assert_eq!(code[..4], [0x15, 0, 5, 0]);
        assert_eq!(code[24..28], [0x5d, 0x23, 2, 0]);
        assert_eq!(code[32..36], [0x05, 0, 1, 0]);
        let bits = |when| {
            one(|it| {
                let out = it.label();
                it.jump_if(when, Reg::R1, 64, out);
                it.set(out);
            })[0]
        };
        // BPF_JSET | BPF_K | BPF_JMP and BPF_JLE.
        assert_eq!((bits(When::AnyBit), bits(When::AtMost)), (0x45, 0xb5));
    }
}
