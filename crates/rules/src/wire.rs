//! Rules as bytes. The format is specified in docs/format/rules.md; this file follows it.
//!
//! Encoding is canonical: equal rules have equal bytes. The decoder accepts nothing else, allocates only in proportion
//! to its input, and returns a rule only if every term lies inside the caller's buffers.

use crate::error::RuleError;
use crate::hash::siphash128;
use crate::rule::Rule;
use crate::term::Term;
use drystone_copy::ConvertCopy;
use drystone_copy::{Dim, StridedCopy};
use drystone_copy::{Dtype, Narrowing};

/// The version that this library writes and reads.
pub const WIRE_VERSION: u8 = 1;

const COPY: u8 = 0;
const CONVERT: u8 = 1;
const LIST: u8 = 2;

/// Shorter sequences of copies are written one by one.
const SHORTEST_LIST: usize = 3;
/// Most loops in all copies of one rule; a short list of points may expand to that many.
const MOST_LOOPS: u64 = 1 << 20;

impl Rule {
    /// Encodes the rule.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![WIRE_VERSION, 0];
        put(&mut out, self.src_len());
        put(&mut out, self.dst_len());
        let groups: Vec<&[Term]> = self.terms().chunk_by(same_shape).collect();
        let records = groups.iter().map(|group| if group.len() < SHORTEST_LIST { group.len() } else { 1 });
        put(&mut out, records.sum::<usize>() as u64);
        for group in groups {
            match group {
                [Term::Copy(first), ..] if group.len() >= SHORTEST_LIST => put_list(&mut out, first, group),
                _ => group.iter().for_each(|term| put_term(&mut out, term)),
            }
        }
        out
    }

    /// Decodes a rule that will run between buffers of at most these sizes. For any bytes, the result is an error or a
    /// rule that touches nothing outside such buffers.
    pub fn decode(bytes: &[u8], src_len: u64, dst_len: u64) -> Result<Rule, RuleError> {
        let mut input = Input { bytes, at: 0 };
        match input.byte("the version")? {
            WIRE_VERSION => {}
            version => return Err(RuleError::UnknownVersion { version }),
        }
        if input.byte("the flags")? != 0 {
            return Err(input.corrupt("an unknown flag"));
        }
        let (src_needed, dst_needed) = (input.number()?, input.number()?);
        let records = input.number()?;
        let mut terms = Vec::new();
        let mut loops = 0;
        for _ in 0..records {
            input.term(&mut terms, &mut loops)?;
        }
        if input.at != bytes.len() {
            return Err(input.corrupt("bytes after the last term"));
        }
        let rule = Rule::new(src_needed, dst_needed, terms)?;
        rule.check(src_len, dst_len)?;
        Ok(rule)
    }

    /// The rule's name by content: equal rules have equal names. It is no protection against forgery.
    pub fn content_hash(&self) -> [u8; 16] {
        siphash128(0, 0, &self.encode())
    }
}

/// Whether two terms are copies that differ only in their offsets.
fn same_shape(x: &Term, y: &Term) -> bool {
    match (x, y) {
        (Term::Copy(x), Term::Copy(y)) => x.elem_bytes() == y.elem_bytes() && x.dims() == y.dims(),
        _ => false,
    }
}

fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_signed(out: &mut Vec<u8>, value: i64) {
    put(out, (value << 1 ^ value >> 63) as u64);
}

fn put_dims(out: &mut Vec<u8>, dims: &[Dim]) {
    put(out, dims.len() as u64);
    for dim in dims {
        put(out, dim.count);
        put_signed(out, dim.src_stride);
        put_signed(out, dim.dst_stride);
    }
}

fn put_term(out: &mut Vec<u8>, term: &Term) {
    match term {
        Term::Copy(copy) => {
            out.push(COPY);
            put(out, copy.src_offset());
            put(out, copy.dst_offset());
            put(out, copy.elem_bytes() as u64);
            put_dims(out, copy.dims());
        }
        Term::Convert(convert) => {
            let (src, dst, (from, to), narrowing, dims) = convert.parts();
            out.push(CONVERT);
            put(out, src);
            put(out, dst);
            out.extend([from.to_byte(), to.to_byte(), narrowing as u8]);
            put_dims(out, dims);
        }
    }
}

fn put_list(out: &mut Vec<u8>, first: &StridedCopy, group: &[Term]) {
    out.push(LIST);
    put(out, first.elem_bytes() as u64);
    put_dims(out, first.dims());
    put(out, group.len() as u64);
    let (mut src, mut dst) = (0, 0);
    for term in group {
        if let Term::Copy(copy) = term {
            put_signed(out, copy.src_offset() as i64 - src);
            put_signed(out, copy.dst_offset() as i64 - dst);
            (src, dst) = (copy.src_offset() as i64, copy.dst_offset() as i64);
        }
    }
}

/// Encoded bytes, and the offset of the next one.
struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Input<'_> {
    fn corrupt(&self, what: &'static str) -> RuleError {
        RuleError::Corrupt { what, at: self.at }
    }

    fn byte(&mut self, what: &'static str) -> Result<u8, RuleError> {
        let byte = *self.bytes.get(self.at).ok_or(self.corrupt(what))?;
        self.at += 1;
        Ok(byte)
    }

    /// A varint of at most 63 bits in its shortest form.
    fn number(&mut self) -> Result<u64, RuleError> {
        match self.varint()? {
            value if value >> 63 == 0 => Ok(value),
            _ => Err(self.corrupt("a number over 63 bits")),
        }
    }

    fn varint(&mut self) -> Result<u64, RuleError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte("the end of the bytes inside a number")?;
            let bits = u64::from(byte & 0x7F);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return if byte == 0 && shift > 0 {
                    Err(self.corrupt("a number with spare bytes"))
                } else {
                    Ok(value)
                };
            }
        }
        Err(self.corrupt("a number over 64 bits"))
    }

    fn signed(&mut self) -> Result<i64, RuleError> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn dims(&mut self) -> Result<Vec<Dim>, RuleError> {
        let count = self.number()?;
        // Nested strides at least double from loop to loop, so there are at most 63.
        if count > 63 {
            return Err(self.corrupt("more than 63 loops"));
        }
        (0..count).map(|_| Ok(Dim::new(self.number()?, self.signed()?, self.signed()?))).collect()
    }

    fn dtype(&mut self) -> Result<Dtype, RuleError> {
        let byte = self.byte("a number type")?;
        Dtype::from_byte(byte).ok_or(self.corrupt("an unknown number type"))
    }

    /// A copy as it was encoded, which must be canonical.
    fn copy(&self, src: u64, dst: u64, elem: u64, dims: Vec<Dim>) -> Result<StridedCopy, RuleError> {
        let elem =
            usize::try_from(elem).map_err(|_| self.corrupt("an element too large for this machine"))?;
        let written = dims.clone();
        let copy = StridedCopy::new(src, dst, elem, dims)?;
        if copy.elem_bytes() != elem || copy.dims() != written {
            return Err(self.corrupt("a copy that is not canonical"));
        }
        Ok(copy)
    }

    fn term(&mut self, terms: &mut Vec<Term>, loops: &mut u64) -> Result<(), RuleError> {
        match self.byte("the kind of a term")? {
            COPY => {
                let (src, dst, elem) = (self.number()?, self.number()?, self.number()?);
                let dims = self.dims()?;
                let copy = Term::Copy(self.copy(src, dst, elem, dims)?);
                // Three copies of the same shape in a row would have been encoded as a list.
                if let [.., x, y] = &terms[..]
                    && same_shape(x, &copy)
                    && same_shape(y, &copy)
                {
                    return Err(self.corrupt("copies that belong into one list"));
                }
                terms.push(copy);
            }
            CONVERT => {
                let (src, dst) = (self.number()?, self.number()?);
                let types = (self.dtype()?, self.dtype()?);
                let narrowing = match self.byte("a narrowing policy")? {
                    0 => Narrowing::Refuse,
                    1 => Narrowing::Saturate,
                    2 => Narrowing::Wrap,
                    _ => return Err(self.corrupt("an unknown narrowing policy")),
                };
                let dims = self.dims()?;
                let written = dims.clone();
                let convert = ConvertCopy::new(src, dst, types, narrowing, dims)?;
                if convert.parts().4 != written {
                    return Err(self.corrupt("a conversion that is not canonical"));
                }
                terms.push(Term::Convert(convert));
            }
            LIST => {
                let elem = self.number()?;
                let dims = self.dims()?;
                let count = self.number()?;
                *loops =
                    (count.checked_mul(dims.len() as u64 + 1)).map_or(u64::MAX, |n| loops.saturating_add(n));
                if *loops > MOST_LOOPS {
                    return Err(RuleError::TooLarge { what: "loops in a list", most: MOST_LOOPS });
                }
                if count < SHORTEST_LIST as u64 {
                    return Err(self.corrupt("a list of fewer than three copies"));
                }
                let (mut src, mut dst) = (0i64, 0i64);
                for k in 0..count {
                    let step = (src.checked_add(self.signed()?), dst.checked_add(self.signed()?));
                    let (Some(next_src @ 0..), Some(next_dst @ 0..)) = step else {
                        return Err(self.corrupt("a list that leaves 63 bits"));
                    };
                    (src, dst) = (next_src, next_dst);
                    let copy = Term::Copy(self.copy(src as u64, dst as u64, elem, dims.clone())?);
                    if k == 0 && terms.last().is_some_and(|last| same_shape(last, &copy)) {
                        return Err(self.corrupt("copies that belong into one list"));
                    }
                    terms.push(copy);
                }
            }
            _ => return Err(self.corrupt("an unknown kind of term")),
        }
        Ok(())
    }
}

/// Body of the fuzz target: for any `data`, decoding refuses it, or gives a rule that runs inside its buffers and
/// encodes to the same bytes.
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub fn fuzz_decode(data: &[u8]) {
    const SRC_LEN: usize = 4096;
    const DST_LEN: usize = 4096;
    let Ok(rule) = Rule::decode(data, SRC_LEN as u64, DST_LEN as u64) else { return };
    assert_eq!(rule.encode(), data, "an encoding that is not canonical was accepted");
    let _ = (rule.to_string(), rule.content_hash());
    if rule.bytes() <= 1 << 20 {
        let src = vec![1; SRC_LEN];
        let mut dst = vec![0; DST_LEN];
        assert_eq!(rule.run(&src, &mut dst), Ok(()));
        if let Ok(halves) = rule.split(crate::rule::Pack::Source)
            && halves.buffer_len <= 1 << 20
        {
            let mut buffer = vec![0; halves.buffer_len as usize];
            let mut again = vec![0; DST_LEN];
            assert_eq!(halves.gather.run(&src, &mut buffer), Ok(()));
            assert_eq!(halves.scatter.run(&buffer, &mut again), Ok(()));
        }
    }
}
