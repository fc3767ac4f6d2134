//! CBOR as this format uses it: definite lengths, unique ascending keys, 64-bit floats.

use std::convert::Infallible;

use minicbor::data::Type;
use minicbor::{Decoder, Encoder};

use crate::Corrupt;

/// Reads items; every error has an offset.
pub(crate) struct Source<'a>(Decoder<'a>);

impl<'a> Source<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Source(Decoder::new(bytes))
    }

    pub(crate) fn position(&self) -> usize {
        self.0.position()
    }

    pub(crate) fn corrupt(&self, what: impl Into<String>) -> Corrupt {
        Corrupt::new(what, self.0.position())
    }

    fn read<T>(
        &mut self,
        what: &str,
        read: impl FnOnce(&mut Decoder<'a>) -> Result<T, minicbor::decode::Error>,
    ) -> Result<T, Corrupt> {
        let at = self.0.position();
        read(&mut self.0).map_err(|_| Corrupt::new(format!("CBOR: {what} expected"), at))
    }

    pub(crate) fn kind(&self) -> Result<Type, Corrupt> {
        self.0.datatype().map_err(|_| self.corrupt("CBOR: a value expected"))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Corrupt> {
        self.read("an unsigned integer", |d| d.u64())
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Corrupt> {
        self.read("an unsigned 32-bit integer", |d| d.u32())
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Corrupt> {
        self.read("an unsigned 8-bit integer", |d| d.u8())
    }

    pub(crate) fn integer(&mut self) -> Result<i128, Corrupt> {
        self.read("an integer", |d| d.int()).map(i128::from)
    }

    pub(crate) fn f64(&mut self) -> Result<f64, Corrupt> {
        match self.kind()? {
            Type::F64 => self.read("a 64-bit float", |d| d.f64()),
            _ => Err(self.corrupt("CBOR: a 64-bit float expected")),
        }
    }

    pub(crate) fn bool(&mut self) -> Result<bool, Corrupt> {
        self.read("true or false", |d| d.bool())
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, Corrupt> {
        self.read("text", |d| d.str())
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Corrupt> {
        self.read("bytes", |d| d.bytes())
    }

    pub(crate) fn bytes16(&mut self) -> Result<[u8; 16], Corrupt> {
        self.read("16 bytes", |d| {
            d.bytes()?.try_into().map_err(|_| minicbor::decode::Error::message("16 bytes"))
        })
    }

    pub(crate) fn tag(&mut self) -> Result<u64, Corrupt> {
        self.read("a tag", |d| d.tag()).map(|t| t.as_u64())
    }

    /// Consumes a null, if one is next.
    pub(crate) fn null(&mut self) -> Result<bool, Corrupt> {
        match self.kind()? {
            Type::Null => self.read("null", |d| d.null()).map(|()| true),
            _ => Ok(false),
        }
    }

    /// Number of items in the array that begins here. Each item takes at least a byte, so a number greater than that of
    /// the bytes left is an error.
    pub(crate) fn array(&mut self) -> Result<u64, Corrupt> {
        let n = self.read("an array of definite length", |d| d.array())?;
        self.earned(n, 1)
    }

    /// Number of pairs in the map that begins here.
    pub(crate) fn map(&mut self) -> Result<u64, Corrupt> {
        let n = self.read("a map of definite length", |d| d.map())?;
        self.earned(n, 2)
    }

    fn earned(&self, n: Option<u64>, bytes_each: u64) -> Result<u64, Corrupt> {
        let left = self.0.input().len().saturating_sub(self.0.position()) as u64;
        match n {
            Some(n) if n.checked_mul(bytes_each).is_some_and(|bytes| bytes <= left) => Ok(n),
            Some(n) => Err(self.corrupt(format!("CBOR: {n} items in {left} bytes"))),
            None => Err(self.corrupt("CBOR: indefinite length")),
        }
    }

    /// Reads an array of exactly `n` items.
    pub(crate) fn tuple(&mut self, n: u64) -> Result<(), Corrupt> {
        match self.array()? {
            found if found == n => Ok(()),
            found => Err(self.corrupt(format!("CBOR: array of {found}, {n} expected"))),
        }
    }

    /// An array whose items `item` reads.
    pub(crate) fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, Corrupt>,
    ) -> Result<Vec<T>, Corrupt> {
        let mut out = Vec::new();
        for _ in 0..self.array()? {
            out.push(item(self)?);
        }
        Ok(out)
    }

    /// Reads a map with unsigned keys. `field` reads the value of a key that it knows, and returns false for others.
    pub(crate) fn fields(
        &mut self,
        mut field: impl FnMut(&mut Self, u64) -> Result<bool, Corrupt>,
    ) -> Result<(), Corrupt> {
        let mut above = None;
        for _ in 0..self.map()? {
            let key = self.u64()?;
            if above.is_some_and(|k| key <= k) {
                return Err(self.corrupt(format!("CBOR: key {key} is not in ascending order")));
            }
            above = Some(key);
            if !field(self, key)? {
                self.read("a value", |d| d.skip())?;
            }
        }
        Ok(())
    }

    /// A map with text keys: `entry` reads the value of each.
    pub(crate) fn entries(
        &mut self,
        mut entry: impl FnMut(&mut Self, &'a str) -> Result<(), Corrupt>,
    ) -> Result<(), Corrupt> {
        let mut above: Option<&str> = None;
        for _ in 0..self.map()? {
            let key = self.text()?;
            if above.is_some_and(|k| key <= k) {
                return Err(self.corrupt(format!("CBOR: key {key:?} is not in ascending order")));
            }
            above = Some(key);
            entry(self, key)?;
        }
        Ok(())
    }

    /// Requires that nothing is left.
    pub(crate) fn end(&self) -> Result<(), Corrupt> {
        match self.0.input().len().saturating_sub(self.0.position()) {
            0 => Ok(()),
            n => Err(self.corrupt(format!("CBOR: {n} bytes too many"))),
        }
    }

    /// The value of a mandatory field.
    pub(crate) fn need<T>(&self, value: Option<T>, name: &str) -> Result<T, Corrupt> {
        value.ok_or_else(|| self.corrupt(format!("{name} is missing")))
    }
}

/// Writes items to memory, which cannot fail.
pub(crate) struct Sink(Encoder<Vec<u8>>);

type Written<'e> = Result<&'e mut Encoder<Vec<u8>>, minicbor::encode::Error<Infallible>>;

impl Sink {
    pub(crate) fn new() -> Self {
        Sink(Encoder::new(Vec::new()))
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0.into_writer()
    }

    fn write(&mut self, item: impl FnOnce(&mut Encoder<Vec<u8>>) -> Written<'_>) -> &mut Self {
        let _infallible = item(&mut self.0).is_ok();
        self
    }

    pub(crate) fn u64(&mut self, v: u64) -> &mut Self {
        self.write(|e| e.u64(v))
    }

    /// An integer of -2^64..2^64; others are clamped.
    pub(crate) fn integer(&mut self, v: i128) -> &mut Self {
        let v = v.clamp(-(1 << 64), (1 << 64) - 1);
        match minicbor::data::Int::try_from(v) {
            Ok(v) => self.write(|e| e.int(v)),
            Err(_) => self,
        }
    }

    pub(crate) fn f64(&mut self, v: f64) -> &mut Self {
        self.write(|e| e.f64(v))
    }

    pub(crate) fn bool(&mut self, v: bool) -> &mut Self {
        self.write(|e| e.bool(v))
    }

    pub(crate) fn text(&mut self, v: &str) -> &mut Self {
        self.write(|e| e.str(v))
    }

    pub(crate) fn bytes(&mut self, v: &[u8]) -> &mut Self {
        self.write(|e| e.bytes(v))
    }

    pub(crate) fn null(&mut self) -> &mut Self {
        self.write(|e| e.null())
    }

    pub(crate) fn tag(&mut self, v: u64) -> &mut Self {
        self.write(|e| e.tag(minicbor::data::Tag::new(v)))
    }

    pub(crate) fn array(&mut self, n: usize) -> &mut Self {
        self.write(|e| e.array(n as u64))
    }

    pub(crate) fn map(&mut self, n: usize) -> &mut Self {
        self.write(|e| e.map(n as u64))
    }
}
