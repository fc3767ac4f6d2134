//! A plan as text. The text is stable, so that tests and people can compare two plans.

use std::fmt::{self, Display, Formatter};
use std::ops::Range;

use drystone_transform::Bound;

use super::ReadPlan;
use crate::counted::counted;

/// Most requests that are listed.
const LINES: usize = 20;

impl Display for ReadPlan {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if !self.title.is_empty() {
            writeln!(f, "{}", self.title)?;
        }
        let blocks = counted(self.blocks as u64, "block");
        let subchunks = counted(self.subchunks as u64, "subchunk");
        let requests = counted(self.requests as u64, "request");
        writeln!(f, "{blocks}, {subchunks}, {requests}")?;
        write!(f, "{} bytes wanted, {} bytes read", self.wanted_bytes, self.read_bytes)?;
        let filled = self.fill.iter().filter(|&&fill| fill).count();
        if filled > 0 {
            write!(f, "; cells without data in {filled} of {}", counted(self.fill.len() as u64, "slot"))?;
        }
        if let Some(window) = &self.window {
            write!(f, "\n{window}, {}", counted(self.rounds.into(), "round trip"))?;
        }
        if let Some(cached) = self.cached {
            write!(f, "\ncache: {cached} bytes of them are in the folder")?;
        }
        if let Some(local) = &self.local {
            write!(f, "\n{local}")?;
        }
        if let Some(seconds) = self.predicted {
            write!(f, "\npredicted: {:.3} ms", seconds * 1e3)?;
        }
        if let Some((bytes, seconds)) = self.every_bit {
            write!(f, "\nevery bit: {bytes} bytes read, predicted: {:.3} ms", seconds * 1e3)?;
            if self.predicted.is_some_and(|predicted| predicted >= seconds) {
                f.write_str("; reading less is not expected to be faster here")?;
            }
        }
        if let Some(seconds) = self.measured {
            write!(f, "\nmeasured: {:.3} ms", seconds * 1e3)?;
        }
        for choice in &self.choices {
            write!(f, "\n  {choice}")?;
        }
        for decision in self.decisions.iter().take(LINES) {
            write!(f, "\n  {decision}")?;
        }
        if self.bound != Bound::EXACT {
            write!(f, "\n{}", self.bound)?;
        }
        for input in &self.inputs {
            write!(f, "\n  {}", input.to_string().replace('\n', "\n  "))?;
        }
        let trailers = self.trailers.iter().map(|t| (t.source, &t.range, t.items.len(), "trailer"));
        let payloads = self.fetches.iter().map(|p| (p.source, &p.range, p.items.len(), "range"));
        let line = |f: &mut Formatter<'_>, source: u32, range: &Range<u64>, number: usize, what: &str| {
            write!(
                f,
                "\n  source {source}: {}..{} ({})",
                range.start,
                range.end,
                counted(number as u64, what)
            )
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
