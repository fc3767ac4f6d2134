//! Damaged bytes are refused or read as some value. No decoder panics or allocates out of proportion to the bytes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use drystone_format::block::decode_block;
use drystone_format::column;
use drystone_format::cursor::Reader;
use drystone_format::dtype::DType;
use drystone_format::frame::{self, FrameKind, Next};
use drystone_format::identity::Identity;
use drystone_format::schema::Schema;
use drystone_format::table;
use drystone_format::value::Value;

use crate::samples::structures;

/// Bytes that a decoder may have in use: for each byte of input, and besides.
const EARNED: (usize, usize) = (1024, 64 * 1024);

/// Counts the bytes that each thread has in use.
struct Counting;

thread_local! {
    static USED: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    let used = USED.get() + bytes;
    USED.set(used);
    PEAK.set(PEAK.get().max(used));
}

// SAFETY: every request is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps `alloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps `dealloc`'s contract.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Bytes in use at the peak of `f`, beyond those before it.
fn peak(f: impl FnOnce()) -> usize {
    let before = USED.get();
    PEAK.set(before);
    f();
    (PEAK.get() - before) as usize
}

/// Marsaglia's xorshift: the same mutations in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n.max(1) as u64) as usize
    }

    fn mutate(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
        const EXTREMES: [u64; 8] = [0, 1, 0x7f, 0xff, 0xffff_ffff, 1 << 40, i64::MAX as u64, u64::MAX];
        for _ in 0..=self.below(3) {
            let at = self.below(bytes.len());
            match self.below(6) {
                _ if bytes.is_empty() => bytes.push(self.below(256) as u8),
                0 => bytes[at] ^= 1 << self.below(8),
                1 => bytes[at] = self.below(256) as u8,
                2 => bytes.truncate(at),
                3 => bytes.insert(at, self.below(256) as u8),
                4 => {
                    let value = EXTREMES[self.below(8)].to_le_bytes();
                    let n = [1, 2, 4, 8][self.below(4)].min(bytes.len() - at);
                    bytes[at..at + n].copy_from_slice(&value[..n]);
                }
                _ => {
                    let from = self.below(other.len());
                    let n = self.below(16).min(other.len() - from).min(bytes.len() - at);
                    bytes[at..at + n].copy_from_slice(&other[from..from + n]);
                }
            }
        }
    }
}

#[test]
fn no_flipped_bit_panics_and_where_a_crc_covers_it_none_passes() {
    for structure in structures() {
        for sample in &structure.samples {
            assert!((structure.sound)(sample), "{}", structure.name);
            // A structure that a CRC covers is damaged at every bit; of a long table, only the beginning.
            let bytes = if structure.covered { sample.len() } else { sample.len().min(600) };
            for bit in 0..bytes * 8 {
                let mut bytes = sample.clone();
                bytes[bit / 8] ^= 1 << (bit % 8);
                let taken = (structure.sound)(&bytes);
                assert!(!(taken && structure.covered), "{}: bit {bit} is not covered", structure.name);
            }
        }
    }
}

#[test]
fn truncated_bytes_are_refused() {
    // Any number of frames is a valid file, and any number of records a valid payload.
    for structure in structures().iter().filter(|s| !matches!(s.name, "file" | "files")) {
        for sample in &structure.samples {
            for len in 0..sample.len() {
                // An identity may lack the newline after its brace, and a trailer its histogram.
                let needless = match structure.name {
                    "identity" => len + 1 == sample.len(),
                    "trailer" => len + 9 >= sample.len(),
                    _ => false,
                };
                let taken = (structure.sound)(&sample[..len]);
                assert!(!taken || needless, "{}: {len} of {} bytes", structure.name, sample.len());
            }
        }
    }
}

#[test]
fn a_torn_file_gives_its_whole_frames_and_no_other() {
    let mut file = Vec::new();
    let payloads: [&[u8]; 3] = [b"first", b"", b"third frame"];
    let mut ends = vec![0];
    for (ordinal, payload) in (0..).zip(payloads) {
        frame::push(&mut file, FrameKind::Group, ordinal, payload);
        ends.push(file.len());
    }
    for len in 0..=file.len() {
        let (mut at, mut ordinal) = (0, 0);
        while let Next::Frame { payload, end, .. } = frame::next(&file[..len], at, ordinal) {
            assert_eq!(payload, payloads[ordinal as usize]);
            (at, ordinal) = (end, ordinal + 1);
        }
        assert_eq!(ordinal as usize, ends.iter().filter(|&&end| end > 0 && end <= len).count());
        let at_end = frame::next(&file[..len], at, ordinal) == Next::End;
        assert_eq!(at_end, ends.contains(&len), "{len}");
    }
}

#[test]
fn a_frame_of_another_ordinal_is_not_taken() {
    let mut file = Vec::new();
    frame::push(&mut file, FrameKind::Group, 7, b"payload");
    assert!(matches!(frame::next(&file, 0, 7), Next::Frame { .. }));
    assert!(matches!(frame::next(&file, 0, 6), Next::Torn(_)));
}

#[test]
fn mutated_bytes_neither_panic_nor_take_memory_they_have_not_earned() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for structure in structures() {
        for i in 0..2800 {
            let n = structure.samples.len();
            let mut bytes = structure.samples[i % n].clone();
            let other = &structure.samples[random.below(n)];
            random.mutate(&mut bytes, other);
            (structure.fuzz)(&bytes);
            let peak = peak(|| _ = (structure.sound)(&bytes));
            // Pieces of a file are accepted on their own; callers bound the length of columns.
            if structure.name != "column" {
                assert!(peak <= EARNED.0 * bytes.len() + EARNED.1, "{}: {peak} bytes", structure.name);
            }
        }
    }
}

#[test]
fn lengths_beyond_the_bytes_are_refused_before_memory_is_taken() {
    let huge = |decode: &dyn Fn() -> bool| assert!(peak(|| assert!(!decode())) < EARNED.1);
    // CBOR: arrays, maps, text and bytes of 2^60 items.
    for major in [0x9bu8, 0xbb, 0x7b, 0x5b] {
        let mut bytes = vec![major];
        bytes.extend_from_slice(&(1u64 << 60).to_be_bytes());
        bytes.resize(100, 0);
        huge(&|| Value::decode(&bytes).is_ok());
        huge(&|| Schema::decode(&bytes).is_ok());
    }
    // A block of 4096 entries, in the fewest bytes that could state them.
    let mut block = 4096u32.to_le_bytes().to_vec();
    block.resize(4095, 0);
    huge(&|| decode_block(&block).is_ok());
    // 2^32 - 1 subchunks.
    let mut bytes = u32::MAX.to_le_bytes().to_vec();
    bytes.resize(1000, 0);
    huge(&|| table::decode(&bytes, u32::MAX.into()).is_ok());
    // A packed column with more values than bytes.
    let mut bytes = vec![3];
    bytes.resize(100, 1);
    huge(&|| column::decode(&mut Reader::new(&bytes), usize::MAX).is_ok());
    // A frame of 2^40 bytes.
    let header = frame::header(FrameKind::Group, 0, 1 << 40, 0);
    huge(&|| matches!(frame::next(&header, 0, 0), Next::Frame { .. }));
}

#[test]
fn nesting_beyond_the_limit_is_refused_and_does_not_exhaust_the_stack() {
    let deep = vec![0x81; 1_000_000];
    assert!(Value::decode(&deep).is_err());
    assert!(DType::decode(&deep).is_err());
    // An unknown key of a map is skipped, however deep its value.
    let mut schema = vec![0xa1, 0x18, 0x63];
    schema.extend(deep);
    schema.push(0);
    assert!(Schema::decode(&schema).is_err());
    let nested = |depth: usize| {
        let mut value = Value::Null;
        (0..depth).for_each(|_| value = Value::List(vec![std::mem::replace(&mut value, Value::Null)]));
        Value::decode(&value.encode()).is_ok()
    };
    assert!(nested(32) && !nested(33));
}

#[test]
fn an_identity_whose_crc_is_not_last_is_refused() {
    let text = r#"{"crc32c": "00000000", "format": "drystone"}"#;
    assert!(Identity::decode(text.as_bytes()).is_err());
}
