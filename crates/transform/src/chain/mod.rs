//! A chain of codecs, and the stored form of a subchunk (docs/format/encodings.md).
//!
//! An empty chain is identity: the stored bytes are the data, nothing more. Any other chain prepends one byte: format
//! version and mode. Data that the codecs would enlarge is stored raw behind that byte. So a stored subchunk is at most
//! one byte longer than its data, and its parts stay readable by themselves. A codec that may expand is the exception.

mod parts;

use std::sync::Arc;

use crate::builtin;
use crate::scratch::set_len_reusing;
use crate::stats::Magnitudes;
use crate::text::{CodecSpec, ListItem};
use crate::{Bound, Codec, Logical, MAX_DECODED_LEN, MAX_META_LEN, Prefix, Scratch, TransformError};

const MAX_CODECS: usize = 8;
const VERSION: u8 = 1;
/// First byte of a subchunk whose data follows unencoded.
const RAW: u8 = VERSION << 4;
/// First byte of a subchunk that every codec of the chain encoded. No single flipped bit turns it into [`RAW`].
const CODED: u8 = VERSION << 4 | 0xF;
const HEADER_LEN: u64 = 1;
/// Shorter data is read whole in any case, so an expanded form is useless for it.
const MAY_GROW: usize = 4 << 10;

/// Codecs applied one after the other when encoding, and in reverse order when decoding.
#[derive(Clone, Debug)]
pub struct Chain {
    codecs: Vec<Arc<dyn Codec>>,
}

impl Chain {
    /// The encoded bytes in the stored form of a chain other than identity; `None` if the data was stored raw because
    /// the codecs would have enlarged it.
    pub fn coded_bytes(stored: &[u8]) -> Option<&[u8]> {
        stored.split_first().filter(|(head, _)| **head == CODED).map(|(_, bytes)| bytes)
    }

    /// The chain that stores data raw.
    pub fn identity() -> Chain {
        Chain { codecs: Vec::new() }
    }

    /// Parses transform text, such as `zstd:3` or `shuffle,zstd:1`. Empty text, `none` and `identity` are
    /// identity.
    pub fn parse(text: &str) -> Result<Chain, TransformError> {
        Chain::from_specs(&CodecSpec::parse_all(text)?)
    }

    /// Parses a transform given as a list of texts and Zarr codec objects.
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

    /// A chain of codecs that need not be built in; at most eight codecs.
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
            codecs.extend(builtin::find(spec)?);
        }
        Chain::from_codecs(codecs)
    }

    /// The text to record with the data; [`Chain::parse`] makes the same chain from it.
    pub fn canonical(&self) -> String {
        if self.is_identity() {
            return "identity".into();
        }
        self.codecs.iter().map(|codec| codec.spec().to_string()).collect::<Vec<_>>().join(",")
    }

    /// The codecs in order, as they appear in text; none for identity.
    pub(crate) fn specs(&self) -> impl Iterator<Item = CodecSpec> {
        self.codecs.iter().map(|codec| codec.spec())
    }

    /// Whether the stored bytes are the data, so that a caller may pass them on without a copy.
    pub fn is_identity(&self) -> bool {
        self.codecs.is_empty()
    }

    /// Whether decoded data may differ from the original, within the bound of a codec that rounds.
    pub fn is_lossy(&self) -> bool {
        self.codecs.iter().any(|codec| codec.is_lossy())
    }

    /// The largest error that the codecs guarantee for a decoded subchunk. `magnitudes` are those of the decoded
    /// numbers.
    pub fn loss(&self, logical: &Logical, magnitudes: Magnitudes) -> Bound {
        let Magnitudes { least, mut greatest } = magnitudes;
        let mut all = Bound::EXACT;
        for (i, codec) in self.codecs.iter().enumerate().rev().filter(|(_, codec)| codec.is_lossy()) {
            let keeps =
                |codec: &Arc<dyn Codec>| codec.transparent().is_some_and(|parts| parts.keeps_values());
            // After a codec that moves bytes, a later codec rounds other numbers than the caller's.
            let sees_values = self.codecs.iter().take(i).all(keeps);
            let own = if sees_values { codec.loss(logical, greatest) } else { Bound::UNKNOWN };
            greatest += own.absolute;
            all = all.after(own);
        }
        let smallest = (least - all.absolute).max(logical.kind.least_normal());
        if all != Bound::EXACT && least > all.absolute && smallest > 0.0 {
            all.relative = all.relative.min(all.absolute / smallest);
        }
        all
    }

    /// Checks that every codec accepts data of this kind. The error names the codec that does not, and what to use
    /// instead.
    pub fn check_takes(&self, logical: &Logical) -> Result<(), TransformError> {
        self.encode(&[], logical, &mut Vec::new(), &mut Scratch::new())
    }

    /// Longest stored form of `len` bytes.
    pub fn max_encoded_len(&self, len: usize) -> usize {
        let body = if len >= MAY_GROW && self.may_grow() {
            let lengths = 4 * (self.codecs.len() - 1);
            let all = self.codecs.iter().fold(len, |len, codec| codec.max_encoded_len(len));
            all.saturating_add(lengths).max(len)
        } else {
            len
        };
        body.saturating_add(if self.is_identity() { 0 } else { HEADER_LEN as usize })
    }

    /// Whether an expanded form may be kept: every codec can be read in part, and some codec makes that worth it.
    fn may_grow(&self) -> bool {
        let growing = |codec: &Arc<dyn Codec>| codec.transparent().is_some_and(|parts| parts.may_grow());
        self.all_read_parts() && self.codecs.iter().filter(|codec| growing(codec)).count() == 1
    }

    /// Whether some subchunks can be read in part, or at reduced precision, without the rest.
    pub fn reads_parts(&self) -> bool {
        self.is_identity() || self.all_read_parts()
    }

    fn all_read_parts(&self) -> bool {
        !self.is_identity() && self.codecs.iter().all(|codec| codec.transparent().is_some())
    }

    /// The metadata at the head of a stored subchunk, for a chain of one codec, or for raw data. It is empty for data
    /// that can only be read whole. For a chain of several codecs it is always empty here; only
    /// [`Chain::encode_keeping`] returns their metadata.
    pub fn meta<'a>(&self, stored: &'a [u8]) -> &'a [u8] {
        let len = match (stored.split_first(), self.codecs.as_slice()) {
            (Some((&RAW, _)), [_, ..]) => HEADER_LEN as usize,
            (Some((&CODED, encoded)), [only]) => only
                .transparent()
                .map_or(0, |parts| parts.meta_len(encoded).saturating_add(HEADER_LEN as usize)),
            _ => 0,
        };
        if len > MAX_META_LEN { &[] } else { stored.get(..len).unwrap_or_default() }
    }

    /// The prefix of a stored subchunk of `decoded_len` bytes from which all of it can be read at reduced precision, if
    /// the chain is one codec that has such a prefix. It begins with the bytes of [`Chain::meta`], and may replace
    /// them.
    pub fn prefix(&self, stored: &[u8], decoded_len: usize) -> Option<Prefix> {
        let (Some((&CODED, encoded)), [only]) = (stored.split_first(), self.codecs.as_slice()) else {
            return None;
        };
        let prefix = only.transparent()?.prefix(encoded, decoded_len)?;
        Some(Prefix { len: prefix.len.saturating_add(HEADER_LEN as usize), ..prefix })
    }

    /// Appends the stored form of one subchunk to `out`. On an error `out` is unchanged.
    pub fn encode(
        &self,
        data: &[u8],
        logical: &Logical,
        out: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        self.encode_keeping(data, logical, out, &mut Vec::new(), scratch)
    }

    /// Like [`Chain::encode`]; also sets `meta` to the subchunk's metadata, to be kept beside it, with which
    /// [`Chain::plan_read`] can plan a partial read. It is empty if only the whole can be read, and for identity, which
    /// needs none.
    pub fn encode_keeping(
        &self,
        data: &[u8],
        logical: &Logical,
        out: &mut Vec<u8>,
        meta: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        check_len(data.len())?;
        meta.clear();
        if self.is_identity() {
            out.extend_from_slice(data);
            return Ok(());
        }
        let start = out.len();
        let mut stages = std::mem::take(&mut scratch.stages);
        let result = self.encode_stages(data, logical, (&mut *out, &mut *meta), &mut stages, scratch);
        scratch.stages = stages;
        if result.is_err() || out.len() - start > self.max_encoded_len(data.len()) {
            out.truncate(start);
        }
        result?;
        if out.len() == start {
            out.push(RAW);
            out.extend_from_slice(data);
            meta.clear();
            meta.push(RAW);
        } else if meta.len() > MAX_META_LEN {
            meta.clear();
        }
        Ok(())
    }

    fn encode_stages(
        &self,
        data: &[u8],
        logical: &Logical,
        (out, meta): (&mut Vec<u8>, &mut Vec<u8>),
        stages: &mut [Vec<u8>; 2],
        scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let [from, to] = stages;
        let Some((last, before)) = self.codecs.split_last() else { return Ok(()) };
        let mut heads = self.all_read_parts().then(|| parts::Heads::new(before.len()));
        out.push(CODED);
        scratch.alike = None;
        for (i, codec) in before.iter().enumerate() {
            to.clear();
            codec.encode(if i == 0 { data } else { from }, logical, to, scratch)?;
            scratch.alike = codec.alike(to.len(), logical);
            let len = u32::try_from(to.len()).map_err(|_| TransformError::TooLarge { len: to.len() })?;
            out.extend_from_slice(&len.to_le_bytes());
            if let Some(heads) = &mut heads {
                heads.stage(codec.as_ref(), to, meta);
            }
            std::mem::swap(from, to);
        }
        let start = out.len();
        let encoded = last.encode(if before.is_empty() { data } else { from }, logical, out, scratch);
        scratch.alike = None;
        encoded?;
        if let Some(heads) = heads {
            heads.last(last.as_ref(), out, start, meta);
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
        // lens[i] is the length after codec i. Each is bounded by the longest output of codec i for its input.
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
