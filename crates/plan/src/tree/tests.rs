//! Tests the tree against a sorted list, and how many pages it touches.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};

use drystone_format::block::Block;
use drystone_format::block::decode_block;
use drystone_format::entry::{encode_block, key_cmp};

use super::*;
use crate::random::{Random, block};

#[derive(Default)]
struct Memory {
    leaves: HashMap<u64, Arc<Leaf>>,
    branches: HashMap<u64, Arc<Branch>>,
    emitted: u64,
    loaded: Cell<(u64, u64)>,
    /// By the last insertion.
    replaced: Vec<u64>,
    /// Pages that were hinted at.
    expected: RefCell<Vec<u64>>,
}

/// New pages are kept apart while a tree is read; `insert` needs the reader and the emitter at once.
#[derive(Default)]
struct Fresh {
    next: u64,
    leaves: Vec<(u64, Vec<Entry>)>,
    branches: Vec<(u64, Branch)>,
    replaced: Vec<u64>,
}

impl Emit for Fresh {
    fn leaf(&mut self, entries: Vec<Entry>) -> PageRef {
        assert_eq!(decode_block(&encode_block(&entries)).as_ref(), Ok(&entries));
        self.next += 1;
        self.leaves.push((self.next, entries));
        PageRef { offset: self.next, ..PageRef::default() }
    }
    fn branch(&mut self, branch: Branch) -> PageRef {
        assert_eq!(Branch::decode(&branch.encode()).as_ref(), Ok(&branch));
        self.next += 1;
        self.branches.push((self.next, branch));
        PageRef { offset: self.next, ..PageRef::default() }
    }
    fn replaces(&mut self, page: &PageRef) {
        self.replaced.push(page.offset);
    }
}

impl Pages for Memory {
    type Error = String;
    fn branch(&self, page: &PageRef) -> Result<Arc<Branch>, String> {
        let (leaves, branches) = self.loaded.get();
        self.loaded.set((leaves, branches + 1));
        self.branches.get(&page.offset).cloned().ok_or_else(|| "no such branch".into())
    }
    fn leaf(&self, page: &PageRef) -> Result<Arc<Leaf>, String> {
        let (leaves, branches) = self.loaded.get();
        self.loaded.set((leaves + 1, branches));
        self.leaves.get(&page.offset).cloned().ok_or_else(|| "no such leaf".into())
    }
    fn expect(&self, pages: &[&PageRef]) {
        self.expected.borrow_mut().extend(pages.iter().map(|page| page.offset));
    }
    fn invalid(&self, _: &PageRef, what: String) -> String {
        what
    }
}

impl Memory {
    /// Inserts, and returns the new root and the number of pages it took.
    fn insert(&mut self, root: Option<Root>, entries: Vec<Entry>) -> (Option<Root>, u64) {
        let mut fresh = Fresh { next: self.emitted, ..Fresh::default() };
        let root = insert(self, root.as_ref(), &new(entries), &mut fresh).unwrap();
        let made = fresh.next - self.emitted;
        self.emitted = fresh.next;
        self.replaced = fresh.replaced;
        // Leaves as a process sees them: pages that it made, and pages that it read.
        let leaf = |at: u64, page: Vec<Entry>| match at % 2 {
            0 => Leaf::Entries(page),
            _ => Leaf::Columns(Box::new(Block::decode(&encode_block(&page)).unwrap())),
        };
        self.leaves.extend(fresh.leaves.into_iter().map(|(at, page)| (at, Arc::new(leaf(at, page)))));
        self.branches.extend(fresh.branches.into_iter().map(|(at, page)| (at, Arc::new(page))));
        (root, made)
    }

    fn find(&self, root: &Root, query: &Query) -> (Vec<Entry>, u64, u64) {
        self.loaded.set((0, 0));
        self.expected.borrow_mut().clear();
        let mut found = Vec::new();
        find(self, root, query, &mut |entry| found.push(entry)).unwrap();
        let (leaves, branches) = self.loaded.get();
        let expected = self.expected.borrow().len() as u64;
        assert_eq!(
            expected,
            (leaves + branches).saturating_sub(1),
            "all pages below the root are prefetched, and no others"
        );
        (found, leaves, branches)
    }
}

fn new(entries: Vec<Entry>) -> NewEntries {
    let mut new = NewEntries::default();
    new.extend(entries);
    new
}

fn random_entry(random: &mut Random, number: u64) -> Entry {
    let variable = random.below(4) as u32;
    let ndim = variable as usize; // variable 0 is 0-d, and so on
    let offset: Vec<u64> = (0..ndim).map(|_| random.below(200)).collect();
    let count: Vec<u64> = (0..ndim).map(|_| random.below(20)).collect();
    let mut entry = block(&offset, &count, random.below(50));
    (entry.step, entry.variable, entry.member) = (random.below(30), variable, random.below(3) as u32);
    entry.put = number;
    entry
}

fn random_query(random: &mut Random) -> Query {
    let variable = random.below(4) as u32;
    let (mut lo, mut hi) = ([0; MAX_NDIM], [0; MAX_NDIM]);
    for d in 0..variable as usize {
        lo[d] = random.below(200);
        hi[d] = lo[d] + 1 + random.below(60);
    }
    Query {
        steps: StepSet { first: random.below(30), count: random.below(12), stride: 1 + random.below(5) },
        variable,
        member: (random.below(2) == 0).then(|| random.below(3) as u32),
        bounds: (random.below(4) != 0).then_some((lo, hi)),
    }
}

/// The documented meaning of a query, cell ranges included, computed without the tree's code.
fn answers(query: &Query, entry: &Entry) -> bool {
    let steps: Vec<u64> =
        (0..query.steps.count).map(|i| query.steps.first + i * query.steps.stride).collect();
    let meets = query.bounds.is_none_or(|(lo, hi)| {
        (0..entry.ndim as usize).all(|d| {
            let cells = entry.offset[d]..entry.offset[d] + entry.count[d];
            cells.clone().any(|cell| (lo[d]..hi[d]).contains(&cell))
        })
    });
    steps.contains(&entry.step)
        && entry.variable == query.variable
        && query.member.is_none_or(|m| m == entry.member)
        && meets
}

fn sorted(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.sort_by(key_cmp);
    entries
}

#[test]
fn a_page_is_replaced_if_only_the_old_tree_has_it() {
    let mut random = Random(3);
    let (mut memory, mut root) = (Memory::default(), None);
    for step in 0..400 {
        // Mostly steps in order, which fill and join the leaves at the right edge.
        let batch: Vec<Entry> = (0..[13, 13, 700][random.below(3) as usize])
            .map(|i| Entry { step: if i % 500 == 499 { 3 } else { step }, ..random_entry(&mut random, i) })
            .collect();
        let pages = |memory: &Memory, root: &Option<Root>| {
            let mut found = BTreeSet::new();
            let Some(root) = root else { return found };
            each_page(memory, root, &mut |page| found.insert(page.offset)).unwrap();
            found
        };
        let before = pages(&memory, &root);
        root = memory.insert(root, batch).0;
        let after = pages(&memory, &root);
        let gone: BTreeSet<u64> = before.difference(&after).copied().collect();
        assert_eq!(memory.replaced.iter().copied().collect::<BTreeSet<_>>(), gone, "step {step}");
    }
    assert!(root.is_some_and(|root| root.height > 1));
}

#[test]
fn random_inserts_and_queries_agree_with_a_sorted_list() {
    let mut random = Random(7);
    for round in 0..2 {
        let (mut memory, mut root, mut model) = (Memory::default(), None, Vec::new());
        for _ in 0..20 {
            let size = [0, 1, 3, 40, 400, 1500][random.below(6) as usize];
            let batch: Vec<Entry> =
                (0..size).map(|i| random_entry(&mut random, model.len() as u64 + i)).collect();
            model.extend(batch.iter().cloned());
            root = memory.insert(root, batch).0;
            let Some(root) = root else { continue };
            assert_eq!(root.entries, model.len() as u64);
            let mut heights = Vec::new();
            walk(&memory, &root, &mut |_, height| heights.push(height)).unwrap();
            assert_eq!(heights[0], root.height);
            for _ in 0..20 {
                let query = random_query(&mut random);
                let expected: Vec<Entry> =
                    model.iter().filter(|entry| answers(&query, entry)).cloned().collect();
                assert_eq!(sorted(memory.find(&root, &query).0), sorted(expected), "{round} {query:?}");
            }
        }
        let mut all = Vec::new();
        entries(&memory, &root.unwrap(), &mut |entry| all.push(entry.clone())).unwrap();
        assert_eq!(sorted(all), sorted(model));
        assert!(memory.leaves.values().all(|leaf| (1..=LEAF_CAPACITY).contains(&leaf.len())));
        assert!(memory.branches.values().all(|b| (1..=BRANCH_FANOUT).contains(&b.children.len())));
    }
}

#[test]
fn an_old_root_still_answers_as_before() {
    let mut random = Random(8);
    let mut memory = Memory::default();
    let first: Vec<Entry> = (0..3000).map(|i| random_entry(&mut random, i)).collect();
    let (old, _) = memory.insert(None, first.clone());
    memory.insert(old, (0..3000).map(|i| random_entry(&mut random, 3000 + i)).collect());
    let mut all = Vec::new();
    entries(&memory, &old.unwrap(), &mut |entry| all.push(entry.clone())).unwrap();
    assert_eq!(sorted(all), sorted(first));
}

/// A 3-d grid of blocks of edge 16 in one step.
fn grid(edge: [u64; 3], step: u64) -> Vec<Entry> {
    let mut entries = Vec::new();
    for z in 0..edge[0] {
        for y in 0..edge[1] {
            for x in 0..edge[2] {
                let mut entry = block(&[z * 16, y * 16, x * 16], &[16; 3], 1);
                (entry.step, entry.put) = (step, entries.len() as u64);
                entries.push(entry);
            }
        }
    }
    entries
}

fn box_query(step: u64, lo: [u64; 3], hi: [u64; 3]) -> Query {
    let pad = |v: [u64; 3]| [v[0], v[1], v[2], 0, 0, 0, 0, 0];
    Query { steps: StepSet::one(step), variable: 0, member: None, bounds: Some((pad(lo), pad(hi))) }
}

#[test]
fn planes_and_neighbourhoods_of_100_000_blocks_touch_few_pages() {
    let mut memory = Memory::default();
    let edge = [56, 40, 45];
    let (root, _) = memory.insert(None, grid(edge, 1));
    let root = root.unwrap();
    let all = memory.leaves.len() as u64;
    assert_eq!((root.entries, all), (100_800, 197));

    // A leaf holds 8 x 8 x 8 blocks, so no order could touch less than 8 of 56 layers, a seventh.
    let mut planes = 0;
    for z in 0..56 {
        let (found, leaves, _) =
            memory.find(&root, &box_query(1, [z * 16 + 5, 0, 0], [z * 16 + 6, 640, 720]));
        assert_eq!(found.len() as u64, 40 * 45);
        assert!(leaves * 100 < all * 20, "{leaves} of {all} leaves at {z}");
        planes += leaves;
    }
    assert!(planes * 100 < 56 * all * 17, "{planes} of {}", 56 * all);

    let (mut most, mut sum, mut number) = (0, 0, 0);
    for _ in 0..500 {
        let mut random = Random(number);
        let at: Vec<u64> = edge.iter().map(|&n| 16 * (1 + random.below(n - 2))).collect();
        let query = box_query(1, [at[0] - 1, at[1] - 1, at[2] - 1], [at[0] + 17, at[1] + 17, at[2] + 17]);
        let (found, leaves, branches) = memory.find(&root, &query);
        assert_eq!(found.len(), 27);
        most = most.max(leaves + branches);
        sum += leaves + branches;
        number += 1;
        let (found, leaves, branches) =
            memory.find(&root, &box_query(1, [at[0], at[1], at[2]], [at[0] + 1, at[1] + 1, at[2] + 1]));
        assert!(found.len() == 1 && leaves + branches < 10, "{leaves} leaves, {branches} branches");
    }
    assert!(most < 24 && sum < 10 * number, "at most {most}, {sum} for {number}");
}

#[test]
fn appending_steps_emits_one_path_and_keeps_pages_full() {
    let mut memory = Memory::default();
    let mut root = None;
    let steps = 8_000;
    let (mut emitted, mut above) = (0, 0);
    for step in 1..=steps {
        let (new, made) = memory.insert(root, grid([1, 2, 5], step));
        root = new;
        let height = root.map_or(0, |root| u64::from(root.height));
        above += u64::from(made > height + 2);
        emitted += made;
    }
    let root = root.unwrap();
    assert_eq!((root.entries, root.height), (80_000, 2));
    // An append emits one page more only where a branch fills up.
    assert!(above <= 2, "{above} appends emitted more than height + 2 pages");
    assert!(emitted < steps * 4, "{emitted}");
    let mut leaves = 0;
    walk(&memory, &root, &mut |_, height| leaves += u64::from(height == 0)).unwrap();
    // Full leaves, and up to four at the end that are not joined yet.
    assert!((157..=160).contains(&leaves), "{leaves}");
    let point = box_query(777, [0, 20, 20], [1, 21, 21]);
    let (found, leaves, branches) = memory.find(&root, &point);
    assert_eq!((found.len(), leaves, branches), (1, 1, 2));
}

#[test]
fn rewriting_one_block_many_times_keeps_all_its_entries() {
    let mut memory = Memory::default();
    let mut root = None;
    for commit in 0..2000 {
        root = memory.insert(root, vec![block(&[3, 4], &[2, 2], commit)]).0;
    }
    let query = Query { steps: StepSet::one(0), variable: 0, member: None, bounds: None };
    assert_eq!(memory.find(&root.unwrap(), &query).0.len(), 2000);
    walk(&memory, &root.unwrap(), &mut |_, _| {}).unwrap();
}

#[test]
fn a_page_that_contradicts_its_parent_is_refused() {
    let mut memory = Memory::default();
    let root = memory.insert(None, grid([10, 10, 10], 1)).0.unwrap();
    let query = box_query(1, [0; 3], [160; 3]);
    let fails = |memory: &Memory, root: &Root| {
        let found = find(memory, root, &query, &mut |_| {});
        assert!(insert(memory, Some(root), &new(grid([10, 10, 10], 1)), &mut Fresh::default()).is_err());
        assert!(walk(memory, root, &mut |_, _| {}).is_err());
        found.unwrap_err()
    };
    assert!(fails(&memory, &Root { height: 17, ..root }).contains("high"));
    assert!(fails(&memory, &Root { entries: 999, ..root }).contains("announced"));
    assert!(fails(&memory, &Root { height: 2, ..root }).contains("height"));
    let branch = memory.branches[&root.page.offset].clone();

    let mut changed = (*branch).clone();
    changed.children[0].page = root.page; // a loop: the page is no leaf
    memory.branches.insert(root.page.offset, Arc::new(changed));
    assert!(fails(&memory, &root).contains("no such leaf"));

    let mut changed = (*branch).clone();
    changed.children[0].entries -= 1;
    changed.children[1].entries += 1;
    memory.branches.insert(root.page.offset, Arc::new(changed));
    assert!(fails(&memory, &root).contains("announced"));

    let mut changed = (*branch).clone();
    changed.children[0].entries = u64::MAX;
    memory.branches.insert(root.page.offset, Arc::new(changed));
    assert!(fails(&memory, &root).contains("announced"));

    let mut changed = (*branch).clone();
    changed.children[1].hi[1] -= 1;
    memory.branches.insert(root.page.offset, Arc::new(changed));
    assert!(walk(&memory, &root, &mut |_, _| {}).unwrap_err().contains("parent"));
}

#[test]
fn a_step_set_meets_an_interval_as_its_list_does() {
    for first in 0..5 {
        for count in 0..4 {
            for stride in 1..4 {
                let set = StepSet { first, count, stride };
                for lo in 0..20 {
                    for hi in 0..20 {
                        let listed = (0..count)
                            .map(|i| first + i * stride)
                            .any(|s| (lo..=hi).contains(&s) && lo <= hi);
                        assert_eq!(set.meets(lo, hi), listed, "{set:?} {lo} {hi}");
                    }
                }
            }
        }
    }
    assert!(StepSet::ALL.contains(0) && StepSet::ALL.contains(u64::MAX - 1));
    assert!(StepSet { first: 5, count: u64::MAX, stride: u64::MAX }.contains(5));
}

#[test]
fn the_steps_of_a_variable_are_those_a_scan_finds() {
    let mut random = Random(21);
    let mut memory = Memory::default();
    let mut root = None;
    let mut model: Vec<Entry> = Vec::new();
    for size in [1, 30, 900, 2500] {
        let mut batch: Vec<Entry> = (0..size).map(|i| random_entry(&mut random, i)).collect();
        // Long stretches of one variable at one step, so that branches can answer.
        for entry in batch.iter_mut().filter(|e| e.step > 20) {
            let mut other = block(&[random.below(90); 3], &[4; 3], entry.commit);
            (other.step, other.variable, other.put) = (entry.step * 7, 3, entry.put);
            *entry = other;
        }
        model.extend(batch.iter().cloned());
        root = memory.insert(root, batch).0;
        for variable in 0..5 {
            for hidden_below in [0, 25, 49, 60] {
                let shows = |step: u64, commit: u64| step.is_multiple_of(2) || commit >= hidden_below;
                let found = key_steps(&memory, &root.unwrap(), variable, &shows).unwrap();
                let expected = model.iter().filter(|e| e.variable == variable && shows(e.step, e.commit));
                assert_eq!(found, expected.map(|e| e.step).collect(), "{variable} {hidden_below}");
            }
        }
    }
}

#[test]
fn the_steps_of_large_ones_are_found_without_reading_their_blocks() {
    let mut memory = Memory::default();
    let (root, _) = memory.insert(None, (1..=4).flat_map(|step| grid([30, 30, 30], step)).collect());
    memory.loaded.set((0, 0));
    let found = key_steps(&memory, &root.unwrap(), 0, &|_, _| true).unwrap();
    assert_eq!(found, (1..=4).collect());
    assert!(memory.loaded.get().0 <= 8, "{:?} of {} leaves", memory.loaded.get(), memory.leaves.len());
}

#[test]
fn steps_that_are_committed_one_by_one_emit_few_entries_and_leave_full_leaves() {
    let (mut memory, mut root, mut emitted) = (Memory::default(), None, 0);
    let commits = 600;
    for step in 1..=commits {
        let entries: Vec<Entry> = (0..10)
            .map(|variable| {
                let mut entry = block(&[0, 0, 0], &[16; 3], step);
                (entry.step, entry.variable, entry.put) = (step, variable, u64::from(variable));
                entry
            })
            .collect();
        let before: Vec<u64> = memory.leaves.keys().copied().collect();
        root = memory.insert(root, entries).0;
        let new = memory.leaves.iter().filter(|(page, _)| !before.contains(page));
        emitted += new.map(|(_, leaf)| leaf.len()).sum::<usize>();
    }
    let root = root.unwrap();
    assert_eq!(root.entries, 10 * commits);
    assert!(emitted < 100 * commits as usize, "{emitted} entries were emitted in {commits} commits of 10");
    let mut leaves = Vec::new();
    walk(&memory, &root, &mut |page, height| {
        leaves.extend((height == 0).then(|| memory.leaves[&page.offset].len()));
    })
    .unwrap();
    let full = leaves.iter().filter(|entries| **entries == LEAF_CAPACITY).count();
    assert!(leaves.len() - full <= 5, "{leaves:?}");
    let query = Query { steps: StepSet::one(577), variable: 3, member: None, bounds: None };
    let (found, ..) = memory.find(&root, &query);
    assert_eq!(found.iter().map(|e| (e.step, e.variable)).collect::<Vec<_>>(), [(577, 3)]);
}

/// Many entries are packed as sorted runs and merged; the resulting tree equals that of a sorted list.
#[test]
fn many_new_entries_come_in_the_order_of_a_sorted_list() {
    let mut random = Random(5);
    let mut entries: Vec<Entry> = (0..30_000).map(|n| random_entry(&mut random, n)).collect();
    let many = new(entries.clone());
    assert_eq!(many.len(), entries.len());
    assert_eq!(*many.key_steps(), entries.iter().map(|e| e.step).collect());
    entries.sort_by(key_cmp);
    let mut in_order = many.in_order();
    assert!(in_order.by_ref().eq(entries.iter().cloned()) && in_order.failed().is_none());
    // Two insertions in the middle of a tree, so that pages are split.
    let mut memory = Memory::default();
    let (some, rest) = entries.split_at(entries.len() / 3);
    let (root, _) = memory.insert(None, [&some[..9000], &rest[5000..]].concat());
    let (root, _) = memory.insert(root, [&some[9000..], &rest[..5000]].concat());
    let root = root.unwrap();
    let mut found = Vec::new();
    super::entries(&memory, &root, &mut |entry| found.push(entry.clone())).unwrap();
    found.sort_by(key_cmp);
    assert_eq!(found, entries);
}
