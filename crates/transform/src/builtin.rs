//! The table of built-in codecs: makes a codec from its name and parameters.

use std::sync::Arc;

use crate::codec::Codec;
use crate::codecs::alacrity::Alacrity;
use crate::codecs::aplod::Aplod;
use crate::codecs::bit_round::BitRound;
use crate::codecs::bit_shuffle::BitShuffle;
use crate::codecs::blosc::Blosc;
use crate::codecs::bzip2::Bzip2;
use crate::codecs::deflate::{Gzip, Zlib};
use crate::codecs::delta::{ByteDelta, Delta};
use crate::codecs::isobar::Isobar;
use crate::codecs::lorenzo::Lorenzo;
use crate::codecs::lz4::Lz4;
use crate::codecs::mloc::Mloc;
use crate::codecs::multilevel::Multilevel;
use crate::codecs::pcodec::Pcodec;
use crate::codecs::shuffle::Shuffle;
use crate::codecs::sorted::Sorted;
use crate::codecs::szip::Szip;
use crate::codecs::zstandard::Zstd;
use crate::error::TransformError;
use crate::registry::{self, BUILT_IN};
use crate::text::CodecSpec;

/// Finds a built-in or registered codec and checks its parameters. `None` means identity, which changes nothing.
pub(crate) fn find(spec: &CodecSpec) -> Result<Option<Arc<dyn Codec>>, TransformError> {
    match spec.name.as_str() {
        "identity" | "none" => match spec.params.first() {
            None => Ok(None),
            Some(param) => {
                Err(TransformError::bad_parameter(&spec.name, format!("takes no parameters, found {param}")))
            }
        },
        "aplod" => Ok(Some(Arc::new(Aplod::from_params(&spec.params)?))),
        "alacrity" => Ok(Some(Arc::new(Alacrity::from_params(&spec.params)?))),
        "multilevel" => Ok(Some(Arc::new(Multilevel::from_params(&spec.params)?))),
        "sorted" => Ok(Some(Arc::new(Sorted::from_params(&spec.params)?))),
        "mloc" => Ok(Some(Arc::new(Mloc::from_params(&spec.params)?))),
        "isobar" => Ok(Some(Arc::new(Isobar::from_params(&spec.params)?))),
        "shuffle" => Ok(Some(Arc::new(Shuffle::from_params(&spec.params)?))),
        "bitshuffle" => Ok(Some(Arc::new(BitShuffle::from_params(&spec.params)?))),
        "delta" => Ok(Some(Arc::new(Delta::from_params(&spec.params)?))),
        "bytedelta" => Ok(Some(Arc::new(ByteDelta::from_params(&spec.params)?))),
        "lorenzo" => Ok(Some(Arc::new(Lorenzo::from_params(&spec.params)?))),
        "bitround" => Ok(Some(Arc::new(BitRound::from_params(&spec.params)?))),
        "zstd" => Ok(Some(Arc::new(Zstd::from_params(&spec.params)?))),
        "lz4" => Ok(Some(Arc::new(Lz4::from_params(&spec.params)?))),
        "zlib" => Ok(Some(Arc::new(Zlib::from_params(&spec.params)?))),
        "gzip" => Ok(Some(Arc::new(Gzip::from_params(&spec.params)?))),
        "bzip2" => Ok(Some(Arc::new(Bzip2::from_params(&spec.params)?))),
        "szip" => Ok(Some(Arc::new(Szip::from_params(&spec.params)?))),
        "pcodec" => Ok(Some(Arc::new(Pcodec::from_params(&spec.params)?))),
        "blosc" => Ok(Some(Arc::new(Blosc::from_params(&spec.params)?))),
        #[cfg(feature = "zfp")]
        "zfp" => Ok(Some(Arc::new(crate::codecs::zfp::Zfp::from_params(&spec.params)?))),
        #[cfg(not(feature = "zfp"))]
        "zfp" => {
            let problem =
                "is not part of this build; build with the cargo feature \"zfp\" of the crate drystone";
            Err(TransformError::bad_parameter("zfp", problem))
        }
        other => match registry::make(spec) {
            Some(made) => made.map(Some),
            None => Err(TransformError::UnknownCodec {
                name: other.into(),
                suggestion: drystone_suggest::nearest(other, BUILT_IN),
                known: BUILT_IN
                    .map(String::from)
                    .into_iter()
                    .chain(registry::registered())
                    .collect::<Vec<_>>()
                    .join(", "),
            }),
        },
    }
}
