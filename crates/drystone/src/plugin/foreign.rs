//! A codec of a plug-in with its parameters, behind the engine's codec trait.

use std::ffi::{CStr, CString, c_char, c_void};
use std::ops::Range;

use drystone_transform::stats::ScalarKind;
use drystone_transform::{
    Bound, Codec, CodecSpec, Fetched, Logical, MAX_META_LEN, Pieces, Planned, Precision, Scratch,
    StoredSubchunk, TransformError, Transparent, Want,
};

use super::abi;

type Result<T> = std::result::Result<T, TransformError>;

/// Bytes after the buffer that a codec receives. They detect writes beyond its end.
const GUARD: [u8; 16] = *b"drystone guards.";
/// The most ranges that a codec may request.
const MOST_RANGES: usize = 1 << 20;
/// The most bytes of an error message that are kept.
const MOST_SAID: usize = 1000;
/// The greatest length of the encoded form is three times the decoded length, plus this.
const MOST_MORE: usize = 64 << 10;

/// An opened codec.
pub(super) struct Foreign {
    table: abi::Codec,
    state: *mut c_void,
    spec: CodecSpec,
}

// SAFETY: the header requires plug-ins to accept calls from several threads with the same state, which they do not
// change.
unsafe impl Send for Foreign {}
// SAFETY: as above.
unsafe impl Sync for Foreign {}

impl std::fmt::Debug for Foreign {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of a plug-in", self.spec)
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        if let Some(close) = self.table.close.filter(|_| !self.state.is_null()) {
            // SAFETY: the state is the one that `open` returned, and is not used after this.
            unsafe { close(self.state) }
        }
    }
}

/// Receives the plug-in's error message.
#[derive(Default)]
struct Said(String);

extern "C" fn say(context: *mut c_void, sentence: *const c_char) {
    if sentence.is_null() {
        return;
    }
    // SAFETY: the context is the `Said` from which `host` was made, and nothing else uses it during the call. The
    // header requires the sentence to be a text that ends with NUL.
    let (said, text) = unsafe { (&mut *context.cast::<Said>(), CStr::from_ptr(sentence)) };
    said.0 = text.to_string_lossy().chars().take(MOST_SAID).collect();
}

fn host(said: &mut Said) -> abi::Host {
    let context = std::ptr::from_mut(said).cast();
    abi::Host { struct_size: size_of::<abi::Host>() as u32, reserved: 0, context, say }
}

/// Collects the ranges that a codec requests.
struct Asked {
    ranges: Vec<Range<u64>>,
    bound: Bound,
    len: u64,
    wrong: bool,
}

extern "C" fn read(context: *mut c_void, start: u64, end: u64) -> i32 {
    // SAFETY: the context is the `Asked` of the call in progress.
    let asked = unsafe { &mut *context.cast::<Asked>() };
    let last = asked.ranges.last().map_or(0, |range| range.end);
    if start < last || end < start || end > asked.len || asked.ranges.len() >= MOST_RANGES {
        asked.wrong = true;
        return abi::INVALID;
    }
    if start < end {
        drystone_transform::ranges::join(&mut asked.ranges, start..end, 0);
    }
    abi::OK
}

extern "C" fn bound(context: *mut c_void, absolute: f64, relative: f64) {
    // SAFETY: the context is the `Asked` of the call in progress.
    let asked = unsafe { &mut *context.cast::<Asked>() };
    // An impossible bound counts as no bound.
    let known = |error: f64| if error >= 0.0 { error } else { f64::INFINITY };
    asked.bound = Bound { absolute: known(absolute), relative: known(relative) };
}

/// The input and the output of a codec's decoding.
struct Open<'a, 'f, 'p> {
    fetched: &'a Fetched<'f>,
    pieces: &'a mut Pieces<'p>,
}

extern "C" fn fetched(context: *mut c_void, start: u64, end: u64) -> *const u8 {
    // SAFETY: the context is the `Open` of the call in progress.
    let open = unsafe { &mut *context.cast::<Open<'_, '_, '_>>() };
    if start > end {
        return std::ptr::null();
    }
    open.fetched.get(start..end).map_or(std::ptr::null(), <[u8]>::as_ptr)
}

extern "C" fn place(context: *mut c_void, start: u64, end: u64) -> *mut u8 {
    // SAFETY: the context is the `Open` of the call in progress.
    let open = unsafe { &mut *context.cast::<Open<'_, '_, '_>>() };
    open.pieces.place(start..end).map_or(std::ptr::null_mut(), <[u8]>::as_mut_ptr)
}

fn kind_code(kind: ScalarKind) -> u32 {
    match kind {
        ScalarKind::Other => 0,
        ScalarKind::Bool => 1,
        ScalarKind::I8 => 2,
        ScalarKind::I16 => 3,
        ScalarKind::I32 => 4,
        ScalarKind::I64 => 5,
        ScalarKind::U8 => 6,
        ScalarKind::U16 => 7,
        ScalarKind::U32 => 8,
        ScalarKind::U64 => 9,
        ScalarKind::F16 => 10,
        ScalarKind::BF16 => 11,
        ScalarKind::F32 => 12,
        ScalarKind::F64 => 13,
    }
}

fn subchunk(logical: &Logical) -> abi::Subchunk {
    abi::Subchunk {
        struct_size: size_of::<abi::Subchunk>() as u32,
        kind: kind_code(logical.kind),
        element_size: logical.item as u64,
        scalar_size: logical.scalar as u64,
        ndim: logical.shape.len() as u64,
        shape: logical.shape.as_ptr(),
    }
}

fn stored_form(stored: &StoredSubchunk<'_>) -> abi::Stored {
    abi::Stored {
        struct_size: size_of::<abi::Stored>() as u32,
        reserved: 0,
        length: stored.len,
        decoded_length: stored.decoded_len as u64,
        meta: stored.meta.as_ptr(),
        meta_length: stored.meta.len() as u64,
    }
}

fn want_form(precision: Precision, ranges: &[abi::ByteRange]) -> abi::Want {
    let (code, max_error, level) = match precision {
        Precision::Exact => (0, 0.0, 0),
        Precision::Absolute(error) => (1, error, 0),
        Precision::Relative(error) => (2, error, 0),
        Precision::Level(level) => (3, 0.0, level),
    };
    abi::Want {
        struct_size: size_of::<abi::Want>() as u32,
        precision: code,
        max_error,
        level,
        reserved: 0,
        count: ranges.len() as u64,
        ranges: ranges.as_ptr(),
    }
}

fn byte_ranges(want: &Want<'_>) -> Vec<abi::ByteRange> {
    want.ranges.iter().map(|r| abi::ByteRange { start: r.start, end: r.end }).collect()
}

impl Foreign {
    pub(super) fn open(table: &abi::Codec, spec: &CodecSpec) -> Result<Foreign> {
        let mut foreign = Foreign { table: *table, state: std::ptr::null_mut(), spec: spec.clone() };
        let bad = |problem: String| TransformError::BadParameter { codec: spec.name.clone(), problem };
        let Some(open) = table.open else {
            return match spec.params.first() {
                None => Ok(foreign),
                Some(param) => Err(bad(format!("takes no parameters, found {param}"))),
            };
        };
        let text = spec.to_string();
        let parameters = text.get(spec.name.len() + 1..).unwrap_or_default();
        let parameters = CString::new(parameters).map_err(|_| bad("a parameter with a NUL in it".into()))?;
        let mut said = Said::default();
        // SAFETY: a function of the plug-in, called as the header says.
        let status = unsafe { open(parameters.as_ptr(), &raw mut foreign.state, &host(&mut said)) };
        if status == abi::OK {
            return Ok(foreign);
        }
        let state = std::mem::replace(&mut foreign.state, std::ptr::null_mut());
        debug_assert!(state.is_null() || status != abi::OK);
        Err(bad(if said.0.is_empty() { format!("refuses {parameters:?}") } else { said.0 }))
    }

    /// The error that a status denotes. With `encoding` it blames the codec or its parameters, otherwise the bytes.
    fn status(&self, status: i32, said: Said, encoding: bool) -> Result<()> {
        let codec = self.spec.name.clone();
        let what = if said.0.is_empty() { format!("status {status}") } else { said.0 };
        match status {
            abi::OK => Ok(()),
            abi::UNSUPPORTED => Err(TransformError::Unsupported { what: format!("{codec}: {what}") }),
            abi::DAMAGED if !encoding => {
                Err(TransformError::Corrupt { what: format!("{codec}: {what}"), at: 0 })
            }
            abi::INVALID if encoding => Err(TransformError::BadParameter { codec, problem: what }),
            _ if encoding => Err(TransformError::Encode { codec, problem: what }),
            _ => Err(TransformError::Corrupt { what: format!("{codec}: {what}"), at: 0 }),
        }
    }

    fn corrupt(&self, what: &str) -> TransformError {
        TransformError::Corrupt { what: format!("{} {what}", self.spec.name), at: 0 }
    }
}

impl Codec for Foreign {
    fn spec(&self) -> CodecSpec {
        self.spec.clone()
    }

    fn max_encoded_len(&self, decoded_len: usize) -> usize {
        let Some(most) = self.table.max_encoded_length else { return decoded_len };
        // SAFETY: a function of the plug-in, called as the header says.
        let most = unsafe { most(self.state, decoded_len as u64) };
        usize::try_from(most)
            .unwrap_or(usize::MAX)
            .min(decoded_len.saturating_mul(3).saturating_add(MOST_MORE))
    }

    fn encode(
        &self,
        data: &[u8],
        logical: &Logical,
        out: &mut Vec<u8>,
        _scratch: &mut Scratch,
    ) -> Result<()> {
        let Some(encode) = self.table.encode else { return Err(self.corrupt("has no encode")) };
        let (start, room) = (out.len(), self.max_encoded_len(data.len()));
        out.resize(start + room, 0);
        out.extend_from_slice(&GUARD);
        let (mut written, mut said) = (0, Said::default());
        let place = out.get_mut(start..).map_or(std::ptr::null_mut(), <[u8]>::as_mut_ptr);
        // SAFETY: a function of the plug-in, called as the header requires; `place` has `room` bytes, followed by the
        // guard.
        let status = unsafe {
            let (subchunk, len) = (subchunk(logical), data.len() as u64);
            let host = host(&mut said);
            encode(self.state, &subchunk, data.as_ptr(), len, place, room as u64, &mut written, &host)
        };
        let kept = out.get(start + room..) == Some(&GUARD[..]) && written <= room as u64;
        out.truncate(start + if kept && status == abi::OK { written as usize } else { 0 });
        if !kept {
            let problem = format!("the plug-in wrote more than the {room} bytes it was given");
            return Err(TransformError::Encode { codec: self.spec.name.clone(), problem });
        }
        self.status(status, said, true)
    }

    fn decode(
        &self,
        encoded: &[u8],
        logical: &Logical,
        out: &mut [u8],
        _scratch: &mut Scratch,
    ) -> Result<()> {
        let Some(decode) = self.table.decode else { return Err(self.corrupt("has no decode")) };
        let mut said = Said::default();
        let (place, len) = (out.as_mut_ptr(), out.len() as u64);
        // SAFETY: a function of the plug-in, called as the header says.
        let status = unsafe {
            let (subchunk, host) = (subchunk(logical), host(&mut said));
            decode(self.state, &subchunk, encoded.as_ptr(), encoded.len() as u64, place, len, &host)
        };
        self.status(status, said, false)
    }

    fn is_lossy(&self) -> bool {
        self.table.flags & abi::LOSSY != 0
    }

    fn transparent(&self) -> Option<&dyn Transparent> {
        self.table.plan_read.map(|_| self as &dyn Transparent)
    }
}

impl Transparent for Foreign {
    fn meta_len(&self, encoded: &[u8]) -> usize {
        let Some(meta) = self.table.meta_length else { return 0 };
        // SAFETY: a function of the plug-in, called as the header says.
        let len = unsafe { meta(self.state, encoded.as_ptr(), encoded.len() as u64) };
        usize::try_from(len).unwrap_or(usize::MAX).min(MAX_META_LEN + 1)
    }

    fn may_grow(&self) -> bool {
        self.table.flags & abi::MAY_GROW != 0
    }

    fn keeps_values(&self) -> bool {
        self.table.flags & abi::KEEPS_VALUES != 0
    }

    fn plan_read(&self, stored: &StoredSubchunk<'_>, logical: &Logical, want: &Want<'_>) -> Result<Planned> {
        let Some(plan_read) = self.table.plan_read else { return Err(self.corrupt("has no plan_read")) };
        let mut asked = Asked { ranges: Vec::new(), bound: Bound::EXACT, len: stored.len, wrong: false };
        let (mut said, ranges) = (Said::default(), byte_ranges(want));
        let plan = abi::Plan {
            struct_size: size_of::<abi::Plan>() as u32,
            reserved: 0,
            context: (&raw mut asked).cast(),
            read,
            bound,
        };
        // SAFETY: a function of the plug-in, called as the header requires; nothing else uses `asked` during the
        // call.
        let status = unsafe {
            let (subchunk, stored, want) =
                (subchunk(logical), stored_form(stored), want_form(want.precision, &ranges));
            plan_read(self.state, &subchunk, &stored, &want, &plan, &host(&mut said))
        };
        if asked.wrong {
            return Err(self.corrupt("asks for bytes that do not ascend, are too many, or do not exist"));
        }
        self.status(status, said, false)?;
        Ok(Planned { ranges: asked.ranges, bound: asked.bound })
    }

    fn decode_part(
        &self,
        stored: &StoredSubchunk<'_>,
        from: &Fetched<'_>,
        logical: &Logical,
        want: &Want<'_>,
        pieces: &mut Pieces<'_>,
        _scratch: &mut Scratch,
    ) -> Result<()> {
        let Some(decode) = self.table.decode_part else { return Err(self.corrupt("has no decode_part")) };
        let (mut said, ranges) = (Said::default(), byte_ranges(want));
        let mut open = Open { fetched: from, pieces };
        let parts = abi::Parts {
            struct_size: size_of::<abi::Parts>() as u32,
            reserved: 0,
            context: (&raw mut open).cast(),
            fetched,
            place,
        };
        // SAFETY: a function of the plug-in, called as the header requires; nothing else uses `open` during the call.
        let status = unsafe {
            let (subchunk, stored, want) =
                (subchunk(logical), stored_form(stored), want_form(want.precision, &ranges));
            decode(self.state, &subchunk, &stored, &want, &parts, &host(&mut said))
        };
        self.status(status, said, false)
    }
}
