//! Zarr codec objects: converts them to codecs, and chains to them.
//!
//! A name is shared only if the bytes are equal: zarr-python's codec with that name (core or `numcodecs.*`) decodes
//! what a codec here encodes, and the reverse.

use crate::params::{named_int, named_text};
use crate::stats::ScalarKind;
use crate::text::{MAX_PARAMS, is_name};
use crate::{Chain, CodecSpec, ConfigValue, ListItem, Param, TransformError, number};

/// Parameters of `numcodecs.pcodec` whose only accepted values are the behaviour of this codec.
const PCODEC_DEFAULTS: [(&str, ConfigText); 5] = [
    ("mode_spec", ConfigText::Text("auto")),
    ("delta_spec", ConfigText::Text("auto")),
    ("paging_spec", ConfigText::Text("equal_pages_up_to")),
    ("equal_pages_up_to", ConfigText::Int(262_144)),
    ("delta_encoding_order", ConfigText::Null),
];

enum ConfigText {
    Text(&'static str),
    Int(i64),
    Null,
}

impl ConfigText {
    fn is(&self, value: &ConfigValue) -> bool {
        match (self, value) {
            (ConfigText::Text(own), ConfigValue::Text(given)) => own == given,
            (ConfigText::Int(own), ConfigValue::Int(given)) => own == given,
            (ConfigText::Null, ConfigValue::Null) => true,
            _ => false,
        }
    }

    fn value(&self) -> ConfigValue {
        match self {
            ConfigText::Text(text) => ConfigValue::Text((*text).into()),
            ConfigText::Int(value) => ConfigValue::Int(*value),
            ConfigText::Null => ConfigValue::Null,
        }
    }
}

impl CodecSpec {
    /// The codec of a Zarr codec object. `bytes` (little endian) and `crc32c` become identity, since stored data always
    /// has both properties.
    pub fn from_zarr(
        name: &str,
        configuration: &[(String, ConfigValue)],
    ) -> Result<CodecSpec, TransformError> {
        let bad = |problem: String| TransformError::bad_parameter(name, problem);
        if name == "bytes" || name == "crc32c" {
            for (key, value) in configuration {
                let little = matches!(value, ConfigValue::Text(t) if t == "little");
                if !(name == "bytes" && key == "endian" && (little || *value == ConfigValue::Null)) {
                    return Err(bad(format!(
                        "{key} = {value:?} is not supported: data is stored little-endian"
                    )));
                }
            }
            return Ok(CodecSpec::named("identity"));
        }
        let plain = name.strip_prefix("numcodecs.").unwrap_or(name);
        let mut spec = CodecSpec::named(if plain == "bz2" { "bzip2" } else { plain });
        for (key, value) in configuration {
            let said_already =
                PCODEC_DEFAULTS.iter().any(|(known, default)| known == key && default.is(value));
            let param = match (plain, key.as_str(), value) {
                (_, _, ConfigValue::Null) => continue,
                ("pcodec", ..) if said_already => continue,
                ("delta", "dtype", ConfigValue::Text(dtype)) => match integer_width(dtype) {
                    Some(width) => Param::Int(width),
                    None => {
                        return Err(bad(format!(
                            "dtype {dtype}: differences are exact for little-endian integers only; write \"delta\", \
                             which takes floats by their bits"
                        )));
                    }
                },
                ("delta", "astype", value)
                    if configuration.iter().any(|(k, v)| k == "dtype" && v == value) =>
                {
                    continue;
                }
                (_, _, ConfigValue::Bool(b)) => named_int(key, i64::from(*b)),
                (_, _, ConfigValue::Int(i)) => named_int(key, *i),
                (_, _, ConfigValue::Float(f)) if f.is_finite() => {
                    Param::Named(key.clone(), Box::new(Param::Float(*f)))
                }
                (_, _, ConfigValue::Text(t)) if !t.contains('"') => named_text(key, t),
                (_, _, other) => return Err(bad(format!("{key} = {other:?} is not a value that it takes"))),
            };
            if !is_name(key) || spec.params.len() == MAX_PARAMS {
                return Err(bad(format!("cannot take the member {key:?}")));
            }
            spec.params.push(param);
        }
        Ok(spec)
    }
}

/// Bytes of a little-endian integer dtype as NumPy writes it.
fn integer_width(dtype: &str) -> Option<i64> {
    let rest = dtype.trim_start_matches(['<', '|']);
    match rest {
        "i1" | "u1" | "int8" | "uint8" => Some(1),
        "i2" | "u2" | "int16" | "uint16" => Some(2),
        "i4" | "u4" | "int32" | "uint32" => Some(4),
        "i8" | "u8" | "int64" | "uint64" => Some(8),
        _ => None,
    }
}

/// Where a codec may appear in a Zarr list: on arrays, from array to bytes, or on bytes.
#[derive(PartialEq, PartialOrd)]
enum Stage {
    Array,
    Serializer,
    Bytes,
}

impl Chain {
    /// The Zarr codec list of this chain, for arrays whose elements are single scalars of `kind` and `item` bytes.
    ///
    /// Errors: `Unsupported`, which names the codec that has no Zarr name or cannot appear at its position.
    pub fn to_zarr(&self, kind: ScalarKind, item: usize) -> Result<Vec<ListItem>, TransformError> {
        let refuse = |spec: &CodecSpec, why: &str| TransformError::Unsupported {
            what: format!("codec {spec} in Zarr: {why}"),
        };
        let mut items = Vec::new();
        let mut stage = Stage::Array;
        for spec in self.specs() {
            let (own, object) = zarr_object(&spec, kind, item).map_err(|why| refuse(&spec, why))?;
            if own < stage || (own == Stage::Serializer && stage == Stage::Serializer) {
                return Err(refuse(&spec, "it takes numbers and would get bytes"));
            }
            if own == Stage::Bytes && stage < Stage::Serializer {
                items.push(bytes_object());
            }
            stage = if own == Stage::Serializer { Stage::Serializer } else { own };
            items.push(object);
        }
        if stage == Stage::Array {
            items.push(bytes_object());
        }
        Ok(items)
    }
}

fn object(name: &str, configuration: Vec<(&str, ConfigValue)>) -> ListItem {
    let configuration = configuration.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    ListItem::Object { name: name.into(), configuration }
}

fn bytes_object() -> ListItem {
    object("bytes", vec![("endian", ConfigValue::Text("little".into()))])
}

fn zarr_object(spec: &CodecSpec, kind: ScalarKind, item: usize) -> Result<(Stage, ListItem), &'static str> {
    use ConfigValue::{Bool, Int, Text};
    let int = |at: usize| match spec.params.get(at).map(|param| param.key_and_value().1) {
        Some(Param::Int(value)) => *value,
        _ => 0,
    };
    let word = |at: usize| match spec.params.get(at) {
        Some(Param::Text(text)) => text.clone(),
        _ => String::new(),
    };
    let named = |key: &str, otherwise: i64| {
        let found = spec.params.iter().find_map(|param| match param {
            Param::Named(name, value) if name == key => Some(&**value),
            _ => None,
        });
        match found {
            Some(Param::Int(value)) => *value,
            _ => otherwise,
        }
    };
    let element = |given: usize| if spec.params.is_empty() { item as i64 } else { int(given) };
    let single = kind.size() == item;
    let found = match spec.name.as_str() {
        "zstd" => (Stage::Bytes, object("zstd", vec![("level", Int(int(0))), ("checksum", Bool(false))])),
        "gzip" => (Stage::Bytes, object("gzip", vec![("level", Int(int(0)))])),
        "zlib" => (Stage::Bytes, object("numcodecs.zlib", vec![("level", Int(int(0)))])),
        "bzip2" => (Stage::Bytes, object("numcodecs.bz2", vec![("level", Int(int(0)))])),
        "lz4" => {
            (Stage::Bytes, object("numcodecs.lz4", vec![("acceleration", Int(named("acceleration", 1)))]))
        }
        "shuffle" => (Stage::Bytes, object("numcodecs.shuffle", vec![("elementsize", Int(element(0)))])),
        "blosc" => {
            let configuration = vec![
                ("typesize", Int(named("typesize", item as i64))),
                ("cname", Text(word(0))),
                ("clevel", Int(int(1))),
                ("shuffle", Text(word(2))),
                ("blocksize", Int(named("blocksize", 0))),
            ];
            (Stage::Bytes, object("blosc", configuration))
        }
        "pcodec" if !single => return Err("it takes single numbers only"),
        "pcodec" => {
            let mut configuration = vec![("level", Int(int(0)))];
            configuration.extend(PCODEC_DEFAULTS.iter().map(|(key, value)| (*key, value.value())));
            if named("delta", -1) >= 0 {
                return Err("with an order of deltas it has another name there");
            }
            (Stage::Serializer, object("numcodecs.pcodec", configuration))
        }
        "delta" => {
            let dtype = number::name(kind).filter(|name| name.starts_with(['i', 'u']) && single);
            let Some(dtype) = dtype else {
                return Err("its differences of floats are rounded, these are not");
            };
            (Stage::Array, object("numcodecs.delta", vec![("dtype", Text(format!("<{dtype}")))]))
        }
        "bitround" => (Stage::Array, object("numcodecs.bitround", vec![("keepbits", Int(int(0)))])),
        _ => return Err("it has no such codec"),
    };
    Ok(found)
}
