//! How fast text is read: the trace of `recordings/postgres-quota`, repeated until it has 16 MB,
//! once as tracefs prints it and once as `perf script` would.

use std::hint::black_box;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use schedcast_trace::write::{WriteFormat, sink};
use schedcast_trace::{EventSource, FtraceTextReader};

const BYTES: usize = 16 << 20;

fn recorded() -> Vec<u8> {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recordings/postgres-quota/trace.txt.gz");
    let packed = std::fs::read(file).expect("the recording");
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(&packed[..])
        .read_to_end(&mut text)
        .expect("gzip");
    text
}

fn repeated(text: &[u8]) -> Vec<u8> {
    text.repeat(BYTES.div_ceil(text.len()))
}

fn count(text: &[u8]) -> u64 {
    let mut reader = FtraceTextReader::new(Path::new("trace.txt"), text);
    while let Some(item) = reader.next_item().expect("a trace") {
        black_box(item);
    }
    reader.counts().events
}

fn as_perf_script(text: &[u8]) -> Vec<u8> {
    let mut script = Vec::new();
    let mut to = sink(WriteFormat::PerfScript, &mut script, None);
    let mut reader = FtraceTextReader::new(Path::new("trace.txt"), text);
    while let Some(item) = reader.next_item().expect("a trace") {
        to.item(&item, reader.comms()).expect("memory");
    }
    drop(to);
    script
}

fn reading(criterion: &mut Criterion) {
    let recorded = recorded();
    let mut group = criterion.benchmark_group("read text");
    group.sample_size(10);
    group.warm_up_time(Duration::from_millis(500));
    group.measurement_time(Duration::from_secs(4));
    let texts = [
        ("tracefs", repeated(&recorded)),
        ("perf script", repeated(&as_perf_script(&recorded))),
    ];
    for (name, text) in &texts {
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(*name, |bencher| bencher.iter(|| count(text)));
    }
    group.finish();
}

criterion_group!(benches, reading);
criterion_main!(benches);
