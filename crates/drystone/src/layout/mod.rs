//! Stored layouts: the order, cells and tiles in which the blocks of a variable are stored.
//!
//! `default` fragments of the declared texts state how puts are stored; `replica(k)` fragments state what is stored
//! in addition. A [`Form`] is one variable of one instance of such a fragment: a box of the variable, and the
//! arrangement of its cells. A put is cut along the boxes that it meets.
//!
//! Invariants
//! - every cell of every put member is in exactly one part of replica 0: cells outside all default fragments are
//!   stored as if undeclared;
//! - the parts of a replica lie inside the put, and are disjoint.

mod curve;
mod declared;
mod derive;
pub(crate) mod region;

use drystone_format::dtype::Leaf;
use drystone_format::layout::{Layout, Order};

pub(crate) use curve::{MOST_CELLS, Table};
pub(crate) use declared::declared_mix;
pub(crate) use derive::{Layouts, check};

use crate::schema::member::Column;
use region::{Region, subtract};

/// The layout of blocks for which no `chunks` are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BlockLayout {
    /// Cut into subchunks by the cost model, in Hilbert order.
    #[default]
    Model,
    /// Whole, up to the size of the largest subchunk.
    Log,
}

impl BlockLayout {
    /// `model` or `log`.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "model" => Some(BlockLayout::Model),
            "log" => Some(BlockLayout::Log),
            _ => None,
        }
    }
}

/// Members side by side in cells, in a declared order of cells, for a box of the variable.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Form {
    /// Half-open ranges of cells. A growing range ends at `u64::MAX`.
    region: Region,
    /// Bytes of a cell.
    room: u32,
    /// The order of cells; `None` is row-major.
    order: Option<Order>,
    /// The numbers of leaf members, and the offset of each in the cell.
    members: Vec<(u32, u32)>,
}

/// All forms of one replica of a variable (0: the default).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Set {
    pub(crate) replica: u32,
    pub(crate) forms: Vec<Form>,
}

/// A part of a put that is stored as one block.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Laid {
    pub(crate) offset: Vec<u64>,
    pub(crate) count: Vec<u64>,
    /// Positions in the list of put leaves, and the offset of each in the cell.
    pub(crate) members: Vec<(usize, u32)>,
    pub(crate) room: u32,
    pub(crate) order: Option<Order>,
    pub(crate) replica: u32,
}

impl Laid {
    pub(crate) fn is_curved(&self) -> bool {
        matches!(self.order, Some(Order::Morton | Order::Hilbert))
    }

    /// The layout in the index entry of a member.
    pub(crate) fn layout(&self, at: u32, item: u32) -> Layout {
        if self.order.is_none() && (at, item) == (0, self.room) {
            return Layout::Dense;
        }
        let rows = || Order::Dims((0..self.count.len() as u8).collect());
        let order = self.order.clone().unwrap_or_else(rows);
        Layout::Cells(drystone_format::layout::Cells { room: self.room, at, order })
    }

    fn of(
        region: &Region,
        members: Vec<(usize, u32)>,
        room: u32,
        order: Option<Order>,
        replica: u32,
    ) -> Laid {
        let (offset, count) = region.iter().map(|(from, to)| (*from, to - from)).unzip();
        Laid { offset, count, members, room, order, replica }
    }
}

/// Cuts a put of some leaves of a variable into parts.
pub(crate) fn laid(sets: &[Set], leaves: &[Column], offset: &[u64], count: &[u64]) -> Vec<Laid> {
    let all: Region = offset.iter().zip(count).map(|(from, n)| (*from, from + n)).collect();
    let plain = |n: usize, region: &Region, leaf: &Leaf| Laid::of(region, vec![(n, 0)], leaf.size, None, 0);
    if sets.is_empty() || count.contains(&0) {
        return leaves.iter().enumerate().map(|(n, column)| plain(n, &all, &column.leaf)).collect();
    }
    let mut out = Vec::new();
    let mut left: Vec<Vec<Region>> = vec![vec![all.clone()]; leaves.len()];
    if let Some(set) = sets.iter().find(|set| set.replica == 0) {
        set.lay(leaves, &mut left, &mut out);
    }
    for (n, (column, regions)) in leaves.iter().zip(&left).enumerate() {
        out.extend(regions.iter().map(|region| plain(n, region, &column.leaf)));
    }
    for set in sets.iter().filter(|set| set.replica > 0) {
        set.lay(leaves, &mut vec![vec![all.clone()]; leaves.len()], &mut out);
    }
    out
}

impl Set {
    /// Takes the cells that the forms hold out of `left`, the regions of each leaf that are still to be stored.
    fn lay(&self, leaves: &[Column], left: &mut [Vec<Region>], out: &mut Vec<Laid>) {
        for form in &self.forms {
            // A part of a member does not lie where the whole member would.
            let whole = |column: &Column, member: u32| column.number == member && !column.is_part();
            let known =
                |(member, at): &(u32, u32)| Some((leaves.iter().position(|c| whole(c, *member))?, *at));
            let members: Vec<(usize, u32)> = form.members.iter().filter_map(known).collect();
            let Some((first, rest)) = members.split_first() else { continue };
            let regions = |n: usize| left.get(n).map_or(&[][..], Vec::as_slice);
            let together = members.len() == form.members.len()
                && rest.iter().all(|(n, _)| regions(*n) == regions(first.0));
            if together {
                for region in met(regions(first.0), &form.region) {
                    out.push(Laid::of(&region, members.clone(), form.room, form.order.clone(), self.replica));
                }
            } else {
                // Without some of their members the cells would have holes, so each member is stored separately.
                for (n, _) in &members {
                    let Some(leaf) = leaves.get(*n).map(|column| &column.leaf) else { continue };
                    for region in met(regions(*n), &form.region) {
                        out.push(Laid::of(
                            &region,
                            vec![(*n, 0)],
                            leaf.size,
                            form.order.clone(),
                            self.replica,
                        ));
                    }
                }
            }
            for (n, _) in members {
                if let Some(regions) = left.get_mut(n) {
                    *regions = subtract(std::mem::take(regions), &form.region);
                }
            }
        }
    }
}

fn common(a: &Region, b: &Region) -> Option<Region> {
    let both = a.iter().zip(b).map(|(a, b)| (a.0.max(b.0), a.1.min(b.1)));
    both.map(|(from, to)| (from < to).then_some((from, to))).collect()
}

fn met<'a>(regions: &'a [Region], form: &'a Region) -> impl Iterator<Item = Region> + 'a {
    regions.iter().filter_map(|region| common(region, form))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use drystone_format::dtype::{DType, Scalar};

    struct Dice(u64);

    impl Dice {
        fn below(&mut self, n: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % n
        }

        fn range(&mut self, n: u64) -> (u64, u64) {
            let from = self.below(n);
            (from, from + 1 + self.below(n - from))
        }
    }

    fn leaf(number: u32) -> Column {
        let dtype = DType::Scalar(Scalar::F32);
        let path = format!("m{number}");
        Column::of(number as usize, Leaf { path, dtype, repeat: 1, offset: 4 * number, size: 4 })
    }

    #[test]
    fn every_put_cell_is_stored_once_and_replicas_stay_inside_the_put() {
        let mut dice = Dice(1);
        for _ in 0..500 {
            let form = |dice: &mut Dice| {
                let members: Vec<(u32, u32)> = (0..3).filter(|_| dice.below(2) == 0).zip([0, 4, 8]).collect();
                let order = (dice.below(2) == 0).then_some(Order::Hilbert);
                Form { region: vec![dice.range(9), dice.range(7)], room: 12, order, members }
            };
            let set = |replica, dice: &mut Dice| {
                let forms = (0..dice.below(5)).map(|_| form(dice)).collect();
                Set { replica, forms }
            };
            let sets = [set(0, &mut dice), set(4, &mut dice)];
            let leaves: Vec<Column> = (0..3).filter(|_| dice.below(3) > 0).map(leaf).collect();
            let (rows, cols) = (dice.range(9), dice.range(7));
            let (offset, count) = ([rows.0, cols.0], [rows.1 - rows.0, cols.1 - cols.0]);
            let mut seen: HashMap<(u32, usize, u64, u64), u32> = HashMap::new();
            for part in laid(&sets, &leaves, &offset, &count) {
                assert!(part.members.iter().all(|(n, at)| at + leaves[*n].leaf.size <= part.room));
                for (n, _) in &part.members {
                    for i in part.offset[0]..part.offset[0] + part.count[0] {
                        for j in part.offset[1]..part.offset[1] + part.count[1] {
                            assert!((rows.0..rows.1).contains(&i) && (cols.0..cols.1).contains(&j));
                            *seen.entry((part.replica, *n, i, j)).or_default() += 1;
                        }
                    }
                }
            }
            assert!(seen.values().all(|times| *times == 1));
            let put = seen.keys().filter(|(replica, ..)| *replica == 0).count() as u64;
            assert_eq!(put, leaves.len() as u64 * count[0] * count[1]);
        }
    }
}
