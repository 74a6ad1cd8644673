//! Where the running kernel keeps the members of its structures: a reader of BTF, the kernel's own
//! description of its types.
//!
//! `/sys/kernel/btf/vmlinux` is a head of 24 bytes, a list of types and a list of names. A type is
//! three words (name, kind and number of its parts, size or type it refers to) and what its kind
//! adds. Types are numbered from 1 in the order of the list; 0 is `void`. The layout is that of
//! `Documentation/bpf/btf.rst`.
//!
//! Worked example. On Linux 6.18 `task_struct` has the member `thread_info` at bit 0, and
//! `thread_info` has `cpu` at bit 160: `place("task_struct", "thread_info.cpu")` is 4 bytes from
//! byte 20 on. Another kernel, or another configuration of it, has it elsewhere, so nothing of this
//! is known before the recorder starts.
//!
//! The file is the kernel's, but nothing here trusts it: every number is checked against the end of
//! its list, and chains of types that refer to each other end after [`DEPTH_MAX`] steps.

use std::path::Path;

/// Magic number at the begin, in the byte order of the machine.
const MAGIC: u16 = 0xeb9f;
/// Bytes of the head that are read; the head itself says where the lists begin.
const HEAD_BYTES: usize = 24;
/// More levels of structures, or of names for one type, than any kernel has.
const DEPTH_MAX: usize = 32;
/// A pointer is as long as this machine's.
const POINTER_BYTES: u32 = size_of::<usize>() as u32;

/// Kinds of types, `BTF_KIND_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Void,
    Int,
    Pointer,
    Array,
    Struct,
    Union,
    Enum,
    Forward,
    Typedef,
    /// `volatile`, `const`, `restrict` or a tag: the same type with a remark.
    Remark,
    Function,
    Prototype,
    Variable,
    Section,
    Float,
    DeclarationTag,
}

impl Kind {
    fn of(number: u32) -> Option<Kind> {
        Some(match number {
            1 => Kind::Int,
            2 => Kind::Pointer,
            3 => Kind::Array,
            4 => Kind::Struct,
            5 => Kind::Union,
            6 | 19 => Kind::Enum,
            7 => Kind::Forward,
            8 => Kind::Typedef,
            9..=11 | 18 => Kind::Remark,
            12 => Kind::Function,
            13 => Kind::Prototype,
            14 => Kind::Variable,
            15 => Kind::Section,
            16 => Kind::Float,
            17 => Kind::DeclarationTag,
            _ => return None,
        })
    }

    /// Bytes behind the three words of a type of this kind with so many parts. `number` tells enums
    /// of 32 and 64 bits apart.
    fn tail_bytes(self, number: u32, parts: usize) -> usize {
        match self {
            Kind::Int | Kind::Variable | Kind::DeclarationTag => 4,
            Kind::Array => 12,
            Kind::Struct | Kind::Union | Kind::Section => 12 * parts,
            Kind::Enum if number == 19 => 12 * parts,
            Kind::Enum | Kind::Prototype => 8 * parts,
            _ => 0,
        }
    }
}

/// One type, as it stands in the list.
#[derive(Clone, Copy, Debug)]
struct Type<'a> {
    kind: Kind,
    name: u32,
    /// Members may be bit fields, and their offsets say so.
    has_bit_fields: bool,
    /// Its size in bytes, or the number of the type it refers to.
    size_or_type: u32,
    tail: &'a [u8],
}

/// Where a member stands in its structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// From the begin of the structure, in bytes.
    pub offset: u32,
    /// Bytes that it takes.
    pub bytes: u32,
}

/// Argument of a tracepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Argument {
    /// The address of a structure of this name.
    Structure(String),
    /// A number, or anything else that is no structure's address.
    Value,
}

/// The types of a kernel.
#[derive(Debug)]
pub(super) struct Btf {
    types: Vec<u8>,
    names: Vec<u8>,
    /// Where each type begins in `types`; type 1 is the first.
    begins: Vec<u32>,
}

/// The word at `at`; zero behind the end, which callers have ruled out by the length of what they
/// pass.
fn word(bytes: &[u8], at: usize) -> u32 {
    let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
    u32::from_ne_bytes(four.unwrap_or([0; 4]))
}

impl Btf {
    /// Reads a kernel's description of itself.
    pub(super) fn read(path: &Path) -> Result<Btf, String> {
        let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Btf::parse(&bytes).map_err(|why| format!("{}: {why}", path.display()))
    }

    /// Takes it apart. The error says at which byte it is not what it should be.
    pub(super) fn parse(bytes: &[u8]) -> Result<Btf, String> {
        if bytes.len() < HEAD_BYTES {
            let found = bytes.len();
            return Err(format!(
                "expected a head of {HEAD_BYTES} bytes, found {found} bytes"
            ));
        }
        let magic = u16::from_ne_bytes([bytes[0], bytes[1]]);
        if magic != MAGIC {
            return Err(format!(
                "expected BTF, which begins with {MAGIC:#x}, found {magic:#x}"
            ));
        }
        if bytes[2] != 1 {
            return Err(format!("expected version 1 of BTF, found {}", bytes[2]));
        }
        let head = word(bytes, 4);
        let list = |at: usize, what: &str| {
            let begin = u64::from(head) + u64::from(word(bytes, at));
            let end = begin + u64::from(word(bytes, at + 4));
            let range = usize::try_from(begin).ok().zip(usize::try_from(end).ok());
            let range = range.and_then(|(begin, end)| bytes.get(begin..end));
            range.map(<[u8]>::to_vec).ok_or_else(|| {
                let all = bytes.len();
                format!(
                    "expected the list of {what} within {all} bytes, found it from {begin} to {end}"
                )
            })
        };
        let (types, names) = (list(8, "types")?, list(16, "names")?);
        let mut begins = Vec::new();
        let mut at = 0;
        while at < types.len() {
            let (_, bytes) = type_at(&types, at)?;
            begins.push(at as u32);
            at += bytes;
        }
        Ok(Btf {
            types,
            names,
            begins,
        })
    }

    fn get(&self, number: u32) -> Option<Type<'_>> {
        if number == 0 {
            return Some(Type {
                kind: Kind::Void,
                name: 0,
                has_bit_fields: false,
                size_or_type: 0,
                tail: &[],
            });
        }
        let at = *self.begins.get(number as usize - 1)?;
        type_at(&self.types, at as usize).ok().map(|(it, _)| it)
    }

    /// The name at a place of the list of names; empty where there is none.
    fn name(&self, at: u32) -> &[u8] {
        let rest = self.names.get(at as usize..).unwrap_or_default();
        rest.split(|byte| *byte == 0).next().unwrap_or_default()
    }

    /// The number of the first type of this kind and name.
    pub(super) fn find(&self, kind: Kind, name: &str) -> Option<u32> {
        let mut numbers = 1..=self.begins.len() as u32;
        numbers.find(|number| {
            self.get(*number)
                .is_some_and(|it| it.kind == kind && self.name(it.name) == name.as_bytes())
        })
    }

    /// The type without its other names and remarks.
    fn plain(&self, mut number: u32) -> Option<(u32, Type<'_>)> {
        for _ in 0..DEPTH_MAX {
            let it = self.get(number)?;
            match it.kind {
                Kind::Typedef | Kind::Remark => number = it.size_or_type,
                _ => return Some((number, it)),
            }
        }
        None
    }

    fn bytes_of(&self, number: u32, depth: usize) -> Option<u32> {
        if depth > DEPTH_MAX {
            return None;
        }
        let (_, it) = self.plain(number)?;
        match it.kind {
            Kind::Pointer => Some(POINTER_BYTES),
            Kind::Array => {
                let each = self.bytes_of(word(it.tail, 0), depth + 1)?;
                each.checked_mul(word(it.tail, 8))
            }
            Kind::Int | Kind::Struct | Kind::Union | Kind::Enum | Kind::Float => {
                Some(it.size_or_type)
            }
            _ => None,
        }
    }

    /// Where `path`, a member or a member of a member as in `thread_info.cpu`, stands in a
    /// structure. What stands in parts without a name counts as the structure's own, as in C.
    pub(super) fn place(&self, structure: &str, path: &str) -> Result<Place, String> {
        let missing = || format!("this kernel's BTF has no `{path}` in `struct {structure}`");
        let mut number = self
            .find(Kind::Struct, structure)
            .ok_or_else(|| format!("this kernel's BTF has no `struct {structure}`"))?;
        let mut offset_bits: u32 = 0;
        for name in path.split('.') {
            let found = self.member(number, name, 0).ok_or_else(missing)?;
            if found.is_bit_field || found.bits % 8 != 0 {
                return Err(format!("`{path}` in `struct {structure}` is a bit field"));
            }
            offset_bits = offset_bits.checked_add(found.bits).ok_or_else(missing)?;
            number = found.kind;
        }
        Ok(Place {
            offset: offset_bits / 8,
            bytes: self.bytes_of(number, 0).ok_or_else(missing)?,
        })
    }

    fn member(&self, number: u32, name: &str, depth: usize) -> Option<Member> {
        let (_, it) = self.plain(number)?;
        if depth > DEPTH_MAX || !matches!(it.kind, Kind::Struct | Kind::Union) {
            return None;
        }
        it.tail.chunks_exact(12).find_map(|part| {
            let (own_name, kind, bits) = (word(part, 0), word(part, 4), word(part, 8));
            let (bits, is_bit_field) = match it.has_bit_fields {
                true => (bits & 0x00ff_ffff, bits >> 24 != 0),
                false => (bits, false),
            };
            let own_name = self.name(own_name);
            if own_name == name.as_bytes() {
                return Some(Member {
                    kind,
                    bits,
                    is_bit_field,
                });
            }
            if !own_name.is_empty() {
                return None;
            }
            let inner = self.member(kind, name, depth + 1)?;
            Some(Member {
                bits: inner.bits.checked_add(bits)?,
                ..inner
            })
        })
    }

    /// Where a variable that each CPU has its own of stands among all of these.
    pub(super) fn per_cpu_offset(&self, name: &str) -> Option<u32> {
        let section = self.get(self.find(Kind::Section, ".data..percpu")?)?;
        section.tail.chunks_exact(12).find_map(|part| {
            let variable = self.get(word(part, 0))?;
            (self.name(variable.name) == name.as_bytes()).then(|| word(part, 4))
        })
    }

    /// The type that stands for a tracepoint, `btf_trace_NAME`, and what the tracepoint hands over.
    pub(super) fn tracepoint(&self, name: &str) -> Result<(u32, Vec<Argument>), String> {
        let missing = || format!("this kernel's BTF has no tracepoint `{name}`");
        let number = self.find(Kind::Typedef, &format!("btf_trace_{name}"));
        let number = number.ok_or_else(missing)?;
        let (_, pointer) = self.plain(number).ok_or_else(missing)?;
        let (_, prototype) = self.plain(pointer.size_or_type).ok_or_else(missing)?;
        if pointer.kind != Kind::Pointer || prototype.kind != Kind::Prototype {
            return Err(missing());
        }
        // The first is the tracepoint's own and is not handed over.
        let parts = prototype.tail.chunks_exact(8).skip(1);
        let arguments = parts.map(|part| self.argument(word(part, 4))).collect();
        Ok((number, arguments))
    }

    fn argument(&self, number: u32) -> Argument {
        let pointer = self
            .plain(number)
            .filter(|(_, it)| it.kind == Kind::Pointer);
        let target = pointer.and_then(|(_, it)| self.plain(it.size_or_type));
        match target {
            Some((_, it)) if it.kind == Kind::Struct => {
                Argument::Structure(String::from_utf8_lossy(self.name(it.name)).into_owned())
            }
            _ => Argument::Value,
        }
    }
}

/// A member as its structure lists it.
struct Member {
    kind: u32,
    bits: u32,
    is_bit_field: bool,
}

/// The type that begins at `at`, and how many bytes it takes.
fn type_at(types: &[u8], at: usize) -> Result<(Type<'_>, usize), String> {
    let rest = types.get(at..).unwrap_or_default();
    if rest.len() < 12 {
        return Err(format!(
            "the type at byte {at} of the list of types is cut off"
        ));
    }
    let info = word(rest, 4);
    let (number, parts) = (info >> 24 & 31, info & 0xffff);
    let kind = Kind::of(number).ok_or_else(|| {
        format!("the type at byte {at} of the list of types has the unknown kind {number}")
    })?;
    let bytes = 12 + kind.tail_bytes(number, parts as usize);
    let tail = rest
        .get(12..bytes)
        .ok_or_else(|| format!("the type at byte {at} of the list of types is cut off"))?;
    let it = Type {
        kind,
        name: word(rest, 0),
        has_bit_fields: info >> 31 == 1,
        size_or_type: word(rest, 8),
        tail,
    };
    Ok((it, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A description that is made by hand: names, then types.
    #[derive(Default)]
    struct Blob {
        names: Vec<u8>,
        types: Vec<u8>,
    }

    impl Blob {
        fn name(&mut self, name: &str) -> u32 {
            if self.names.is_empty() {
                self.names.push(0);
            }
            if name.is_empty() {
                return 0;
            }
            let at = self.names.len() as u32;
            self.names.extend(name.as_bytes());
            self.names.push(0);
            at
        }

        /// `kind` with its flag in bit 7; `tail` are the words behind the first three.
        fn add(&mut self, name: &str, kind: u32, parts: u32, size_or_type: u32, tail: &[u32]) {
            let name = self.name(name);
            let info = (kind >> 7) << 31 | (kind & 31) << 24 | parts;
            for word in [name, info, size_or_type].iter().chain(tail) {
                self.types.extend(word.to_ne_bytes());
            }
        }

        fn bytes(&self) -> Vec<u8> {
            let mut bytes = MAGIC.to_ne_bytes().to_vec();
            bytes.extend([1, 0]);
            let (types, names) = (self.types.len() as u32, self.names.len() as u32);
            for word in [24, 0, types, types, names] {
                bytes.extend(u32::to_ne_bytes(word));
            }
            bytes.extend(&self.types);
            bytes.extend(&self.names);
            bytes
        }
    }

    /// ```c
    /// struct info { unsigned flags; union { unsigned cpu; char other[8]; }; };      // 12 bytes
    /// struct task { const struct info info; pid_t pid : 32; char comm[16]; struct task *next; unsigned on : 1; };
    /// typedef void (*btf_trace_go)(void *, bool, struct task *);
    /// ```
    fn blob() -> Blob {
        let mut blob = Blob::default();
        blob.add("int", 1, 0, 4, &[32]); // 1
        blob.add("char", 1, 0, 1, &[8]); // 2
        blob.add("", 3, 0, 0, &[2, 1, 8]); // 3: char[8]
        let [flags, cpu, other] = ["flags", "cpu", "other"].map(|name| blob.name(name));
        blob.add("", 5, 2, 8, &[cpu, 1, 0, other, 3, 0]); // 4
        blob.add("info", 4, 2, 12, &[flags, 1, 0, 0, 4, 32]); // 5
        blob.add("", 10, 0, 5, &[]); // 6: const struct info
        blob.add("pid_t", 8, 0, 1, &[]); // 7
        blob.add("", 3, 0, 0, &[2, 1, 16]); // 8: char[16]
        blob.add("", 2, 0, 10, &[]); // 9: struct task *
        let members = ["info", "pid", "comm", "next", "on"].map(|name| blob.name(name));
        let tail: Vec<u32> = [(6, 0), (7, 96), (8, 128), (9, 256), (1, 1 << 24 | 320)]
            .iter()
            .zip(members)
            .flat_map(|((kind, bits), name)| [name, *kind, *bits])
            .collect();
        blob.add("task", 4 | 1 << 7, 5, 48, &tail); // 10
        blob.add("", 2, 0, 0, &[]); // 11: void *
        blob.add("", 13, 3, 0, &[0, 11, 0, 1, 0, 9]); // 12
        blob.add("", 2, 0, 12, &[]); // 13
        blob.add("btf_trace_go", 8, 0, 13, &[]); // 14
        blob.add("counter", 14, 0, 1, &[0]); // 15
        blob.add("loop", 8, 0, 16, &[]); // 16: refers to itself
        blob.add("strange", 4, 1, 4, &[0, 17, 0]); // 17: contains itself without a name
        blob.add(".data..percpu", 15, 1, 0, &[15, 640, 4]); // 18
        blob
    }

    #[test]
    fn members_are_found_through_typedefs_const_and_parts_without_a_name() {
        let btf = Btf::parse(&blob().bytes()).unwrap();
        let place = |path: &str| btf.place("task", path).map(|at| (at.offset, at.bytes));
        assert_eq!(place("info"), Ok((0, 12)));
        assert_eq!(place("info.cpu"), Ok((4, 4)));
        assert_eq!(place("info.other"), Ok((4, 8)));
        assert_eq!(place("pid"), Ok((12, 4)));
        assert_eq!(place("comm"), Ok((16, 16)));
        assert_eq!(place("next"), Ok((32, POINTER_BYTES)));
        assert_eq!(
            place("on").unwrap_err(),
            "`on` in `struct task` is a bit field"
        );
        assert_eq!(
            place("info.nothing").unwrap_err(),
            "this kernel's BTF has no `info.nothing` in `struct task`"
        );
        let missing = btf.place("tusk", "pid").unwrap_err();
        assert_eq!(missing, "this kernel's BTF has no `struct tusk`");
    }

    #[test]
    fn a_tracepoint_tells_its_arguments_but_the_first() {
        let btf = Btf::parse(&blob().bytes()).unwrap();
        let (number, arguments) = btf.tracepoint("go").unwrap();
        let task = Argument::Structure("task".to_owned());
        assert_eq!((number, arguments), (14, vec![Argument::Value, task]));
        assert!(btf.tracepoint("gone").unwrap_err().contains("`gone`"));
        assert_eq!(btf.per_cpu_offset("counter"), Some(640));
        assert_eq!(btf.per_cpu_offset("int"), None);
    }

    #[test]
    fn types_that_refer_to_themselves_end() {
        let btf = Btf::parse(&blob().bytes()).unwrap();
        assert!(btf.plain(16).is_none());
        assert!(btf.place("strange", "pid").is_err());
    }

    #[test]
    fn a_description_cut_at_any_byte_or_with_any_byte_changed_is_refused_or_read() {
        let whole = blob().bytes();
        for length in 0..whole.len() {
            assert!(Btf::parse(&whole[..length]).is_err(), "cut at {length}");
        }
        let mut read = 0;
        for at in 0..whole.len() {
            for flip in [0x01, 0x10, 0x80, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] ^= flip;
                if let Ok(btf) = Btf::parse(&damaged) {
                    read += 1;
                    for path in ["info.cpu", "comm", "next", "on"] {
                        let _ = btf.place("task", path);
                    }
                    let _ = btf.tracepoint("go");
                }
            }
        }
        assert!(read > 0, "some damage only changes a name");
        let error = Btf::parse(b"\x7fELF....................").unwrap_err();
        assert!(error.contains("found 0x457f"), "{error}");
    }
}
