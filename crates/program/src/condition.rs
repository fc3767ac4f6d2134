//! Evaluates conditions: which of the gathered cells satisfy one, and their values.

use drystone_expression::{Answer as Typed, Column, Input, Scratch, Type};
use drystone_format::Corrupt;
use drystone_format::cursor::Reader;

use crate::program::{Answer, Condition};

/// The name of the gathered value in a condition.
pub const NAME: &str = "value";

/// Encodings of an item's hits: the numbers of cells, a bit for each cell, or only the count.
const NUMBERS: u8 = 0;
const BITS: u8 = 1;
const COUNT: u8 = 2;

/// The cells of an item that satisfy its condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hits<'a> {
    /// Number of hits.
    pub count: u32,
    /// Number of cells.
    pub of: u32,
    /// Numbers of the cells, ascending, in the order in which the rule gathers them; `None` if only the count was
    /// requested.
    pub cells: Option<Vec<u32>>,
    /// Their values, one after the other, if these were requested.
    pub values: &'a [u8],
}

/// The type of a condition's values, by its NumPy name (`f4`, `int64`).
pub fn type_of(name: &str) -> Option<Type> {
    Type::from_name(name)
}

/// The typed condition. Its only name may be [`NAME`], and it may not use neighbours.
pub(crate) fn typed(condition: &Condition) -> Result<drystone_expression::Program, String> {
    let known = |name: &drystone_expression::Name| {
        name.path() == NAME && name.members().is_empty() && name.offsets().is_empty()
    };
    if let Some(name) = condition.tree.names().iter().find(|name| !known(name)) {
        return Err(format!("`{name}` is not known; the value is `{NAME}`"));
    }
    let program = condition.tree.check(|_| Typed::Type(condition.dtype)).map_err(|e| e.to_string())?;
    if program.dtype() != Type::Bool {
        return Err(format!("it is {}, where a condition is needed", program.dtype()));
    }
    Ok(program)
}

/// Appends the hits among `values`, which have the condition's type.
pub(crate) fn put_hits(condition: &Condition, values: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let program = typed(condition)?;
    let size = condition.dtype.size();
    let cells = values.len() / size;
    let mut hits = vec![0u64; cells.div_ceil(64)];
    let count = select(&program, condition.dtype, values, cells, &mut hits)?;
    out.extend((cells as u32).to_le_bytes());
    out.extend((count as u32).to_le_bytes());
    if condition.answer == Answer::Count {
        out.push(COUNT);
        return Ok(());
    }
    let bitmap = cells.div_ceil(8);
    let numbers =
        (0..cells).filter(|cell| hits.get(cell / 64).is_some_and(|word| word >> (cell % 64) & 1 == 1));
    if bitmap < 4 * count as usize {
        out.push(BITS);
        out.extend(hits.iter().flat_map(|word| word.to_le_bytes()).take(bitmap));
    } else {
        out.push(NUMBERS);
        numbers.clone().for_each(|cell| out.extend((cell as u32).to_le_bytes()));
    }
    if condition.answer == Answer::Cells {
        return Ok(());
    }
    for cell in numbers {
        out.extend(values.get(cell * size..(cell + 1) * size).unwrap_or_default());
    }
    Ok(())
}

/// Evaluates the condition. An expression without names has no inputs.
fn select(
    program: &drystone_expression::Program,
    dtype: Type,
    values: &[u8],
    cells: usize,
    hits: &mut [u64],
) -> Result<u64, String> {
    fn of<const N: usize, T>(values: &[u8], from: fn([u8; N]) -> T) -> Vec<T> {
        values.as_chunks::<N>().0.iter().map(|bytes| from(*bytes)).collect()
    }
    macro_rules! on {
        ($variant:ident, $t:ty) => {{
            let typed = of(values, <$t>::from_le_bytes);
            run(program, Column::$variant(&typed), cells, hits)
        }};
    }
    match dtype {
        Type::Bool => run(program, Column::Bool(values), cells, hits),
        Type::I1 => on!(I1, i8),
        Type::I2 => on!(I2, i16),
        Type::I4 => on!(I4, i32),
        Type::I8 => on!(I8, i64),
        Type::U1 => on!(U1, u8),
        Type::U2 => on!(U2, u16),
        Type::U4 => on!(U4, u32),
        Type::U8 => on!(U8, u64),
        Type::F4 => on!(F4, f32),
        Type::F8 => on!(F8, f64),
    }
}

fn run(
    program: &drystone_expression::Program,
    column: Column<'_>,
    cells: usize,
    hits: &mut [u64],
) -> Result<u64, String> {
    let inputs = vec![Input::from(column); program.inputs().len()];
    program.select(&inputs, cells, &mut Scratch::new(program), hits).map_err(|e| e.to_string())
}

impl<'a> Hits<'a> {
    /// Decodes the payload of a frame with hits of this condition.
    pub fn decode(bytes: &'a [u8], condition: &Condition) -> Result<Hits<'a>, Corrupt> {
        let r = &mut Reader::new(bytes);
        let (of, count, form) = (r.u32()?, r.u32()?, r.u8()?);
        if count > of {
            return Err(r.corrupt(format!("{count} hits of {of} cells")));
        }
        if (form == COUNT) != (condition.answer == Answer::Count) {
            return Err(r.corrupt("hits in another form than was asked for"));
        }
        let many = count as usize;
        let cells: Option<Vec<u32>> = match form {
            NUMBERS => {
                let numbers = r.take(many.saturating_mul(4))?.as_chunks().0;
                Some(numbers.iter().map(|n| u32::from_le_bytes(*n)).collect())
            }
            BITS => {
                let bits = r.take(of.div_ceil(8) as usize)?;
                let mut cells = Vec::with_capacity(many.min(bits.len() * 8));
                for (n, byte) in bits.iter().enumerate() {
                    let mut rest = *byte;
                    while rest != 0 {
                        cells.push(8 * n as u32 + rest.trailing_zeros());
                        rest &= rest - 1;
                    }
                }
                Some(cells)
            }
            COUNT => None,
            _ => return Err(r.corrupt("an unknown form of hits")),
        };
        if let Some(cells) = &cells {
            let ascending = cells.windows(2).all(|pair| pair[0] < pair[1]);
            if cells.len() != many || !ascending || cells.last().is_some_and(|last| *last >= of) {
                return Err(r.corrupt("hits that do not fit their number"));
            }
        }
        let size = if condition.answer == Answer::Values { condition.dtype.size() } else { 0 };
        let values = r.take(many.saturating_mul(size))?;
        r.end()?;
        Ok(Hits { count, of, cells, values })
    }
}
