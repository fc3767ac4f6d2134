//! Small writes of one rank to a dataset: their positions, encoded compactly, and their cells.

use crate::model::tree::Id;

/// Runs of cells of equal length at equal distances, by their numbers in row-major order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Runs {
    pub(super) start: u64,
    pub(super) step: u64,
    pub(super) length: u64,
    pub(super) count: u64,
}

impl Runs {
    pub(super) const ENCODED: usize = 8 * 5;

    pub(super) fn each(self) -> impl Iterator<Item = u64> {
        (0..self.count).map(move |i| self.start + i * self.step)
    }

    pub(super) fn end(self) -> u64 {
        self.start + (self.count - 1) * self.step + self.length
    }

    pub(super) fn encode(self, dataset: Id, out: &mut Vec<u8>) {
        let numbers = [dataset, self.start, self.step, self.length, self.count];
        out.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
    }

    /// The dataset, runs that end below 2^62, and what follows.
    pub(super) fn decode(bytes: &[u8]) -> Option<(Id, Runs, &[u8])> {
        let (head, rest) = bytes.split_at_checked(Self::ENCODED)?;
        let number = |i: usize| Some(u64::from_le_bytes(head.get(8 * i..8 * i + 8)?.try_into().ok()?));
        let runs = Runs { start: number(1)?, step: number(2)?, length: number(3)?, count: number(4)? };
        let reach = runs.count.checked_sub(1)?.checked_mul(runs.step)?.checked_add(runs.length)?;
        let end = runs.start.checked_add(reach)?.max(runs.count.checked_mul(runs.length)?);
        (runs.length > 0 && end < 1 << 62).then_some((number(0)?, runs, rest))
    }
}

/// The small writes of a rank to a dataset, in order.
#[derive(Debug, Default)]
pub(crate) struct Patch {
    pub(super) runs: Vec<Runs>,
    pub(super) data: Vec<u8>,
}

impl Patch {
    pub(super) fn push(&mut self, start: u64, length: u64, cells: &[u8]) {
        self.data.extend_from_slice(cells);
        match self.runs.last_mut() {
            Some(last) if last.length == length && last.count == 1 && start > last.start => {
                last.step = start - last.start;
                last.count = 2;
            }
            Some(last) if last.length == length && start == last.start + last.count * last.step => {
                last.count += 1;
            }
            _ => self.runs.push(Runs { start, step: length, length, count: 1 }),
        }
    }

    /// First cell and number of each run.
    pub(super) fn all(&self) -> Vec<(u64, u64)> {
        self.runs.iter().flat_map(|runs| runs.each().map(|start| (start, runs.length))).collect()
    }

    /// Parts of at most `most` bytes (or one run of cells), runs and their cells.
    pub(super) fn parts(&self, dataset: Id, item: usize, most: usize, out: &mut Vec<Vec<u8>>) {
        let mut data = &self.data[..];
        for runs in &self.runs {
            let bytes = runs.length as usize * item;
            let at_once = (most.saturating_sub(Runs::ENCODED) / bytes.max(1)).max(1) as u64;
            let mut done = 0;
            while done < runs.count {
                let count = at_once.min(runs.count - done);
                let some = Runs { start: runs.start + done * runs.step, count, ..*runs };
                let (cells, rest) = data.split_at((count as usize * bytes).min(data.len()));
                let full = out.last().is_none_or(|part| part.len() + Runs::ENCODED + cells.len() > most);
                if full {
                    out.push(Vec::new());
                }
                if let Some(part) = out.last_mut() {
                    some.encode(dataset, part);
                    part.extend_from_slice(cells);
                }
                data = rest;
                done += count;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]
    use super::*;

    #[test]
    fn runs_at_equal_distances_are_one_record_and_travel_in_parts() {
        let mut patch = Patch::default();
        for i in 0..5u64 {
            patch.push(3 + i * 4, 1, &[i as u8; 4]);
        }
        patch.push(2, 2, &[9; 8]);
        assert_eq!(patch.runs.len(), 2);
        let mut parts = Vec::new();
        patch.parts(7, 4, 1 << 20, &mut parts);
        let (id, runs, rest) = Runs::decode(&parts[0]).unwrap();
        assert_eq!((id, runs), (7, Runs { start: 3, step: 4, length: 1, count: 5 }));
        let (_, second, cells) = Runs::decode(&rest[20..]).unwrap();
        assert_eq!((second.start, second.length, cells), (2, 2, &[9; 8][..]));
        let mut large = Patch::default();
        let cells = vec![1u8; 1000];
        for i in 0..9000u64 {
            large.push(i * 2000, 1000, &cells);
        }
        let mut parts = Vec::new();
        large.parts(1, 1, 4 << 20, &mut parts);
        assert!(parts.len() == 3 && parts.iter().all(|part| part.len() <= 4 << 20));
        assert!(Runs::decode(&[0xff; Runs::ENCODED]).is_none());
        assert!(Runs::decode(&[0; 8]).is_none());
    }
}
