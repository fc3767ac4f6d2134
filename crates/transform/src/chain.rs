//! A chain of codecs, and the stored form of a subchunk (docs/transforms.md).
//!
//! An empty chain is identity: the stored bytes are the data, nothing more.
//! Any other chain puts one byte in front: format version and mode. Data that
//! the codecs would enlarge is stored raw behind that byte, so a stored
//! subchunk is never more than one byte longer than its data, and its parts
//! stay readable by themselves; unless the codec is one that may grow.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use crate::codec::built_in;
use crate::scratch::set_len_reusing;
use crate::text::{CodecSpec, ListItem};
use crate::{
    Bound, Codec, Fetched, Found, Indexed, Logical, MAX_DECODED_LEN, MAX_META_LEN, Pieces, Planned, Scratch,
    Stored, TransformError, Transparent, Want,
};

const MAX_CODECS: usize = 8;
const VERSION: u8 = 1;
/// First byte of a subchunk whose data follows as it is.
const RAW: u8 = VERSION << 4;
/// First byte of a subchunk that every codec of the chain encoded; no single flipped bit makes it [`RAW`].
const CODED: u8 = VERSION << 4 | 0xF;
const HEADER_LEN: u64 = 1;
/// Shorter data is read whole anyway: a form that is longer than it is of no use.
const MAY_GROW: usize = 4 << 10;

/// Codecs applied one after the other when encoding, and backwards when decoding.
#[derive(Clone, Debug)]
pub struct Chain {
    codecs: Vec<Arc<dyn Codec>>,
}

impl Chain {
    /// The chain that stores data as it is.
    pub fn identity() -> Chain {
        Chain { codecs: Vec::new() }
    }

    /// Reads transform text, such as `zstd:3` or `shuffle,zstd:1`. Empty text, `none` and `identity` are identity.
    pub fn parse(text: &str) -> Result<Chain, TransformError> {
        Chain::from_specs(&CodecSpec::parse_all(text)?)
    }

    /// Reads a transform given as a list of texts and Zarr codec objects.
    pub fn parse_list(items: &[ListItem]) -> Result<Chain, TransformError> {
        let mut specs = Vec::new();
        for item in items {
            match item {
                ListItem::Text(text) => specs.extend(CodecSpec::parse_all(text)?),
                ListItem::Object { name, configuration } => {
                    specs.push(CodecSpec::from_zarr(name, configuration)?)
                }
            }
        }
        Chain::from_specs(&specs)
    }

    /// A chain of codecs that need not be built in; at most eight.
    pub fn from_codecs(codecs: Vec<Arc<dyn Codec>>) -> Result<Chain, TransformError> {
        if codecs.len() > MAX_CODECS {
            let problem = format!("a chain of {} codecs, at most {MAX_CODECS} are allowed", codecs.len());
            return Err(TransformError::InvalidArgument(problem));
        }
        Ok(Chain { codecs })
    }

    fn from_specs(specs: &[CodecSpec]) -> Result<Chain, TransformError> {
        let mut codecs = Vec::new();
        for spec in specs {
            codecs.extend(built_in(spec)?);
        }
        Chain::from_codecs(codecs)
    }

    /// The text to record with the data: [`Chain::parse`] makes the same chain of it.
    pub fn canonical(&self) -> String {
        if self.is_identity() {
            return "identity".into();
        }
        self.codecs.iter().map(|codec| codec.spec().to_string()).collect::<Vec<_>>().join(",")
    }

    /// The codecs as text has them, in order; nothing for identity.
    pub(crate) fn specs(&self) -> impl Iterator<Item = CodecSpec> {
        self.codecs.iter().map(|codec| codec.spec())
    }

    /// Whether the stored bytes are the data, so that a caller may pass them on without a copy.
    pub fn is_identity(&self) -> bool {
        self.codecs.is_empty()
    }

    /// Whether what is read back may differ from what was written, within the bound of a codec that rounds.
    pub fn is_lossy(&self) -> bool {
        self.codecs.iter().any(|codec| codec.is_lossy())
    }

    /// Whether every codec takes data of this kind; the error names the one that does not, and what to use.
    pub fn check_takes(&self, logical: &Logical) -> Result<(), TransformError> {
        self.encode(&[], logical, &mut Vec::new(), &mut Scratch::new())
    }

    /// Longest stored form of `len` bytes.
    pub fn max_encoded_len(&self, len: usize) -> usize {
        let body = match (self.codecs.as_slice(), self.transparent()) {
            ([only], Some(parts)) if parts.may_grow() && len >= MAY_GROW => {
                only.max_encoded_len(len).max(len)
            }
            _ => len,
        };
        body.saturating_add(if self.is_identity() { 0 } else { HEADER_LEN as usize })
    }

    /// The metadata of a stored subchunk: bytes at its head that are worth keeping beside it, since they let
    /// [`Chain::plan_read`] ask for a part. Empty where only the whole can be read, and for identity, which needs none.
    pub fn meta<'a>(&self, stored: &'a [u8]) -> &'a [u8] {
        let len = match (stored.split_first(), self.transparent()) {
            (Some((&RAW, _)), _) if !self.is_identity() => HEADER_LEN as usize,
            (Some((&CODED, encoded)), Some(codec)) => {
                codec.meta_len(encoded).saturating_add(HEADER_LEN as usize)
            }
            _ => 0,
        };
        if len > MAX_META_LEN { &[] } else { stored.get(..len).unwrap_or_default() }
    }

    /// The codec that can decode parts, if the chain is only that.
    fn transparent(&self) -> Option<&dyn Transparent> {
        match self.codecs.as_slice() {
            [only] => only.transparent(),
            _ => None,
        }
    }

    /// Whether a part, or less than full precision, of some subchunks can be read without the whole.
    pub fn reads_parts(&self) -> bool {
        self.is_identity() || self.transparent().is_some()
    }

    /// Appends the stored form of one subchunk to `out`; on an error `out` is as it was.
    pub fn encode(
        &self,
        data: &[u8],
        logical: &Logical,
        out: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        check_len(data.len())?;
        if self.is_identity() {
            out.extend_from_slice(data);
            return Ok(());
        }
        let start = out.len();
        let mut stages = std::mem::take(&mut scratch.stages);
        let result = self.encode_stages(data, logical, out, &mut stages, scratch);
        scratch.stages = stages;
        if result.is_err() || out.len() - start > self.max_encoded_len(data.len()) {
            out.truncate(start);
        }
        result?;
        if out.len() == start {
            out.push(RAW);
            out.extend_from_slice(data);
        }
        Ok(())
    }

    fn encode_stages(
        &self,
        data: &[u8],
        logical: &Logical,
        out: &mut Vec<u8>,
        stages: &mut [Vec<u8>; 2],
        scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let [from, to] = stages;
        let Some((last, before)) = self.codecs.split_last() else { return Ok(()) };
        out.push(CODED);
        for (i, codec) in before.iter().enumerate() {
            to.clear();
            codec.encode(if i == 0 { data } else { from }, logical, to, scratch)?;
            let len = u32::try_from(to.len()).map_err(|_| TransformError::TooLarge { len: to.len() })?;
            out.extend_from_slice(&len.to_le_bytes());
            std::mem::swap(from, to);
        }
        last.encode(if before.is_empty() { data } else { from }, logical, out, scratch)
    }

    /// Which of the stored bytes the want needs, and how exact the values will be. A subchunk without metadata, or of opaque
    /// codecs, answers with the whole and is exact.
    pub fn plan_read(
        &self,
        stored: &Stored<'_>,
        logical: &Logical,
        want: &Want<'_>,
    ) -> Result<Planned, TransformError> {
        self.check(stored)?;
        let (len, mut last) = (stored.decoded_len as u64, 0);
        for range in want.ranges {
            if range.start < last || range.end < range.start || range.end > len {
                let problem = format!("bytes {}..{} of {len}, after {last}", range.start, range.end);
                return Err(TransformError::InvalidArgument(problem));
            }
            last = range.end;
        }
        let moved = |by: u64, ranges: &[Range<u64>]| -> Vec<Range<u64>> {
            let move_one = |r: &Range<u64>| r.start.saturating_add(by)..r.end.saturating_add(by);
            ranges.iter().filter(|r| !r.is_empty()).map(move_one).collect()
        };
        let mut planned = match self.reading(stored.meta) {
            Reading::Raw(header) => Planned { ranges: moved(header, want.ranges), bound: Bound::EXACT },
            Reading::Parts(codec, meta) => {
                let encoded = Stored { len: stored.len.saturating_sub(HEADER_LEN), meta, ..*stored };
                let Planned { ranges, bound } = codec.plan_read(&encoded, logical, want)?;
                Planned { ranges: moved(HEADER_LEN, &ranges), bound }
            }
            Reading::Whole => {
                Planned { ranges: moved(0, std::slice::from_ref(&(0..stored.len))), bound: Bound::EXACT }
            }
        };
        if want.ranges.iter().all(Range::is_empty) {
            planned.ranges.clear();
        }
        let mut last = 0;
        for range in &planned.ranges {
            if range.start < last || range.end > stored.len {
                let what = format!("bytes {}..{} of {} are to be read", range.start, range.end, stored.len);
                return Err(TransformError::corrupt(what, 0));
            }
            last = range.end;
        }
        Ok(planned)
    }

    /// Decodes what a planned read brought: on return `out`, as long as the whole decoded subchunk, holds what was wanted at its
    /// place. Its other bytes are unspecified; on an error all are.
    pub fn decode_part(
        &self,
        stored: &Stored<'_>,
        fetched: &Fetched<'_>,
        logical: &Logical,
        want: &Want<'_>,
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        self.check(stored)?;
        if out.len() != stored.decoded_len {
            let problem = format!("room for {} of {} decoded bytes", out.len(), stored.decoded_len);
            return Err(TransformError::InvalidArgument(problem));
        }
        if want.ranges.iter().all(Range::is_empty) {
            return Ok(());
        }
        let (codec, meta) = match self.reading(stored.meta) {
            Reading::Whole => return self.decode(fetched.get(0..stored.len)?, logical, out, scratch),
            Reading::Raw(header) => {
                let mut pieces = Pieces::new(out);
                for range in want.ranges {
                    let bytes = fetched.get(range.start + header..range.end + header)?;
                    pieces.place(range.clone())?.copy_from_slice(bytes);
                }
                return pieces.hold(want.ranges);
            }
            Reading::Parts(codec, meta) => (codec, meta),
        };
        let encoded = Stored { len: stored.len.saturating_sub(HEADER_LEN), meta, ..*stored };
        let mut pieces = Pieces::new(out);
        codec.decode_part(&encoded, &fetched.after(HEADER_LEN), logical, want, &mut pieces, scratch)?;
        pieces.hold(want.ranges)
    }

    /// Whether its subchunks may keep an index of their values.
    pub fn has_index(&self) -> bool {
        self.transparent().is_some_and(|codec| codec.indexed().is_some())
    }

    /// Which stored bytes finding the elements between two keys needs; `None` where there is no index.
    pub fn plan_search(
        &self,
        stored: &Stored<'_>,
        logical: &Logical,
        keys: &RangeInclusive<u64>,
    ) -> Result<Option<Vec<Range<u64>>>, TransformError> {
        self.check(stored)?;
        let Some((index, encoded)) = self.index(stored) else { return Ok(None) };
        let ranges = index.plan_search(&encoded, logical, keys)?;
        Ok(Some(ranges.into_iter().map(|r| r.start + HEADER_LEN..r.end + HEADER_LEN).collect()))
    }

    /// Adds the elements between two keys to `found`, from what `plan_search` asked for. Positions are below the number of
    /// elements; each comes with the bytes of a scalar.
    pub fn search(
        &self,
        stored: &Stored<'_>,
        fetched: &Fetched<'_>,
        logical: &Logical,
        keys: &RangeInclusive<u64>,
        found: &mut Found,
    ) -> Result<(), TransformError> {
        self.check(stored)?;
        match self.index(stored) {
            Some((index, encoded)) => {
                index.search(&encoded, &fetched.after(HEADER_LEN), logical, keys, found)
            }
            None => Err(TransformError::InvalidArgument("there is no index to search".into())),
        }
    }

    fn index<'a, 'm>(&'a self, stored: &Stored<'m>) -> Option<(&'a dyn Indexed, Stored<'m>)> {
        match self.reading(stored.meta) {
            Reading::Parts(codec, meta) => Some((
                codec.indexed()?,
                Stored { len: stored.len.saturating_sub(HEADER_LEN), meta, ..*stored },
            )),
            _ => None,
        }
    }

    /// How a subchunk with this metadata is read.
    fn reading<'a, 'm>(&'a self, meta: &'m [u8]) -> Reading<'a, 'm> {
        match (self.is_identity(), meta.split_first(), self.transparent()) {
            (true, ..) => Reading::Raw(0),
            (_, Some((&RAW, _)), _) => Reading::Raw(HEADER_LEN),
            (_, Some((&CODED, meta)), Some(codec)) => Reading::Parts(codec, meta),
            _ => Reading::Whole,
        }
    }

    fn check(&self, stored: &Stored<'_>) -> Result<(), TransformError> {
        check_len(stored.decoded_len)?;
        if stored.len > self.max_encoded_len(stored.decoded_len) as u64 {
            let what = format!("{} bytes stored for {} decoded ones", stored.len, stored.decoded_len);
            return Err(TransformError::corrupt(what, 0));
        }
        Ok(())
    }

    /// Decodes one whole stored subchunk into `out`, whose length is the exact decoded size.
    ///
    /// On an error the content of `out` is unspecified.
    pub fn decode(
        &self,
        stored: &[u8],
        logical: &Logical,
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        check_len(out.len())?;
        if self.is_identity() {
            return copy_exact(stored, out, 0);
        }
        if stored.len() > self.max_encoded_len(out.len()) {
            let what = format!("{} bytes stored for {} decoded ones", stored.len(), out.len());
            return Err(TransformError::corrupt(what, 0));
        }
        let Some((&mode, body)) = stored.split_first() else {
            return Err(TransformError::corrupt("nothing stored, expected at least the mode byte", 0));
        };
        match mode {
            RAW => copy_exact(body, out, HEADER_LEN),
            CODED => {
                let mut stages = std::mem::take(&mut scratch.stages);
                let result = self.decode_stages(body, logical, out, &mut stages, scratch);
                scratch.stages = stages;
                result
            }
            _ if mode >> 4 > VERSION => {
                Err(TransformError::Unsupported { what: format!("subchunk version {}", mode >> 4) })
            }
            _ => Err(TransformError::corrupt(format!("unknown mode byte {mode:#04x}"), 0)),
        }
    }

    fn decode_stages(
        &self,
        body: &[u8],
        logical: &Logical,
        out: &mut [u8],
        stages: &mut [Vec<u8>; 2],
        scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let [from, to] = stages;
        let Some((first, after)) = self.codecs.split_first() else { return Ok(()) };
        // lens[i] is the length after codec i; each is bounded by what codec i can make of the one before.
        let mut lens = [0usize; MAX_CODECS];
        let mut rest = body;
        let mut bound = out.len();
        for (i, codec) in self.codecs.iter().enumerate() {
            let at = HEADER_LEN + 4 * i as u64;
            bound = codec.max_encoded_len(bound);
            let len = if i == after.len() {
                rest.len()
            } else {
                let (head, tail) = rest
                    .split_first_chunk::<4>()
                    .ok_or_else(|| TransformError::corrupt("ends within the stage lengths", at))?;
                rest = tail;
                u32::from_le_bytes(*head) as usize
            };
            if len > bound {
                let what = format!("{len} bytes after codec {i}, at most {bound} are possible");
                return Err(TransformError::corrupt(what, at));
            }
            if let Some(kept) = lens.get_mut(i) {
                *kept = len;
            }
            bound = len;
        }
        let mut encoded = rest;
        for (codec, &len) in after.iter().zip(&lens).rev() {
            set_len_reusing(to, len);
            codec.decode(encoded, logical, to, scratch)?;
            std::mem::swap(from, to);
            encoded = from;
        }
        first.decode(encoded, logical, out, scratch)
    }
}

/// How the parts of a subchunk are read.
enum Reading<'a, 'm> {
    /// The data stands as it is, after so many bytes.
    Raw(u64),
    /// By a transparent codec, with its metadata.
    Parts(&'a dyn Transparent, &'m [u8]),
    /// Only as a whole.
    Whole,
}

fn check_len(len: usize) -> Result<(), TransformError> {
    if len > MAX_DECODED_LEN { Err(TransformError::TooLarge { len }) } else { Ok(()) }
}

fn copy_exact(from: &[u8], out: &mut [u8], at: u64) -> Result<(), TransformError> {
    if from.len() != out.len() {
        let what = format!("{} raw bytes, expected {}", from.len(), out.len());
        return Err(TransformError::corrupt(what, at));
    }
    out.copy_from_slice(from);
    Ok(())
}
