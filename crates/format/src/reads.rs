//! The reads that a container has seen, by variable (docs/format/reads.md): a hint for layouts, which no read needs.
//!
//! Any process may replace the object as a whole; it may be missing, old or damaged at any time.

use crate::cbor::{Sink, Source};
use crate::{Corrupt, MAX_NDIM, crc32c};

/// Most variables that are kept.
pub const MOST_VARIABLES: usize = 256;
/// Most kinds of reads that are kept per variable.
pub const MOST_KINDS: usize = 16;
/// Greatest length of the object.
pub const MOST_LEN: u64 = 1 << 20;
/// Greatest weight.
pub const MOST_WEIGHT: u64 = 1 << 32;

/// Reads of one extent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadShape {
    /// The frequency; only ratios of frequencies have a meaning.
    pub weight: u64,
    /// Cells along each axis, the step axis first if there is one; 0 is the whole axis.
    pub extents: Vec<u64>,
}

/// The reads of one variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reads {
    /// The variable's uid, which a renaming keeps.
    pub uid: u64,
    /// Kinds of reads, the most frequent first.
    pub kinds: Vec<ReadShape>,
}

/// The bytes of the object. Items beyond the limits are dropped.
pub fn encode(all: &[Reads]) -> Vec<u8> {
    let mut out = Sink::new();
    let all = &all[..all.len().min(MOST_VARIABLES)];
    out.array(all.len());
    for reads in all {
        let kinds = &reads.kinds[..reads.kinds.len().min(MOST_KINDS)];
        out.map(2).u64(0).u64(reads.uid).u64(1).array(kinds.len());
        for kind in kinds {
            out.array(2).u64(kind.weight.min(MOST_WEIGHT)).array(kind.extents.len());
            kind.extents.iter().for_each(|n| _ = out.u64(*n));
        }
    }
    let mut bytes = out.finish();
    let check = crc32c(&bytes);
    bytes.extend_from_slice(&check.to_le_bytes());
    bytes
}

/// Reads the object.
pub fn decode(bytes: &[u8]) -> Result<Vec<Reads>, Corrupt> {
    let sound = bytes.split_last_chunk::<4>().filter(|(body, check)| crc32c(body).to_le_bytes() == **check);
    let Some((body, _)) = sound else { return Err(Corrupt::new("the reads seen fail their CRC", 0)) };
    let mut source = Source::new(body);
    let all = source.list(|source| {
        let (mut uid, mut kinds) = (None, None);
        source.fields(|source, key| {
            match key {
                0 => uid = Some(source.u64()?),
                1 => kinds = Some(source.list(kind)?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        let kinds = source.need(kinds, "kinds of reads")?;
        if kinds.len() > MOST_KINDS {
            return Err(source.corrupt(format!("{} kinds of reads", kinds.len())));
        }
        Ok(Reads { uid: source.need(uid, "uid")?, kinds })
    })?;
    source.end()?;
    if all.len() > MOST_VARIABLES {
        return Err(Corrupt::new(format!("reads of {} variables", all.len()), 0));
    }
    Ok(all)
}

fn kind(source: &mut Source<'_>) -> Result<ReadShape, Corrupt> {
    source.tuple(2)?;
    let (weight, extents) = (source.u64()?, source.list(Source::u64)?);
    if weight > MOST_WEIGHT || extents.len() > MAX_NDIM + 1 {
        return Err(source.corrupt(format!("{weight} reads along {} axes", extents.len())));
    }
    Ok(ReadShape { weight, extents })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Vec<Reads> {
        let kind = |weight, extents: &[u64]| ReadShape { weight, extents: extents.to_vec() };
        vec![
            Reads { uid: 7, kinds: vec![kind(40, &[1, 0, 1, 0]), kind(3, &[0, 1, 1, 1])] },
            Reads { uid: u64::MAX, kinds: vec![] },
        ]
    }

    #[test]
    fn observed_reads_round_trip_and_no_flipped_bit_passes() {
        let bytes = encode(&some());
        assert_eq!(decode(&bytes), Ok(some()));
        for bit in 0..bytes.len() * 8 {
            let mut other = bytes.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&other).is_err(), "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert!(decode(&bytes[..len]).is_err());
        }
    }

    #[test]
    fn more_than_the_limits_is_not_kept() {
        let kinds = vec![ReadShape { weight: u64::MAX, extents: vec![1] }; MOST_KINDS + 1];
        let many = vec![Reads { uid: 1, kinds }; MOST_VARIABLES + 1];
        let kept = decode(&encode(&many)).unwrap();
        assert_eq!((kept.len(), kept[0].kinds.len()), (MOST_VARIABLES, MOST_KINDS));
        assert_eq!(kept[0].kinds[0].weight, MOST_WEIGHT);
    }
}
