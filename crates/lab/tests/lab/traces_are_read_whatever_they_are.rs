//! Traces of every format are recognised and read as they were written, bad lines are named and
//! skipped, and counts equal those of a plain count.

use pantile_code::Placement;
use pantile_lab::replay::generate::{Pattern, Synthetic};
use pantile_lab::replay::{
    BadLine, Blocks, Cause, Circumstances, Counter, Format, Options, Request, SeveralVolumes, Trace,
    TraceError, TraceOptions, Writer, geometry, run, unpacked,
};
use std::io::{BufReader, Cursor, Read, Write};

fn made(pattern: Pattern, requests: u64) -> Synthetic {
    let (space, element) = (1 << 30, 16384);
    Synthetic { pattern, requests, space, element, writes_per_cent: 40, gap_us: 250, seed: 5 }
}

fn read(bytes: &[u8]) -> (Format, Vec<Request>, Vec<BadLine>) {
    let mut trace = Trace::open(Cursor::new(bytes)).expect("a trace");
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    while let Some(item) = trace.next_item().expect("memory can be read") {
        match item {
            Ok(request) => good.push(request),
            Err(line) => bad.push(line),
        }
    }
    (trace.format(), good, bad)
}

#[test]
fn written_requests_are_read_again_in_every_format() {
    for format in Format::WRITABLE {
        for pattern in Pattern::ALL {
            let requests: Vec<Request> = made(pattern, 3000).iter().collect();
            let mut bytes = Vec::new();
            let mut writer = Writer::new(&mut bytes, format).unwrap();
            requests.iter().for_each(|request| writer.push(request).unwrap());
            writer.finish().unwrap();
            let (recognised, good, bad) = read(&bytes);
            assert_eq!(recognised, format);
            assert!(bad.is_empty(), "{format:?} {pattern:?}: {:?}", bad[0]);
            assert!(good == requests, "{format:?} {pattern:?}");
            assert!(
                requests.iter().any(|r| r.is_write) && requests.windows(2).all(|w| w[0].at_us <= w[1].at_us)
            );
        }
    }
}

#[test]
fn bad_lines_are_named_and_skipped() {
    let csv = b"128166372003061629,hm,0,Read,383496192,32768,413\r\n\
                128166372013061629,hm,0,Erase,0,4096,1\n\
                never,hm,0,Read,0,4096,1\n\
                128166372023061629,hm,0,Write,4096\n\
                128166372023061629,hm,0,Write,18446744073709551615,4096,0\n\
                128166372033061629,hm,0,Write,8192,512,0";
    let (format, good, bad) = read(csv);
    assert_eq!(format, Format::Msr);
    assert_eq!(good.len(), 2);
    assert_eq!(good[1], Request { at_us: 3_000_000, offset: 8192, len: 512, is_write: true });
    assert_eq!(bad.iter().map(|b| b.number).collect::<Vec<_>>(), [2, 3, 4, 5]);
    assert!(bad[0].text.contains("Erase") && bad[0].to_string().starts_with("line 2: "));
    let fio = b"fio version 3 iolog\n0 /dev/a add\n5 /dev/a open\n7 /dev/a write 0 4096\nx /dev/a read 0 1\n9 /dev/a jump 1 2\n12 /dev/a read 4096 512\n";
    let (format, good, bad) = read(fio);
    assert_eq!((format, good.len(), bad.len()), (Format::Fio3, 2, 2));
    assert_eq!(good[1].at_us, 5);
    let fio = b"fio version 2 iolog\n/d add\n/d open\n/d write 0 4096\n/d wait 700 0\n/d read 8192 4096\n/d close\n";
    let (format, good, bad) = read(fio);
    assert_eq!((format, good.len(), bad.len()), (Format::Fio2, 2, 0));
    assert_eq!(good[1], Request { at_us: 700, offset: 8192, len: 4096, is_write: false });
}

/// A reader that returns a few bytes at a time, like a pipe whose writer flushes often.
struct InPieces<B>(B, usize);

impl<B: Read> Read for InPieces<B> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let most = self.1.min(into.len());
        self.0.read(&mut into[..most])
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(bytes).expect("memory");
    packed.finish().expect("memory")
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

#[test]
fn a_packed_trace_is_unpacked_while_it_is_read() {
    let mut plain = Vec::new();
    let mut writer = Writer::new(&mut plain, Format::Msr).unwrap();
    made(Pattern::Zipf, 20_000).iter().for_each(|request| writer.push(&request).unwrap());
    writer.finish().unwrap();
    let (head, tail) = plain.split_at(300_001);
    // Members and frames one after the other, and a frame to skip.
    let skipped = [&[0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
    let packed = [
        gzip(&plain),
        [gzip(head), gzip(tail)].concat(),
        zstd(&plain),
        [zstd(head), skipped, zstd(b""), zstd(tail)].concat(),
    ];
    for (kind, packed) in packed.into_iter().enumerate() {
        for piece in [1000, 1 << 20] {
            let from = BufReader::new(InPieces(Cursor::new(packed.clone()), piece));
            let mut found = Vec::new();
            unpacked(Box::new(from)).expect("memory").read_to_end(&mut found).expect("it is whole");
            assert!(found == plain, "{kind}: {} of {} bytes", found.len(), plain.len());
        }
        // A trace that is cut anywhere, or has a changed byte, is an error and no shorter trace.
        let end = |bytes: Vec<u8>| {
            let mut found = Vec::new();
            let read =
                unpacked(Box::new(Cursor::new(bytes))).and_then(|mut from| from.read_to_end(&mut found));
            read.map(|_| found)
        };
        for len in [packed.len() / 2, packed.len() - 1, 7] {
            let error = end(packed[..len].to_vec()).expect_err("it is cut");
            assert_eq!(error.kind(), std::io::ErrorKind::InvalidData, "{kind}: {error}");
        }
        let mut changed = packed.clone();
        changed[packed.len() / 3] ^= 4;
        assert!(end(changed).is_err(), "{kind}");
    }
    let mut found = Vec::new();
    unpacked(Box::new(Cursor::new(plain.clone()))).unwrap().read_to_end(&mut found).unwrap();
    assert!(found == plain, "what is not packed is read as it is");
}

/// Returns the requests of a trace, or the reason why it cannot be read.
fn of(text: &str, volume: Option<&str>, columns: Option<&str>) -> Result<Vec<Request>, String> {
    let columns = columns.map(|columns| columns.parse().expect("columns"));
    let options = TraceOptions { volume: volume.map(str::to_string), columns };
    let mut trace = Trace::open_with(text.as_bytes(), &options).map_err(|error| error.to_string())?;
    let mut all = Vec::new();
    while let Some(item) = trace.next_item().map_err(|error| {
        assert!(error.get_ref().is_some_and(|error| error.is::<SeveralVolumes>()), "{error}");
        error.to_string()
    })? {
        all.push(item.map_err(|bad| bad.to_string())?);
    }
    match (all.is_empty(), trace.others()) {
        (true, others) if !others.found.is_empty() => Err(others.to_string()),
        _ => Ok(all),
    }
}

#[test]
fn volumes_of_one_trace_are_separated_in_every_format_that_has_them() {
    for (text, one, other) in [
        ("100,hm,0,Write,0,512,1\n100,hm,1,Write,512,512,1\n100,hm,0,Read,0,512,1\n", "hm_0", "hm_1"),
        ("0,0,512,W,0.25\n3,1,512,W,0.25\n0,0,512,R,0.25\n", "0", "3"),
        ("419,W,0,512,1\n7,W,512,512,1\n419,R,0,512,1\n", "419", "7"),
        ("1538323200,0,1,1,1283\n1538323200,1,1,1,5\n1538323200,0,1,0,1283\n", "1283", "5"),
        ("1.5,0.1,W,3,0,512\n1.5,0.1,W,4,512,512\n1.5,0.1,R,3,0,512\n", "3", "4"),
        (
            "8,0 1 1 0.1 697 Q W 0 + 1 [a]\n8,16 1 1 0.1 697 Q W 1 + 1 [a]\n8,0 1 1 0.1 697 Q R 0 + 1 [a]\n",
            "8,0",
            "8,16",
        ),
        ("fio version 2 iolog\n/a write 0 512\n/b write 512 512\n/a read 0 512\n", "/a", "/b"),
        ("fio version 3 iolog\n1 /a write 0 512\n1 /b write 512 512\n1 /a read 0 512\n", "/a", "/b"),
    ] {
        let request = |offset, is_write| Request { at_us: 0, offset, len: 512, is_write };
        assert_eq!(of(text, Some(one), None), Ok(vec![request(0, true), request(0, false)]), "{text}");
        assert_eq!(of(text, Some(other), None), Ok(vec![request(512, true)]), "{text}");
        let both = format!("{one} (2 requests), {other} (1)");
        let several = format!("it has requests of several volumes: {both}; choose one with --volume");
        assert_eq!(of(text, None, None), Err(several), "{text}");
        assert_eq!(of(text, Some("none"), None), Err(both), "{text}");
    }
    let mut vscsi = Vec::new();
    let mut writer = Writer::new(&mut vscsi, Format::Vscsi2).unwrap();
    made(Pattern::Zipf, 20).iter().for_each(|request| writer.push(&request).unwrap());
    writer.finish().unwrap();
    let options = TraceOptions { volume: Some("a".into()), columns: None };
    assert!(matches!(Trace::open_with(Cursor::new(vscsi), &options), Err(TraceError::NoVolumes)));
}

#[test]
fn columns_of_any_program_are_read_as_they_are_named() {
    let two = vec![
        Request { at_us: 0, offset: 1 << 20, len: 8192, is_write: true },
        Request { at_us: 500_000, offset: 4096, len: 4096, is_write: false },
    ];
    for (text, columns) in [
        ("2048;W;0.25;16\n8;R;0.75;8\n", "time=3,kind=2,offset=1:sectors,size=4:sectors"),
        (
            "Op,Start,Length,At\nwrite,1048576,8192,7\nread,4096,4096,507\n",
            "time=at:ms,kind=op,offset=Start,size=length",
        ),
        ("# made by me\n1 1 256 2\n500001 0 1 1\n", "time=1:us,kind=2,offset=3:4096,size=4:4096"),
        (
            "TIME(s)     COMM           PID    DISK      T SECTOR     BYTES  LAT(ms)\n\
             0.100000    jbd2/nvme0n1   697    nvme0n1   W 2048       8192   0.05\n\
             0.600000    cat            700    nvme0n1   R 8          4096   1.10\n",
            "time=1,kind=5,offset=SECTOR:sectors,size=BYTES,volume=DISK",
        ),
        ("\"w\"\t10\t1048576\t8192\n\"r\"\t5000010\t4096\t4096\n", "kind=1,time=2:100ns,offset=3,length=4"),
    ] {
        assert_eq!(of(text, None, Some(columns)), Ok(two.clone()), "{columns}");
    }
    let untimed = of("R 0 512\nW 512 512\n", None, Some("kind=1,offset=2,size=3")).expect("a trace");
    assert_eq!(untimed.iter().map(|request| request.at_us).collect::<Vec<_>>(), [0, 0]);
    let wrong = of("op,at\n", None, Some("kind=op,offset=where,size=2")).expect_err("no such column");
    assert!(wrong.contains("has no column 'where'"), "{wrong}");
    let wrong = of("R,0,512\nR,0\n", None, Some("kind=1,offset=2,size=3")).expect_err("a short line");
    assert!(wrong.starts_with("line 2: it has too few columns"), "{wrong}");
    let wrong = of("R,0,512\n", Some("a"), Some("kind=1,offset=2,size=3")).expect_err("no volumes");
    assert!(wrong.contains("--columns volume="), "{wrong}");
}

#[test]
fn formats_are_recognised_in_pieces_too() {
    for format in Format::WRITABLE {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes, format).unwrap();
        made(Pattern::Zipf, 200).iter().for_each(|request| writer.push(&request).unwrap());
        writer.finish().unwrap();
        for piece in [1, 7, 20, 39, 1000] {
            let from = BufReader::new(InPieces(&bytes[..], piece));
            let mut trace = Trace::open(from).unwrap_or_else(|error| panic!("{format:?} {piece}: {error}"));
            assert_eq!(trace.format(), format);
            let mut good = 0;
            while let Some(item) = trace.next_item().unwrap() {
                item.unwrap_or_else(|bad| panic!("{format:?} {piece}: {bad}"));
                good += 1;
            }
            assert_eq!(good, 200);
        }
    }
}

#[test]
fn a_line_of_any_length_is_one_line() {
    let line = "128166372003061629,hm,0,Read,383496192,32768,413\n";
    for len in [1000, 65_535, 65_536, 65_537, 131_072, 200_000] {
        let long = "x".repeat(len);
        let (_, good, bad) = read(format!("{line}{long}\nshort\n{line}").as_bytes());
        assert_eq!(good.len(), 2, "{len}");
        assert_eq!(bad.iter().map(|bad| bad.number).collect::<Vec<_>>(), [2, 3], "{len}");
        // A long line that would otherwise be a request, and one that nothing follows.
        let (_, good, bad) = read(format!("{line}{}{long}", line.trim_end()).as_bytes());
        assert_eq!((good.len(), bad.len()), if len < 65_000 { (2, 0) } else { (1, 1) }, "{len}");
    }
}

#[test]
fn other_files_are_refused_and_no_bytes_do_harm() {
    for text in [&b"hello\n"[..], b"\x7fELF\0\0\0\0", b"a,b\n1,2\n"] {
        assert!(Trace::open(Cursor::new(text)).is_err(), "{text:?}");
    }
    let mut whole = Vec::new();
    let mut writer = Writer::new(&mut whole, Format::Vscsi2).unwrap();
    made(Pattern::Zipf, 50).iter().for_each(|request| writer.push(&request).unwrap());
    writer.finish().unwrap();
    // A cut file: whole records are read, the rest is one bad record.
    for len in 40..whole.len() {
        let (_, good, bad) = read(&whole[..len]);
        assert_eq!((good.len(), bad.len()), (len / 40, usize::from(len % 40 != 0)), "{len}");
    }
    let mut random = pantile_sim::Random::new(3);
    for _ in 0..2000 {
        let mut bytes = match random.below(3) {
            0 => b"128166372003061629,hm,0,Read,383496192,32768,413\n128166372003061629,hm,0,Write,0,8,1\n"
                .to_vec(),
            1 => b"fio version 2 iolog\n/d add\n/d write 0 4096\n/d wait 1 0\n".to_vec(),
            _ => whole[..400].to_vec(),
        };
        for _ in 0..random.between(1, 6) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.bits() as u8;
        }
        if let Ok(mut trace) = Trace::open(Cursor::new(&bytes)) {
            let codes = [pantile::Code::parse("raid5:3").unwrap()];
            let options = Options { element_bytes: 4096, ..Options::default() };
            // A request can be long; the count has a limit.
            let _ = run(&mut trace, &codes, &options, &|_| true);
        }
    }
}

/// Counts again block by block, by the textbook and nothing else.
#[test]
fn raid_5_counts_are_those_of_the_textbook() {
    textbook(4, 5000);
    // Four million sets of cells and turns: those that occur are kept, and settled when there are
    // too many.
    textbook(200, 80_000);
}

fn textbook(data: u64, requests: u64) {
    let code = pantile::Code::parse(&format!("raid5:{data}")).unwrap();
    let geometry = geometry((&code, Placement::spread(&code)), 8192).unwrap();
    let mut counter = Counter::new(&geometry, &[]).unwrap();
    let requests: Vec<Request> = made(Pattern::Tuples, requests)
        .iter()
        .map(|r| Request { offset: r.offset / 4096 * 4096, ..r })
        .collect();
    let mut expected = (0u64, 0u64, 0u64, 0u64);
    for request in &requests {
        counter.push(request);
        let blocks = request.offset / 4096..(request.offset + request.len).div_ceil(4096);
        if !request.is_write {
            expected.0 += blocks.end - blocks.start;
            continue;
        }
        expected.1 += blocks.end - blocks.start;
        // Rows: stripe and offset in the element.
        let mut rows = std::collections::BTreeMap::<(u64, u64), u64>::new();
        for block in blocks {
            *rows.entry((block / (2 * data), block % 2)).or_default() += 1;
        }
        for (_, new) in rows {
            // Read-modify-write reads the old blocks and the parity, reconstruct-write the others.
            expected.2 += (new + 1).min(data - new);
            expected.3 += 1;
        }
    }
    let counts = counter.finish();
    let of = |cause| counts.of(cause);
    assert_eq!(of(Cause::User), Blocks { read: expected.0, written: expected.1 });
    assert_eq!(of(Cause::ReadModifyWrite), Blocks { read: expected.2, written: 0 });
    assert_eq!(of(Cause::Parity), Blocks { read: 0, written: expected.3 });
}

#[test]
fn gathering_everything_at_once_writes_full_stripes() {
    let code = pantile::Code::parse("raid6:4").unwrap();
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, Format::Msr).unwrap();
    let sequential =
        Synthetic { writes_per_cent: 100, space: 1 << 20, requests: 64, ..made(Pattern::Sequential, 64) };
    sequential.iter().for_each(|request| writer.push(&request).unwrap());
    writer.finish().unwrap();
    let options = Options { element_bytes: 4096, windows: vec![1, 64], threads: 2, ..Options::default() };
    let mut trace = Trace::open(Cursor::new(&bytes)).unwrap();
    let (seen, replayed) = run(&mut trace, &[code], &options, &|_| true).unwrap();
    assert_eq!((seen.requests, seen.writes, seen.bad), (64, 64, 0));
    // 16 KiB is a full stripe of 4 x 4 KiB: no window saves anything, every block costs 1.5.
    assert!(replayed[0].gathered.iter().all(|one| 2 * one.moved_blocks == 3 * one.user_blocks));
}

/// A trace in memory.
fn written(requests: &[Request]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, Format::Msr).unwrap();
    requests.iter().for_each(|request| writer.push(request).unwrap());
    writer.finish().unwrap();
    bytes
}

/// Returns the whole report as text.
fn report_text(bytes: &[u8], codes: &[pantile::Code], options: &Options) -> String {
    let mut trace = Trace::open(Cursor::new(bytes)).unwrap();
    let (seen, replayed) = run(&mut trace, codes, options, &|_| true).unwrap();
    let report = pantile_lab::replay::report(&seen, &replayed, options);
    let page = pantile_lab::page("replay", "a test", &[], std::slice::from_ref(&report));
    format!("{}{page}", serde_json::to_string(&report.measures).unwrap())
}

#[test]
fn threads_change_no_byte_of_the_answer() {
    let bytes = written(&made(Pattern::Zipf, 3000).iter().collect::<Vec<Request>>());
    let codes =
        ["raid5:3", "raid6:4", "dcode:5", "shec:4,3,2"].map(|code| pantile::Code::parse(code).unwrap());
    let counted = Options { windows: vec![1, 16, 256], ..Options::default() };
    let driven = Options {
        is_driven: true,
        circumstances: Circumstances {
            flush_every: 32,
            lost: vec![1],
            lost_at: 500,
            rebuilt_at: Some(1000),
            rebuild_pace: Some(100),
        },
        space_bytes: 1 << 28,
        ..counted.clone()
    };
    for options in [counted, driven] {
        let one = report_text(&bytes, &codes, &options);
        for threads in [2, 3, 16] {
            assert!(
                one == report_text(&bytes, &codes, &Options { threads, ..options.clone() }),
                "{threads} threads"
            );
        }
    }
}

#[test]
fn events_that_did_not_happen_are_reported() {
    let mut requests: Vec<Request> = made(Pattern::Zipf, 100).iter().collect();
    requests[7].offset = 1 << 40;
    let (bytes, codes) = (written(&requests), [pantile::Code::parse("raid6:4").unwrap()]);
    let circumstances =
        Circumstances { lost: vec![0], lost_at: 50, rebuilt_at: Some(100), ..Circumstances::default() };
    let options = Options { circumstances, space_bytes: 1 << 30, ..Options::default() };
    let text = report_text(&bytes, &codes, &options);
    assert!(text.contains("before a device was to be rebuilt, after 100 requests"), "{text}");
    assert!(!text.contains("was to be lost"));
    assert!(text.contains("beyond the end of the volume of raid6:4 and were left out: 1."));
}
