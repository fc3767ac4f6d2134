//! An array as nested brackets, cell after cell: for people lines of bounded width, for programs JSON.

use crate::output::Output;

/// Characters on a line, about.
const WIDTH: usize = 100;

/// Prints cells that come in row-major order.
pub(crate) struct Nested<'o> {
    output: &'o mut Output,
    /// Cells in one cell of each axis before: `blocks[d]` cells lie in one bracket of depth `d`.
    blocks: Vec<u64>,
    total: u64,
    printed: u64,
    column: usize,
    json: bool,
    align: bool,
}

impl<'o> Nested<'o> {
    /// Begins an array of the given shape (whose number of cells fits 64 bits); `align` is for numbers, to the right.
    pub(crate) fn begin(output: &'o mut Output, shape: &[u64], json: bool, align: bool) -> Self {
        let mut blocks: Vec<u64> = Vec::with_capacity(shape.len());
        for n in shape.iter().rev() {
            blocks.push(blocks.last().map_or(*n, |b| b.saturating_mul(*n)));
        }
        blocks.reverse();
        let total = blocks.first().copied().unwrap_or(1);
        if total == 0 {
            output.text(&if json { empty(shape) } else { "[]".into() });
        } else {
            output.text(&"[".repeat(shape.len()));
        }
        Nested { output, column: shape.len(), blocks, total, printed: 0, json, align }
    }

    /// Has the reader gone away?
    pub(crate) fn is_gone(&self) -> bool {
        self.output.is_gone()
    }

    /// The next cells.
    pub(crate) fn push(&mut self, cells: &[String]) {
        let width = if self.json || !self.align || self.blocks.is_empty() { 0 } else { width(cells) };
        for cell in cells {
            self.separate(width.max(cell.len()));
            let pad = width.saturating_sub(cell.chars().count());
            self.output.text(&" ".repeat(pad));
            self.output.text(cell);
            self.column += pad + cell.chars().count();
            self.printed += 1;
        }
    }

    fn separate(&mut self, next: usize) {
        if self.printed == 0 {
            return;
        }
        let closed = self.blocks.iter().filter(|b| self.printed.is_multiple_of(**b)).count();
        let ndim = self.blocks.len();
        if closed == 0 {
            self.output.text(",");
            if !self.json && self.column + next + 2 > WIDTH {
                self.output.text("\n");
                self.output.text(&" ".repeat(ndim));
                self.column = ndim;
            } else {
                self.output.text(" ");
                self.column += 2;
            }
            return;
        }
        let lines = if self.json { 1 } else { closed };
        let text = format!(
            "{},{}{}{}",
            "]".repeat(closed),
            "\n".repeat(lines),
            " ".repeat(ndim - closed),
            "[".repeat(closed)
        );
        self.output.text(&text);
        self.column = ndim;
    }

    /// Closes the brackets.
    pub(crate) fn end(self) {
        if self.total > 0 {
            self.output.text(&"]".repeat(self.blocks.len()));
        }
    }
}

/// Width to which cells are aligned.
fn width(cells: &[String]) -> usize {
    cells.iter().map(|c| c.chars().count()).max().unwrap_or(0)
}

/// An array without cells as NumPy's `tolist` has it, unless that would be long.
fn empty(shape: &[u64]) -> String {
    match shape.split_first() {
        None | Some((0, _)) => "[]".into(),
        Some((n, rest)) if *n <= 1000 => format!("[{}]", vec![empty(rest); *n as usize].join(", ")),
        Some(_) => "[]".into(),
    }
}
