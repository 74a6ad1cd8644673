use super::super::tests::{close, ended, run};
use schedcast_base::{assert_in, assert_starts};

#[test]
fn small_records_are_limited_by_calls_and_large_ones_by_copying() {
    let rates = |record: &str| {
        let line = format!("iozone -s 200704 -r {record}");
        let ran = ended(&line, 2, 4);
        ["write", "rewrite", "read", "reread"]
            .map(|pass| ran.metric(&format!("iozone/{pass}_throughput")))
    };
    let (small, large) = (rates("1k"), rates("64k"));
    // 200,704 calls of 680 ns and 205.5 MB at 79 ps are 152.7 ms, 3136 calls 18.4 ms.
    assert!(
        close(large[1] / small[1], 152.7 / 18.4, 0.1),
        "{small:?} {large:?}"
    );
    // The CPU's clock may be above nominal.
    assert_in!(small[1] * 0.1527 / 200_704.0, 1.0..1.3, "{small:?}");
    // The first write also makes the pages; a second read is as fast as the first.
    assert!(large[0] < 0.6 * large[1]);
    assert!(close(large[2], large[3], 0.01));
}

#[test]
fn a_flush_is_counted_when_asked_for() {
    let time_s = |line: &str| {
        let rate = run(line, 2, 4).metric("iozone/rewrite_throughput");
        10_240.0 / rate
    };
    let plain = time_s("iozone -i 0 -s 10m -r 64k");
    let flushed = time_s("iozone -i 0 -s 10m -r 64k -e");
    // 10.5 MB at 500 ps a byte are 5.2 ms, and the journal's two writes.
    assert_in!(flushed - plain, 0.0052..0.0056, "{flushed} {plain}");
    let nothing = time_s("iozone -i 0 -s 10m -r 64k -e --filesystem tmpfs");
    assert!(close(nothing, plain, 0.01));
}

#[test]
fn processes_share_the_cpus() {
    let rate = |line: &str| run(line, 2, 4).metric("iozone/rewrite_throughput");
    let (one, four) = (
        rate("iozone -s 50m -r 64k"),
        rate("iozone -s 50m -r 64k -t 4"),
    );
    // The CPUs are not at full speed at once, which a short run of one process feels more.
    assert!((1.8..2.6).contains(&(four / one)), "{four} {one}");
}

#[test]
fn the_tables_are_those_of_the_tool() {
    let text = run("iozone -s 4m -r 64k -i 0", 2, 2).report();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "              kB  reclen     write   rewrite");
    assert!(lines[1].starts_with("            4096      64"), "{text}");
    let text = run("iozone -s 4m -r 64k -i 0 -t 2", 2, 2).report();
    assert_starts(&text, "\tChildren see throughput for  2 initial writers ");
}

#[test]
fn auto_mode_takes_every_record_with_every_file() {
    let ran = run("iozone -a -n 1m -g 2m -y 512k -q 2m -i 0 -i 3", 2, 2);
    let rate = |sizes: &str| {
        let name = format!("iozone/write_throughput.{sizes}");
        ran.metric(&name)
    };
    let sizes = [
        "1024-512",
        "1024-1024",
        "2048-512",
        "2048-1024",
        "2048-2048",
    ];
    assert!(sizes.iter().all(|sizes| rate(sizes) > 1e5));
    let text = ran.report();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2 + sizes.len(), "{text}");
    assert!(lines[0].ends_with("bkwd"), "{text}");
}

#[test]
fn what_the_clock_does_not_see_takes_its_time() {
    let end_ns = |line: &str| run(line, 2, 4).now();
    let both = "iozone -a -n 100m -g 100m -y 64k -q 128k -i 0";
    let memory = end_ns(&format!("{both} --filesystem tmpfs"));
    // Four passes of 105 MB at 500 ps a byte are 210 ms of writing back; the helper looks every
    // 50 ms.
    let disk = end_ns(both);
    assert_in!(disk - memory, 150_000_000..=300_000_000, "{disk} {memory}");
}
