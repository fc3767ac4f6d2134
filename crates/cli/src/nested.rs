//! An array as nested brackets: lines of bounded width for people, JSON for programs.

use crate::output::Output;

/// Approximate characters per line.
const WIDTH: usize = 100;

/// Prints cells in row-major order.
pub(crate) struct Nested<'o> {
    output: &'o mut Output,
    /// `blocks[d]` is the number of cells in one bracket of depth `d`.
    blocks: Vec<u64>,
    total: u64,
    printed: u64,
    column: usize,
    json: bool,
    align: bool,
}

impl<'o> Nested<'o> {
    /// Starts an array of this shape, whose cell count fits 64 bits. `align` right-aligns numbers.
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

    /// True if the reader of the output is gone.
    pub(crate) fn is_gone(&self) -> bool {
        self.output.is_gone()
    }

    /// Prints the next cells.
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

    /// Closes all brackets.
    pub(crate) fn end(self) {
        if self.total > 0 {
            self.output.text(&"]".repeat(self.blocks.len()));
        }
    }
}

/// The width that cells are aligned to.
fn width(cells: &[String]) -> usize {
    cells.iter().map(|c| c.chars().count()).max().unwrap_or(0)
}

/// An array without cells, as NumPy's `tolist` returns it, unless that is long.
fn empty(shape: &[u64]) -> String {
    match shape.split_first() {
        None | Some((0, _)) => "[]".into(),
        Some((n, rest)) if *n <= 1000 => format!("[{}]", vec![empty(rest); *n as usize].join(", ")),
        Some(_) => "[]".into(),
    }
}
