//! A plan as text: stable, so that two plans can be compared by eye and by test.

use std::fmt::{self, Display, Formatter};
use std::ops::Range;

use drystone_transform::Bound;

use super::ReadPlan;

/// Most requests that are listed.
const LINES: usize = 20;

impl Display for ReadPlan {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if !self.title.is_empty() {
            writeln!(f, "{}", self.title)?;
        }
        let blocks = counted(self.blocks, "block");
        let subchunks = counted(self.subchunks, "subchunk");
        let requests = counted(self.requests, "request");
        writeln!(f, "{blocks}, {subchunks}, {requests}")?;
        write!(f, "{} bytes wanted, {} bytes read", self.wanted_bytes, self.read_bytes)?;
        let filled = self.fill.iter().filter(|&&fill| fill).count();
        if filled > 0 {
            write!(f, "; cells without data in {filled} of {}", counted(self.fill.len(), "slot"))?;
        }
        if let Some(window) = &self.window {
            write!(f, "\n{window}")?;
        }
        if let Some(seconds) = self.predicted {
            write!(f, "\npredicted: {:.3} ms", seconds * 1e3)?;
        }
        if let Some(seconds) = self.measured {
            write!(f, "\nmeasured: {:.3} ms", seconds * 1e3)?;
        }
        for choice in &self.choices {
            write!(f, "\n  {choice}")?;
        }
        if self.bound != Bound::EXACT {
            let Bound { absolute, relative } = self.bound;
            write!(
                f,
                "\nvalues within {absolute:e} of the stored ones, and within {relative:e} of their magnitude"
            )?;
        }
        let trailers = self.trailers.iter().map(|t| (t.source, &t.range, t.items.len(), "trailer"));
        let payloads = self.fetches.iter().map(|p| (p.source, &p.range, p.items.len(), "range"));
        let line = |f: &mut Formatter<'_>, source: u32, range: &Range<u64>, number: usize, what: &str| {
            write!(f, "\n  source {source}: {}..{} ({})", range.start, range.end, counted(number, what))
        };
        for (source, range, number, what) in trailers.chain(payloads).take(LINES) {
            line(f, source, range, number, what)?;
        }
        if self.requests > LINES {
            write!(f, "\n  ... {} more", self.requests - LINES)?;
        }
        Ok(())
    }
}

fn counted(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
