//! How long stress-ng's CPU methods take.
//!
//! Measured with stress-ng 0.15.06 of Debian 12 on one CPU of a virtual AMD EPYC (November 2026),
//! alone on the machine: the length of a call from the pause it makes after 64 of them at half
//! load, the time of a bogo operation from its rate at full load. The two differ because stress-ng
//! weighs calls so that every method makes about as many operations a second: a call of `crc16` is
//! six operations, one of `collatz` 0.002. Both are good to 10 %. As a check, `all` was measured at
//! 523 µs an operation, and this table gives 555.

/// A CPU method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Method {
    /// Its name.
    pub name: &'static str,
    /// CPU time of one call.
    pub call_ns: u64,
    /// CPU time of one bogo operation.
    pub operation_ns: u64,
}

impl Method {
    /// Growth of the counter of bogo operations with one call, in millionths of an operation.
    pub(crate) const fn call_millionths(&self) -> u64 {
        let millionths = self.call_ns * 1_000_000 / self.operation_ns;
        if millionths == 0 { 1 } else { millionths }
    }
}

const fn method(name: &'static str, call_ns: u64, operation_ns: u64) -> Method {
    Method {
        name,
        call_ns,
        operation_ns,
    }
}

/// All methods, in the order in which `all` calls them.
pub(crate) const METHODS: [Method; 82] = [
    method("ackermann", 440500, 452288),
    method("apery", 133422, 819189),
    method("bitops", 94047, 569447),
    method("callfunc", 516, 580),
    method("cdouble", 162547, 1155161),
    method("cfloat", 315047, 588291),
    method("clongdouble", 1744625, 1033645),
    method("collatz", 766, 362109),
    method("correlate", 2253590, 333547),
    method("crc16", 3462470, 587941),
    method("decimal32", 969516, 561476),
    method("decimal64", 798438, 570672),
    method("decimal128", 2922270, 568964),
    method("dither", 3188860, 508332),
    method("div8", 83125, 491990),
    method("div16", 57547, 331983),
    method("div32", 84125, 554939),
    method("div64", 98984, 190751),
    method("div128", 129547, 154758),
    method("double", 73281, 572325),
    method("euler", 203, 724071),
    method("explog", 2170810, 516404),
    method("factorial", 82562, 541864),
    method("fibonacci", 188, 592990),
    method("fft", 458266, 365390),
    method("fletcher16", 1307440, 595987),
    method("float", 72922, 550261),
    method("float32", 78328, 545929),
    method("float64", 71422, 598265),
    method("float80", 661062, 768096),
    method("float128", 1221270, 698041),
    method("floatconversion", 133141, 250706),
    method("gamma", 1482080, 502639),
    method("gcd", 178938, 174164),
    method("gray", 15047, 645732),
    method("hamming", 689219, 478712),
    method("hanoi", 7312, 178796),
    method("hyperbolic", 302812, 214636),
    method("idct", 13031, 484858),
    method("int128", 20562, 407869),
    method("int64", 8516, 309133),
    method("int32", 9312, 362966),
    method("int16", 8875, 403078),
    method("int8", 9016, 349819),
    method("int128float", 36094, 526759),
    method("int128double", 69391, 559265),
    method("int128longdouble", 839938, 838884),
    method("int128decimal32", 272594, 524700),
    method("int128decimal64", 300344, 548110),
    method("int128decimal128", 2360140, 653672),
    method("int64float", 33250, 573049),
    method("int64double", 64719, 525989),
    method("int64longdouble", 847750, 812315),
    method("int32float", 34578, 574389),
    method("int32double", 63906, 511823),
    method("int32longdouble", 862703, 835785),
    method("intconversion", 747656, 710404),
    method("ipv4checksum", 17375, 433655),
    method("jmp", 5141, 394992),
    method("lfsr32", 18266, 663271),
    method("ln2", 9766, 721345),
    method("logmap", 27500, 435459),
    method("longdouble", 774828, 870868),
    method("loop", 7594, 207821),
    method("matrixprod", 4902330, 962112),
    method("nsqrt", 750, 12545),
    method("omega", 266, 447646),
    method("parity", 44219, 469065),
    method("phi", 219, 756292),
    method("pi", 4422, 1034190),
    method("prime", 1707830, 510584),
    method("psi", 422, 900625),
    method("queens", 1415560, 611210),
    method("rand", 27094, 282795),
    method("rand48", 158062, 524857),
    method("rgb", 10375, 519802),
    method("sieve", 142938, 344452),
    method("stats", 2219, 406630),
    method("sqrt", 89109, 357410),
    method("trig", 283891, 227287),
    method("union", 28797, 616972),
    method("zeta", 448906, 441821),
];
