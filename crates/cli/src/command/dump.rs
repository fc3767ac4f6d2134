//! `drystone dump`: values of a variable, as text, JSON or bytes.
//!
//! Cells are read in boxes of bounded size, so that memory use does not depend on the selection.

use std::cell::RefCell;

use drystone::array::Target;
use drystone::format::dtype::DType;
use drystone::format::meaning::Meaning;
use drystone::member::member;
use drystone::plan::selection::Selection;
use drystone::{Container, Reading, Records};
use drystone_transform::{Chain, TransformError};

use super::{Wanted, open, shape_text, step_number, wanted, warn};
use crate::args::Dump;
use crate::cells::{Slabs, result_shape};
use crate::element::{self, Element};
use crate::failure::{DAMAGE, Failure, OK, Result, USAGE};
use crate::json::{Json, list};
use crate::nested::Nested;
use crate::output::Output;
use crate::quantity::{counted, ranges};

/// Bytes read at once.
const PIECE: u64 = 8 << 20;
/// Cells printed for people without `--limit`.
const CELLS: u64 = 1000;

/// How values are printed.
struct Style<'a> {
    dtype: DType,
    meaning: Option<Meaning>,
    /// Inner shape of a record's member; empty otherwise.
    shape: Vec<u64>,
    json: bool,
    dump: &'a Dump,
}

pub(super) fn run(dump: &Dump, json: bool, output: &mut Output) -> Result<i32> {
    let path = dump.variable.as_deref().unwrap_or_default();
    let container = open(&dump.place)?;
    warn(&container);
    let reading = container.reading(path, dump.part.field.as_deref())?;
    let style = style(dump, json, &reading)?;
    if dump.raw && output.is_terminal() {
        return Err(Failure::usage(
            "bytes are not for a terminal; give -o FILE, or send them on with | or >",
        ));
    }
    if dump.raw && style.dtype.has_blobs() {
        return Err(Failure::usage(format!(
            "\"{path}\" holds strings or lists, which have no raw form; use --json"
        )));
    }
    if dump.raw
        && let Some(code) = undecoded(&container, &reading, path, dump, output)?
    {
        return Ok(code);
    }
    if dump.block.is_some() || reading.variable().local {
        return blocks(&container, &reading, path, &style, output);
    }
    let wanted = wanted(&container, path, &dump.part, dump.selection.as_deref())?;
    if dump.raw {
        return raw(&wanted, output);
    }
    let limit = match dump.limit {
        Some(0) => u64::MAX,
        Some(limit) => limit,
        None if json => u64::MAX,
        None => CELLS,
    };
    let shown = Slabs::new(&wanted.selection, limit).next().unwrap_or_else(|| wanted.selection.clone());
    let shape = result_shape(&wanted.kept, &shown);
    let whole = result_shape(&wanted.kept, &wanted.selection);
    let cells = wanted
        .selection
        .cells()
        .ok_or_else(|| Failure::usage("the selection has more than 2^64 cells; select less"))?;
    let cut = shown != wanted.selection;
    let member = dump.part.field.as_ref().map_or(String::new(), |f| format!(".{f}"));
    let missing = missing_steps(&wanted.reading, &shown)?;
    if json {
        let mut head = vec![
            ("variable", format!("{path}{member}").into()),
            ("dtype", style.kind().to_string().into()),
            ("shape", list(whole.iter().copied())),
            ("complete", Json::Bool(!cut)),
            ("shown_shape", list(shape.iter().copied())),
        ];
        if wanted.reading.variable().steps {
            head.push(("missing_steps", list(missing.iter().copied())));
        }
        head_json(&head, output);
    } else {
        output.line(&format!("{path}{member}  {}  {}", style.kind(), shape_text(&whole, &[])));
    }
    let mut nested = Nested::begin(output, &shape, json, style.is_number());
    for slab in Slabs::new(&shown, cells_at_once(&wanted.reading)) {
        if nested.is_gone() {
            break;
        }
        nested.push(&values(&wanted.reading, &slab, &style)?);
    }
    nested.end();
    output.text(if json { "}\n" } else { "\n" });
    if cut && !json {
        let seen = shown.cells().unwrap_or(0);
        output.line(&format!(
            "{} of {cells} cells are shown: the first {} of {}; --limit 0 shows all",
            seen,
            shape_text(&shape, &[]),
            shape_text(&whole, &[])
        ));
    }
    if !missing.is_empty() && !json {
        let (steps, were) = if missing.len() == 1 { ("step", "was") } else { ("steps", "were") };
        output.line(&format!(
            "{steps} {} {were} never written: those cells are the fill value",
            ranges(missing)
        ));
    }
    Ok(OK)
}

/// The selected steps in which the variable has no block. Their number is at most that of the selected cells.
fn missing_steps(reading: &Reading, selection: &Selection) -> Result<Vec<u64>> {
    let Some(axis) = selection.axes.first().filter(|_| reading.variable().steps && !selection.is_empty())
    else {
        return Ok(Vec::new());
    };
    let there = reading.steps()?;
    let mut missing: Vec<u64> =
        (0..axis.count).map(|i| axis.cell(i)).filter(|step| there.binary_search(step).is_err()).collect();
    missing.sort_unstable();
    Ok(missing)
}

fn style<'a>(dump: &'a Dump, json: bool, reading: &Reading) -> Result<Style<'a>> {
    let whole = reading.variable();
    let (dtype, meaning, shape) = match &dump.part.field {
        None => (whole.dtype.clone(), whole.meaning.clone(), Vec::new()),
        Some(field) => {
            let found = member(&whole.dtype, field).ok_or_else(|| {
                Failure::new(USAGE, format!("\"{field}\" is not a member that can be printed"))
            })?;
            let meaning = found.meaning(whole.meaning.as_ref()).cloned();
            (found.dtype, meaning, found.shape)
        }
    };
    Ok(Style { dtype, meaning, shape, json, dump })
}

fn cells_at_once(reading: &Reading) -> u64 {
    // A text takes more memory than its element.
    PIECE / 8 / u64::from(reading.item().max(1))
}

/// Starts an object whose last member is `values`.
fn head_json(members: &[(&str, Json)], output: &mut Output) {
    output.text("{");
    members.iter().for_each(|(name, value)| output.text(&format!("\"{name}\": {value}, ")));
    output.text("\"values\": ");
}

/// The texts of the cells of a box.
fn values(reading: &Reading, selection: &Selection, style: &Style<'_>) -> Result<Vec<String>> {
    if style.dtype.has_blobs() {
        return Ok(style.show_records(&reading.read_records(selection)?.0, reading.item()));
    }
    Ok(style.show_all(&read(reading, selection)?, reading.item()))
}

impl Style<'_> {
    fn kind(&self) -> Element<'_> {
        Element { dtype: &self.dtype, meaning: self.meaning.as_ref(), values: None }
    }
    fn is_number(&self) -> bool {
        matches!(self.dtype, DType::Scalar(_)) && self.shape.is_empty()
    }
    fn show(&self, kind: Element<'_>, bytes: &[u8]) -> String {
        if self.json {
            element::json(kind, &self.shape, bytes).to_string()
        } else {
            element::text(kind, &self.shape, bytes)
        }
    }
    /// Cells with values of any length.
    fn show_records(&self, records: &Records, item: u32) -> Vec<String> {
        let cells: Vec<&[u8]> = records.cells.chunks_exact(item.max(1) as usize).collect();
        let one = |(n, cell): (usize, &&[u8])| {
            let own = records.values.iter().flat_map(|values| {
                let each = values.len() / cells.len();
                values.iter().skip(n * each).take(each).cloned()
            });
            let left = RefCell::new(own.collect::<Vec<_>>().into_iter());
            self.show(Element { values: Some(&left), ..self.kind() }, cell)
        };
        cells.iter().enumerate().map(one).collect()
    }
    fn show_all(&self, bytes: &[u8], item: u32) -> Vec<String> {
        bytes.chunks_exact(item.max(1) as usize).map(|one| self.show(self.kind(), one)).collect()
    }
}

fn buffer(shape: &[u64], item: u32) -> Result<Vec<u8>> {
    let len = shape.iter().try_fold(u64::from(item), |n, d| n.checked_mul(*d));
    let len = len.and_then(|n| usize::try_from(n).ok()).filter(|n| *n <= isize::MAX as usize);
    let len = len.ok_or_else(|| Failure::usage("the block is too large for this machine"))?;
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(len)
        .map_err(|_| Failure::usage(format!("{} do not fit the memory", counted(len as u64, "byte"))))?;
    bytes.resize(len, 0);
    Ok(bytes)
}

fn read(reading: &Reading, selection: &Selection) -> Result<Vec<u8>> {
    let shape = selection.shape();
    let mut bytes = buffer(&shape, reading.item())?;
    reading.read(selection, &Target::dense(&mut bytes, &shape, reading.item() as usize)?)?;
    Ok(bytes)
}

fn raw(wanted: &Wanted, output: &mut Output) -> Result<i32> {
    let most = PIECE / u64::from(wanted.reading.item().max(1));
    for slab in Slabs::new(&wanted.selection, most) {
        if output.is_gone() {
            break;
        }
        output.bytes(&read(&wanted.reading, &slab)?);
    }
    Ok(OK)
}

/// If some blocks were encoded by a codec that is not available: writes their stored bytes, concatenated, explains it
/// on standard error, and returns the exit code. `None` if all blocks can be decoded.
fn undecoded(
    container: &Container,
    reading: &Reading,
    path: &str,
    dump: &Dump,
    output: &mut Output,
) -> Result<Option<i32>> {
    let steps = match dump.part.step {
        Some(step) => vec![Some(step_number(container, reading, path, step)?)],
        None if reading.variable().steps => reading.steps()?.into_iter().map(Some).collect(),
        None => vec![None],
    };
    let mut missing: Option<TransformError> = None;
    let mut asked = Vec::new();
    for step in steps {
        for (number, block) in reading.blocks(step)?.into_iter().enumerate() {
            if dump.block.is_none_or(|wanted| wanted == number) {
                asked.push((step, number));
                missing = missing.or(Chain::parse(&block.transform).err());
            }
        }
    }
    let Some(missing) = missing else { return Ok(None) };
    if dump.selection.is_some() {
        return Err(Failure::usage(format!(
            "\"{path}\" cannot be decoded, so no cells can be selected: {missing}; without a selection, --raw gives its stored bytes"
        )));
    }
    let mut bytes = 0;
    for (step, number) in &asked {
        reading.stored(*step, *number, &mut |stored| {
            bytes += stored.len() as u64;
            output.bytes(stored);
        })?;
    }
    let blocks = counted(asked.len() as u64, "block");
    let bytes = counted(bytes, "byte");
    Failure::new(
        DAMAGE,
        format!("\"{path}\" cannot be decoded: {missing}; these {bytes} are what is stored of {blocks}, encoded as it is"),
    )
    .report();
    Ok(Some(DAMAGE))
}

/// Blocks as written: one, or all blocks of a local variable.
fn blocks(
    container: &Container,
    reading: &Reading,
    path: &str,
    style: &Style<'_>,
    output: &mut Output,
) -> Result<i32> {
    if style.dump.selection.is_some() {
        return Err(Failure::usage(format!(
            "\"{path}\" is a local variable, which has no cells to select; use --block NUMBER"
        )));
    }
    let step = match style.dump.part.step {
        Some(step) => Some(step_number(container, reading, path, step)?),
        None => None,
    };
    let found = reading.blocks(step)?;
    let numbers = match style.dump.block {
        Some(number) => number..number + 1,
        None if style.dump.raw => {
            return Err(Failure::usage(format!(
                "\"{path}\" is a local variable of {}; say which with --block NUMBER",
                counted(found.len() as u64, "block")
            )));
        }
        None => 0..found.len(),
    };
    if style.json {
        output.text("[");
    }
    for number in numbers.clone() {
        if output.is_gone() {
            break;
        }
        let block = reading.block(step, number)?;
        let shape = block.shape();
        let (cells, bytes) = if style.dtype.has_blobs() {
            (style.show_records(&reading.read_records(&block)?.0, reading.item()), Vec::new())
        } else {
            let mut bytes = buffer(shape, reading.item())?;
            let target = Target::dense(&mut bytes, shape, reading.item() as usize)?;
            reading.read(&block, &target)?;
            if style.dump.raw {
                (Vec::new(), bytes)
            } else {
                (style.show_all(&bytes, reading.item()), Vec::new())
            }
        };
        if style.dump.raw {
            output.bytes(&bytes);
            continue;
        }
        let info = found.get(number);
        if style.json {
            output.text(if number == numbers.start { "" } else { ",\n" });
            let head = [
                ("variable", path.into()),
                ("dtype", style.kind().to_string().into()),
                ("block", number.into()),
                ("step", step.into()),
                ("writer", info.map(|b| b.writer).into()),
                ("offset", info.map_or(Json::Null, |b| list(b.offset.iter().copied()))),
                ("shape", list(shape.iter().copied())),
            ];
            head_json(&head, output);
        } else {
            let writer = info.map_or(String::new(), |b| format!("  writer {}", b.writer));
            let at = step.map_or(String::new(), |s| format!(" at step {s}"));
            output.line(&format!(
                "{path} block {number}{at}  {}  {}{writer}",
                style.kind(),
                shape_text(shape, &[])
            ));
        }
        let mut nested = Nested::begin(output, shape, style.json, style.is_number());
        nested.push(&cells);
        nested.end();
        output.text(if style.json { "}" } else { "\n" });
    }
    if style.json {
        output.text("]\n");
    }
    Ok(OK)
}
