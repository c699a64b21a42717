//! What real brokers of five versions answered, against what librdkafka delivered; and the same bytes, damaged.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use legacy_consumer_native::records::{decode, glance, parse_headers, Binary, Columns, Fault, Request};
use serde_json::Value;

const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

struct Recording {
    name: String,
    data: Vec<u8>,
    rows: Vec<Row>,
    next_offset: i64,
    aborted: Option<Vec<(i64, i64)>>,
}

type Header = (String, Option<Vec<u8>>);
type Row = (i64, i8, i64, Option<Vec<u8>>, Option<Vec<u8>>, Vec<Header>);

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/record_sets")
}

fn recordings() -> Vec<Recording> {
    let mut found = Vec::new();
    for version in fs::read_dir(folder()).expect("the recordings lie beside the crate") {
        let version = version.unwrap().path();
        let told: Value = serde_json::from_slice(&fs::read(version.join("expected.json")).unwrap()).unwrap();
        for (name, told) in told.as_object().unwrap() {
            let pairs = told["aborted"].as_array().unwrap().iter();
            let aborted = pairs.map(|pair| (pair[0].as_i64().unwrap(), pair[1].as_i64().unwrap())).collect();
            found.push(Recording {
                name: format!("{}/{name}", version.file_name().unwrap().to_str().unwrap()),
                data: fs::read(version.join(format!("{name}.bin"))).unwrap(),
                rows: told["records"].as_array().unwrap().iter().map(row).collect(),
                next_offset: told["next_offset"].as_i64().unwrap(),
                aborted: told["read_committed"].as_bool().unwrap().then_some(aborted),
            });
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(found.len() > 50);
    found
}

fn row(told: &Value) -> Row {
    let kind = i8::try_from(told[1].as_i64().unwrap()).unwrap();
    let time = if kind == 0 { -1 } else { told[2].as_i64().unwrap() };
    let headers = told[5].as_array().into_iter().flatten();
    let headers = headers.map(|pair| (pair[0].as_str().unwrap().to_string(), bytes(&pair[1]))).collect();
    (told[0].as_i64().unwrap(), kind, time, bytes(&told[3]), bytes(&told[4]), headers)
}

fn bytes(base64: &Value) -> Option<Vec<u8>> {
    let mut decoded = Vec::new();
    for four in base64.as_str()?.trim_end_matches('=').as_bytes().chunks(4) {
        let digit = |letter: &u8| ALPHABET.iter().position(|known| known == letter).unwrap() as u32;
        let number = four.iter().map(digit).fold(0, |number, digit| number << 6 | digit) << (6 * (4 - four.len()));
        decoded.extend_from_slice(&number.to_be_bytes()[1..four.len()]);
    }
    Some(decoded)
}

fn rows(columns: &Columns) -> Vec<Row> {
    let owned = |bytes: &[u8]| bytes.to_vec();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (0..columns.len())
        .map(|row| {
            let headers = columns.headers.get(row).map(|written| parse_headers(written).unwrap()).unwrap_or_default();
            (
                columns.offsets[row],
                columns.timestamp_types[row],
                columns.timestamps[row],
                columns.keys.get(row).map(owned),
                columns.values.get(row).map(owned),
                headers.into_iter().map(|(key, value)| (text(key), value.map(owned))).collect(),
            )
        })
        .collect()
}

#[test]
fn what_librdkafka_delivered_is_decoded() {
    for recording in recordings() {
        let request = Request { aborted: recording.aborted.as_deref(), ..Request::default() };
        let columns = decode(&recording.data, &request).unwrap();
        assert_eq!(rows(&columns), recording.rows, "{}", recording.name);
        assert_eq!(columns.next_offset, recording.next_offset, "{}", recording.name);
        assert!(!columns.has_more && columns.incomplete_size.is_none());
        assert!(glance(&recording.data, 0).0 >= columns.next_offset);
    }
}

#[test]
fn some_at_a_time_are_all_together() {
    for recording in recordings() {
        let (mut position, mut together) = (0, Vec::new());
        loop {
            let aborted = recording.aborted.as_deref();
            let request = Request { position, aborted, max_records: 3, ..Request::default() };
            let columns = decode(&recording.data, &request).unwrap();
            together.extend(rows(&columns));
            assert!(columns.len() <= 3 && columns.next_offset > position);
            position = columns.next_offset;
            if !columns.has_more {
                break;
            }
        }
        assert_eq!((together, position), (recording.rows, recording.next_offset), "{}", recording.name);
    }
}

#[test]
fn a_cut_anywhere_leaves_what_was_whole_and_says_how_large_the_next_entry_is() {
    for recording in recordings() {
        for cut in (0..recording.data.len()).step_by(7) {
            let request = Request { aborted: recording.aborted.as_deref(), ..Request::default() };
            let columns = decode(&recording.data[..cut], &request).unwrap();
            assert_eq!(rows(&columns), recording.rows[..columns.len()], "{}", recording.name);
            if cut > 0 && columns.next_offset == 0 {
                assert!(columns.incomplete_size.unwrap() > cut);
            }
        }
    }
}

#[test]
fn what_comes_out_of_a_batch_is_bounded() {
    for recording in recordings().iter().filter(|recording| recording.name.contains("zstd")) {
        let request = Request { max_batch_bytes: 10, ..Request::default() };
        assert!(matches!(decode(&recording.data, &request), Err(Fault::TooLarge(10))), "{}", recording.name);
    }
}

/// A batch of format 2 without compression, its CRC left out.
fn batch(count: u8, key: &[u8], value: &[u8], header: &[u8]) -> Vec<u8> {
    let varint = |mut number: usize| {
        let mut written = Vec::new();
        number *= 2; // zigzag
        while number >= 0x80 {
            written.push(number as u8 | 0x80);
            number >>= 7;
        }
        written.push(number as u8);
        written
    };
    let sized = |bytes: &[u8]| [&varint(bytes.len())[..], bytes].concat();
    let mut records = Vec::new();
    for number in 0..count {
        let begin = [0, 0, number * 2]; // attributes, time, offset
        let record = [&begin[..], &sized(key), &sized(value), &[2], &sized(b"h"), &sized(header)].concat();
        records.extend(sized(&record));
    }
    let mut made = vec![0; 61];
    made[8..12].copy_from_slice(&(49 + records.len() as i32).to_be_bytes());
    made[16] = 2;
    made[26] = count - 1;
    made[43..51].fill(0xFF);
    made[60] = count;
    [made, records].concat()
}

/// Bytes that the columns keep of the process's memory.
fn kept_bytes(columns: &Columns) -> usize {
    let fields = [&columns.keys, &columns.values, &columns.headers];
    let of = |field: &&Binary| field.offsets.capacity() * 4 + field.data.capacity() + field.validity.capacity();
    let numbers = columns.offsets.capacity() + columns.timestamps.capacity();
    numbers * 8 + columns.timestamp_types.capacity() + fields.iter().map(of).sum::<usize>()
}

#[test]
fn columns_keep_no_more_memory_for_others_that_were_larger() {
    const SMALL_BYTES: usize = 1 << 16;
    let request = Request { check_crcs: false, ..Request::default() };
    let long = vec![b'x'; 50_000];
    let empty: &[u8] = b"";
    for (key, value, header) in [(&long[..], empty, empty), (empty, &long, empty), (empty, empty, &long)] {
        let large = batch(60, key, value, header);
        for length in [0, 10, 1000, 10_000, 50_000] {
            let small = batch(20, b"k", &long[..length], b"");
            for _ in 0..4 {
                assert_eq!(decode(&large, &request).unwrap().len(), 60);
                let columns = decode(&small, &request).unwrap();
                assert!(rows(&columns).iter().all(|row| row.4.as_deref() == Some(&long[..length])));
                assert_eq!((columns.len(), columns.next_offset), (20, 20));
                let kept = kept_bytes(&columns);
                assert!(kept <= SMALL_BYTES.max(4 * columns.nbytes()), "{kept} bytes for {}", columns.nbytes());
            }
        }
    }
}

/// xorshift64*, so that a seed says which bytes they were.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % end.max(1)
    }
}

fn damaged(sound: &[u8], random: &mut Random) -> Vec<u8> {
    const NUMBERS: [&[u8]; 6] = [&[0xFF; 8], &[0x7F, 0xFF, 0xFF, 0xFF], &[0x80, 0, 0, 0], &[0; 4], &[0xFF, 0x0F], &[1]];
    let mut data = sound.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(data.len());
        match random.below(5) {
            0 => data.truncate(at),
            1 => data[at] = random.below(256) as u8,
            2 => data[at] ^= 1 << random.below(8),
            3 => {
                let number = NUMBERS[random.below(NUMBERS.len())];
                let end = data.len().min(at + number.len());
                data[at..end].copy_from_slice(&number[..end - at]);
            }
            _ => {
                let piece = data[at..data.len().min(at + random.below(60))].to_vec();
                let into = random.below(data.len());
                data.splice(into..into, piece);
            }
        }
        if data.is_empty() {
            break;
        }
    }
    data
}

/// Nothing but columns that hold together, or a fault; `HOSTILE_SECONDS` for longer than a few seconds.
#[test]
fn hostile_bytes_end_in_columns_or_a_fault() {
    let seconds = std::env::var("HOSTILE_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(4);
    let seed = std::env::var("HOSTILE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let (begun, recordings) = (Instant::now(), recordings());
    let (mut random, mut tries, mut sound) = (Random(seed), 0, 0);
    while begun.elapsed() < Duration::from_secs(seconds) {
        let recording = &recordings[random.below(recordings.len())];
        let data = damaged(&recording.data, &mut random);
        let open = [(1, 0), (2, 5), (i64::MAX, i64::MIN)];
        let request = Request {
            position: random.below(30) as i64,
            aborted: (random.below(2) == 0).then_some(&open[..]),
            max_records: [1, 7, 1 << 20][random.below(3)],
            max_batch_bytes: 1 << 20,
            max_decompressed_bytes: [1, 1 << 20][random.below(2)],
            check_crcs: random.below(4) == 0,
        };
        tries += 1;
        let Ok(columns) = decode(&data, &request) else { continue };
        sound += 1;
        let count = columns.len();
        assert!(count <= request.max_records);
        assert!(columns.next_offset >= request.position);
        let mut last = request.position - 1;
        for offset in &columns.offsets {
            assert!(*offset > last && *offset < columns.next_offset, "seed {seed}, try {tries}");
            last = *offset;
        }
        assert_eq!((columns.timestamps.len(), columns.timestamp_types.len()), (count, count));
        for fields in [&columns.keys, &columns.values, &columns.headers] {
            assert_eq!(fields.offsets.len(), count + 1);
            assert!([0, count.div_ceil(8)].contains(&fields.validity.len()), "seed {seed}, try {tries}");
            assert_eq!(fields.nulls(0..count), (0..count).filter(|row| fields.get(*row).is_none()).count());
            assert!(fields.offsets.is_sorted());
            assert_eq!(*fields.offsets.last().unwrap() as usize, fields.data.len());
        }
        assert_eq!(rows(&columns).len(), count);
        assert!(glance(&data, request.position).1 >= 0);
    }
    assert!(tries > 1000 && sound > 100, "{tries} tries, of which {sound} made columns");
}
