//! Copies as text: `500 x 5600 B from 0 (+48000) to 4002400 (+8000)`.

use std::fmt;

use crate::convert::ConvertCopy;
use crate::copy::StridedCopy;
use crate::dim::Dim;

impl fmt::Display for StridedCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = format!("{} B", self.elem_bytes());
        write_loops(f, &what, self.src_offset(), self.dst_offset(), self.dims())
    }
}

impl fmt::Display for ConvertCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (src, dst, (from, to), _, dims) = self.parts();
        write_loops(f, &format!("{from} as {to}"), src, dst, dims)
    }
}

fn write_loops(f: &mut fmt::Formatter<'_>, what: &str, src: u64, dst: u64, dims: &[Dim]) -> fmt::Result {
    for dim in dims {
        write!(f, "{} x ", dim.count)?;
    }
    let strides = |f: &mut fmt::Formatter<'_>, of: fn(&Dim) -> i64| {
        let list: Vec<String> = dims.iter().map(|dim| format!("{:+}", of(dim))).collect();
        if list.is_empty() { Ok(()) } else { write!(f, " ({})", list.join(", ")) }
    };
    write!(f, "{what} from {src}")?;
    strides(f, |dim| dim.src_stride)?;
    write!(f, " to {dst}")?;
    strides(f, |dim| dim.dst_stride)
}
