//! A chain of codecs, and the stored form of a subchunk (docs/transforms.md).
//!
//! An empty chain is identity: the stored bytes are the data, nothing more.
//! Any other chain puts one byte in front: format version and mode. Data that
//! the codecs would enlarge is stored raw behind that byte, so a stored
//! subchunk is never more than one byte longer than its data, and its parts
//! stay readable by themselves.

use std::ops::Range;
use std::sync::Arc;

use crate::codec::built_in;
use crate::scratch::set_len_reusing;
use crate::text::{CodecSpec, ListItem};
use crate::{Codec, Logical, MAX_DECODED_LEN, Scratch, TransformError};

const MAX_CODECS: usize = 8;
const VERSION: u8 = 1;
/// First byte of a subchunk whose data follows as it is.
const RAW: u8 = VERSION << 4;
/// First byte of a subchunk that every codec of the chain encoded; no single flipped bit makes it [`RAW`].
const CODED: u8 = VERSION << 4 | 0xF;
const HEADER_LEN: u64 = 1;

/// Codecs applied one after the other when encoding, and backwards when decoding.
#[derive(Clone, Debug)]
pub struct Chain {
    codecs: Vec<Arc<dyn Codec>>,
}

/// What a planned partial read brought, for [`Chain::decode_part`].
#[derive(Clone, Debug)]
pub struct Part<'a> {
    /// Length of the whole stored subchunk.
    pub stored_len: u64,
    /// What [`Chain::meta`] gave for this subchunk, or empty if it was not kept; as given to [`Chain::plan_read`].
    pub meta: &'a [u8],
    /// Length of the whole decoded subchunk.
    pub decoded_len: usize,
    /// The decoded bytes wanted, as given to [`Chain::plan_read`].
    pub wanted: Range<u64>,
    /// The planned ranges, concatenated.
    pub fetched: &'a [u8],
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

    /// Longest stored form of `len` bytes.
    pub fn max_encoded_len(&self, len: usize) -> usize {
        len.saturating_add(if self.is_identity() { 0 } else { HEADER_LEN as usize })
    }

    /// The bytes at the head of a stored subchunk that are worth keeping in an index: they let
    /// [`Chain::plan_read`] ask for a part where the subchunk allows it.
    pub fn meta<'a>(&self, stored: &'a [u8]) -> &'a [u8] {
        if self.is_identity() { &[] } else { stored.get(..HEADER_LEN as usize).unwrap_or_default() }
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

    /// Which ranges of the stored bytes decoding the bytes `wanted` needs, ascending.
    ///
    /// `meta` is what [`Chain::meta`] gave for this subchunk, or empty if
    /// unknown; then anything but identity answers with the whole.
    pub fn plan_read(
        &self,
        stored_len: u64,
        meta: &[u8],
        logical: &Logical,
        wanted: Range<u64>,
    ) -> Vec<Range<u64>> {
        if wanted.is_empty() {
            return Vec::new();
        }
        let after_header = |range: Range<u64>| {
            range.start.saturating_add(HEADER_LEN).min(stored_len)
                ..range.end.saturating_add(HEADER_LEN).min(stored_len)
        };
        let one = |range: Range<u64>| std::iter::once(range).collect();
        match (self.codecs.as_slice(), meta.first()) {
            ([], _) => one(wanted.start.min(stored_len)..wanted.end.min(stored_len)),
            (_, Some(&RAW)) => one(after_header(wanted)),
            ([only], Some(&CODED)) if only.transparent().is_some() => {
                let encoded_len = stored_len.saturating_sub(HEADER_LEN);
                let ranges = only.transparent().map(|codec| codec.plan_read(encoded_len, logical, wanted));
                ranges.into_iter().flatten().map(after_header).collect()
            }
            _ => one(0..stored_len),
        }
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

    /// Decodes what a planned read brought: fills `out` with the decoded bytes `part.wanted`.
    ///
    /// An opaque subchunk is decoded whole into `scratch`, then cut.
    pub fn decode_part(
        &self,
        part: &Part<'_>,
        logical: &Logical,
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        check_len(part.decoded_len)?;
        let Range { start, end } = part.wanted;
        if start > end || end > part.decoded_len as u64 || end - start != out.len() as u64 {
            let problem = format!("bytes {start}..{end} of {} do not fill {}", part.decoded_len, out.len());
            return Err(TransformError::InvalidArgument(problem));
        }
        if out.is_empty() {
            return Ok(());
        }
        if part.stored_len > self.max_encoded_len(part.decoded_len) as u64 {
            let what = format!("{} bytes stored for {} decoded ones", part.stored_len, part.decoded_len);
            return Err(TransformError::corrupt(what, 0));
        }
        let ranges = self.plan_read(part.stored_len, part.meta, logical, part.wanted.clone());
        let planned = ranges.iter().fold(0u64, |sum, range| sum.saturating_add(range.end - range.start));
        if planned != part.fetched.len() as u64 {
            let problem = format!("{} bytes fetched, {planned} were planned", part.fetched.len());
            return Err(TransformError::InvalidArgument(problem));
        }
        match (self.codecs.as_slice(), part.meta.first()) {
            ([], _) | (_, Some(&RAW)) => copy_exact(part.fetched, out, start),
            ([only], Some(&CODED)) if only.transparent().is_some() => match only.transparent() {
                Some(codec) => codec.decode_part(
                    part.stored_len.saturating_sub(HEADER_LEN),
                    part.fetched,
                    logical,
                    part.wanted.clone(),
                    out,
                    scratch,
                ),
                None => Ok(()),
            },
            _ => {
                let mut whole = std::mem::take(&mut scratch.whole);
                set_len_reusing(&mut whole, part.decoded_len);
                let result = self.decode(part.fetched, logical, &mut whole, scratch);
                if let (Ok(()), Some(cut)) = (&result, whole.get(start as usize..end as usize)) {
                    out.copy_from_slice(cut);
                }
                scratch.whole = whole;
                result
            }
        }
    }
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
