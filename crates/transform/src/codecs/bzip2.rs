//! bzip2: one stream per subchunk, which any bzip2 reads. Slow and small; for archives and old readers.

use bzip2::{Action, Compress, Compression, Decompress, Status};

use crate::params::Params;
use crate::{Codec, CodecSpec, Logical, Param, Scratch, TransformError, Transparent};

/// The bzip2 codec at one level, which is the block size in 100 kB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bzip2 {
    level: u32,
}

impl Bzip2 {
    pub(crate) fn from_params(params: &[Param]) -> Result<Bzip2, TransformError> {
        let level = Params::read("bzip2", &["level"], params)?.int("level", 1..=9)?;
        Ok(Bzip2 { level: level.map_or(9, |level| level as u32) })
    }
}

impl Codec for Bzip2 {
    fn spec(&self) -> CodecSpec {
        CodecSpec { name: "bzip2".into(), params: vec![Param::Int(i64::from(self.level))] }
    }

    fn max_encoded_len(&self, decoded_len: usize) -> usize {
        // The library guarantees 1 % and 600 bytes.
        decoded_len.saturating_add(decoded_len / 64).saturating_add(600)
    }

    fn encode(
        &self,
        data: &[u8],
        _logical: &Logical,
        out: &mut Vec<u8>,
        _scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let mut stream = Compress::new(Compression::new(self.level), 0);
        out.reserve(self.max_encoded_len(data.len()));
        loop {
            let rest = data.get(stream.total_in() as usize..).unwrap_or_default();
            match stream.compress_vec(rest, out, Action::Finish) {
                Ok(Status::StreamEnd) => return Ok(()),
                Ok(_) => out.reserve(4096),
                Err(error) => {
                    let problem = error.to_string();
                    return Err(TransformError::Encode { codec: "bzip2".into(), problem });
                }
            }
        }
    }

    fn decode(
        &self,
        encoded: &[u8],
        _logical: &Logical,
        out: &mut [u8],
        _scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let corrupt = |what: String, at: u64| Err(TransformError::corrupt(what, at));
        // The digit determines how much memory decoding takes. It is checked, since untrusted bytes must not choose
        // that.
        if encoded.get(..4) != Some(&[b'B', b'Z', b'h', b'0' + self.level as u8]) {
            return corrupt(format!("not a bzip2 stream of level {}", self.level), 0);
        }
        let mut stream = Decompress::new(false);
        let (mut taken, mut made) = (0, 0);
        let mut spare = [0];
        loop {
            let rest = encoded.get(taken..).unwrap_or_default();
            let complete = made == out.len();
            let target = if complete { &mut spare[..] } else { out.get_mut(made..).unwrap_or_default() };
            let status = match stream.decompress(rest, target) {
                Ok(status) => status,
                Err(error) => return corrupt(format!("bzip2 stream: {error}"), taken as u64),
            };
            let (before_in, before_out) = (taken, made);
            (taken, made) = (stream.total_in() as usize, stream.total_out() as usize);
            if made > out.len() {
                return corrupt(
                    format!("the bzip2 stream holds more than {} bytes", out.len()),
                    taken as u64,
                );
            }
            if status == Status::StreamEnd {
                break;
            }
            if (taken, made) == (before_in, before_out) {
                return corrupt("the bzip2 stream is cut short".into(), taken as u64);
            }
        }
        if made != out.len() || taken != encoded.len() {
            let what = format!(
                "the bzip2 stream gives {made} of {} bytes and ends after {taken} of {}",
                out.len(),
                encoded.len()
            );
            return corrupt(what, taken as u64);
        }
        Ok(())
    }

    fn transparent(&self) -> Option<&dyn Transparent> {
        None
    }
}
