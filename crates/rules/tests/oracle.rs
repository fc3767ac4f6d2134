//! Random pairs of fragments are tested against an oracle that visits all elements one by one.
//!
//! A normal run has 100,000 pairs; DRYSTONE_LONG=1 has a million. A failing pair is named by its seed.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::{HashMap, HashSet};

use drystone_rules::*;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn within(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1) as u64) as i64
    }

    fn shuffle<T>(&mut self, list: &mut [T]) {
        for k in (1..list.len()).rev() {
            list.swap(k, self.below(k as u64 + 1) as usize);
        }
    }
}

/// A type of the dataset.
#[derive(Debug, Clone)]
enum Type {
    Primitive(u64),
    Record(Vec<(u32, Type)>),
    Array(Vec<u64>, Box<Type>),
}

fn random_type(random: &mut Random, depth: u32) -> Type {
    match random.below(if depth == 0 { 1 } else { 4 }) {
        0 | 1 => Type::Primitive(*[1, 2, 4, 8, 3, 16].get(random.below(6) as usize).unwrap()),
        2 => {
            let ids = 0..1 + random.below(3) as u32;
            Type::Record(ids.map(|id| (id * 7 + 1, random_type(random, depth - 1))).collect())
        }
        _ => {
            let counts = (0..1 + random.below(2)).map(|_| 1 + random.below(3)).collect();
            Type::Array(counts, Box::new(random_type(random, depth - 1)))
        }
    }
}

fn random_order(random: &mut Random, ndim: usize) -> Order {
    match random.below(7) {
        0 | 1 => Order::Row,
        2 | 3 => Order::Col,
        4 => {
            let mut perm: Vec<usize> = (0..ndim).collect();
            random.shuffle(&mut perm);
            Order::Perm(perm)
        }
        5 => Order::Morton,
        _ => Order::Hilbert,
    }
}

fn random_layout(random: &mut Random, ty: &Type) -> Block {
    match ty {
        Type::Primitive(bytes) => Block::opaque(*bytes),
        Type::Array(counts, element) => {
            let order = random_order(random, counts.len());
            random_layout(random, element).array(counts.clone(), order)
        }
        Type::Record(members) => {
            let mut members = members.clone();
            random.shuffle(&mut members);
            let keep = 1 + random.below(members.len() as u64) as usize;
            let mut at = 0;
            let mut placed = Vec::new();
            for (id, ty) in &members[..keep] {
                at += random.below(3) * random.below(4);
                let block = random_layout(random, ty);
                let bytes = block.bytes().unwrap();
                placed.push((*id, at, block));
                at += bytes;
            }
            Block::record(at + random.below(3), placed)
        }
    }
}

/// An index map of the oracle.
#[derive(Debug, Clone, Copy)]
struct Map {
    binder: Option<usize>,
    numbers: [i64; 4],
    modulus: Option<u64>,
}

impl Map {
    fn new(binder: usize, numbers: [i64; 4]) -> Map {
        Map { binder: Some(binder), numbers, modulus: None }
    }

    fn constant(index: i64) -> Map {
        Map { binder: None, numbers: [0, index, 0, 1], modulus: None }
    }

    fn as_index_map(&self) -> IndexMap {
        let [a, b, c, d] = self.numbers;
        let map = match self.binder {
            None => IndexMap::constant(b),
            Some(binder) => IndexMap::rational(binder, a, b, c, d),
        };
        self.modulus.map_or(map, |period| map.modulo(period))
    }

    fn index(&self, cell: &[i64]) -> Option<i64> {
        let [a, b, c, d] = self.numbers;
        let x = self.binder.map_or(0, |k| cell[k]);
        let (above, below) = (a * x + b, c * x + d);
        if below == 0 || above % below != 0 {
            return None;
        }
        Some(self.modulus.map_or(above / below, |period| (above / below).rem_euclid(period as i64)))
    }
}

fn random_map(random: &mut Random, binder: usize, extent: u64) -> Map {
    let e = extent as i64;
    let numbers = match random.below(10) {
        0..=2 => [1, random.within(-2, e), 0, 1],
        3 => [-1, random.within(0, e + 2), 0, 1],
        4 => [random.within(-3, 3), random.within(-4, e + 4), 0, 1],
        5 => [random.within(-3, 3), random.within(-4, 9), 0, random.within(1, 4)],
        6 => {
            let (c, d) = (random.within(-2, 2), random.within(-5, 5));
            [random.within(-6, 6), random.within(-12, 12), c, if c == 0 && d == 0 { 1 } else { d }]
        }
        7 | 8 => {
            let modulus = Some(1 + random.below(extent + 2));
            let numbers = [random.within(-2, 2), random.within(-5, 2 * e), 0, 1];
            return Map { binder: Some(binder), numbers, modulus };
        }
        _ => [1, 0, 0, 1],
    };
    Map::new(binder, numbers)
}

/// The variables of a small dataset: shape (perhaps none) and element type.
type Dataset = Vec<(Vec<u64>, Type)>;

/// A view, with the index maps of its path in order.
type Viewed = (View, Vec<Map>);

fn random_view(random: &mut Random, dataset: &Dataset, offset: u64) -> Viewed {
    let var = random.below(dataset.len() as u64) as usize;
    let (shape, mut ty) = (&dataset[var].0, dataset[var].1.clone());
    let ndim = random.below(4) as usize;
    let counts: Vec<u64> =
        (0..ndim).map(|_| if random.one_in(40) { 0 } else { 1 + random.below(7) }).collect();
    let mut free: Vec<usize> = (0..ndim).collect();
    random.shuffle(&mut free);
    let mut maps = Vec::new();
    let mut index = |random: &mut Random, shape: &[u64]| {
        let axis = |&extent: &u64| {
            let map = match free.len() {
                0 => Map::constant(random.within(-1, extent as i64)),
                _ if random.one_in(5) => Map::constant(random.within(0, extent as i64 - 1)),
                _ => random_map(random, free.pop().unwrap(), extent),
            };
            maps.push(map);
            Axis { extent, map: map.as_index_map() }
        };
        Step::Index(shape.iter().map(axis).collect())
    };
    let mut path = Vec::new();
    if !shape.is_empty() {
        path.push(index(random, shape));
    }
    loop {
        ty = match ty {
            Type::Record(members) if !random.one_in(3) => {
                let (id, ty) = members[random.below(members.len() as u64) as usize].clone();
                path.push(Step::Member(id));
                ty
            }
            Type::Array(counts, element) if !random.one_in(3) => {
                path.push(index(random, &counts));
                *element
            }
            other => {
                ty = other;
                break;
            }
        }
    }
    let element = random_layout(random, &ty);
    // Without binders the view is its element. An array there must still be treated as the dataset's array.
    let order = random_order(random, ndim);
    (View { var: var as u32, offset, path, block: element.array(counts, order) }, maps)
}

fn random_views(random: &mut Random, dataset: &Dataset) -> (Vec<Viewed>, u64) {
    let mut views = Vec::new();
    let mut at = 0;
    for _ in 0..1 + random.below(3) {
        at += random.below(4);
        let view = random_view(random, dataset, at);
        at += view.0.block.bytes().unwrap();
        views.push(view);
    }
    (views, at + random.below(5))
}

/// The identity of an element (`None` if unmapped), its offset, and its bytes.
type Element = (Option<Vec<i64>>, u64, u64);

/// Offsets of all elements of an array with their indexes, by the definitions of the orders.
fn places(array: &ABlock) -> Vec<(Vec<i64>, u64)> {
    let elem = array.element.bytes().unwrap();
    let ndim = array.counts.len();
    let mut cells: Vec<Vec<i64>> = vec![vec![]];
    for &count in &array.counts {
        let extend = |cell: Vec<i64>| (0..count as i64).map(move |k| [&cell[..], &[k]].concat());
        cells = cells.into_iter().flat_map(extend).collect();
    }
    let slowest_first = |perm: &[usize], cell: &[i64]| perm.iter().map(|&k| cell[k]).collect::<Vec<_>>();
    match &array.order {
        Order::Row => {}
        Order::Col => cells.sort_by_key(|cell| slowest_first(&(0..ndim).rev().collect::<Vec<_>>(), cell)),
        Order::Perm(perm) => cells.sort_by_key(|cell| slowest_first(perm, cell)),
        Order::Morton => cells.sort_by_key(|cell| {
            let bit = |b: i64| cell.iter().map(move |x| x >> b & 1);
            (0..8).rev().flat_map(bit).collect::<Vec<_>>()
        }),
        other => unreachable!("{other:?}"),
    }
    cells.into_iter().enumerate().map(|(rank, cell)| (cell, rank as u64 * elem)).collect()
}

fn inside(block: &Block, identity: Option<Vec<i64>>, offset: u64, elements: &mut Vec<Element>) {
    match block {
        Block::S(piece) => elements.push((identity, offset, piece.bytes)),
        Block::T(record) => {
            for member in &record.members {
                let id = identity.clone().map(|id| [id, vec![-1, member.id as i64]].concat());
                inside(&member.block, id, offset + member.offset, elements);
            }
        }
        Block::A(array) => {
            for (cell, at) in places(array) {
                let id = identity.clone().map(|id| [id, vec![-2], cell].concat());
                inside(&array.element, id, offset + at, elements);
            }
        }
    }
}

fn elements(views: &[Viewed]) -> Vec<Element> {
    let mut elements = Vec::new();
    for (view, maps) in views {
        let Block::A(array) = &view.block else { unreachable!() };
        for (cell, at) in places(array) {
            let mut identity = Some(vec![view.var as i64]);
            let mut maps = maps.iter();
            for step in &view.path {
                match step {
                    Step::Member(id) => identity = identity.map(|i| [i, vec![-1, *id as i64]].concat()),
                    Step::Index(axes) => {
                        let mut take = |axis: &Axis| {
                            let index = maps.next().unwrap().index(&cell)?;
                            (0..axis.extent as i64).contains(&index).then_some(index)
                        };
                        // All maps are evaluated, even after one that leads outside.
                        let indexes: Vec<Option<i64>> = axes.iter().map(&mut take).collect();
                        let indexes: Option<Vec<i64>> = indexes.into_iter().collect();
                        identity = identity.zip(indexes).map(|(i, y)| [i, vec![-2], y].concat());
                    }
                }
            }
            inside(&array.element, identity, view.offset + at, &mut elements);
        }
    }
    elements
}

/// The bytes of an element: a hash of its identity.
fn content(identity: &[i64], bytes: u64) -> Vec<u8> {
    let mut random = Random(identity.iter().fold(7, |h, &k| (h ^ k as u64).wrapping_mul(0x1_0000_01B3)));
    (0..bytes).map(|_| random.next() as u8).collect()
}

/// Checks one pair; returns whether the fragments share any element.
fn check(seed: u64) -> bool {
    let mut random = Random(seed);
    let dataset: Dataset = (0..1 + random.below(2))
        .map(|_| {
            let shape = (0..random.below(4)).map(|_| 1 + random.below(9)).collect();
            (shape, random_type(&mut random, 2))
        })
        .collect();
    let (mut src_views, src_len) = random_views(&mut random, &dataset);
    let (mut dst_views, dst_len) = random_views(&mut random, &dataset);
    // The oracle has no Hilbert curve of its own; other tests cover the curve and its round trip.
    let no_hilbert =
        |views: &mut Vec<Viewed>| views.iter_mut().for_each(|(view, _)| replace_hilbert(&mut view.block));
    no_hilbert(&mut src_views);
    no_hilbert(&mut dst_views);
    let views = |viewed: &[Viewed]| viewed.iter().map(|(view, _)| view.clone()).collect();
    let src = MemoryLayout::new(views(&src_views), src_len).unwrap();
    let dst = MemoryLayout::new(views(&dst_views), dst_len).unwrap();
    let rule = Rule::compile(&src, &dst, Narrowing::Refuse).unwrap();

    let mut src_bytes = vec![0x55; src_len as usize];
    let mut held = HashMap::new();
    for (identity, offset, bytes) in elements(&src_views) {
        let Some(identity) = identity else { continue };
        let at = offset as usize;
        src_bytes[at..at + bytes as usize].copy_from_slice(&content(&identity, bytes));
        held.insert(identity, bytes);
    }
    let mut expected = vec![0xEE; dst_len as usize];
    let (mut wanted, mut covered, mut unmapped) = (0, 0, 0);
    let mut missing = HashSet::new();
    for (identity, offset, bytes) in elements(&dst_views) {
        let Some(identity) = identity else {
            unmapped += bytes;
            continue;
        };
        wanted += bytes;
        if held.contains_key(&identity) {
            covered += bytes;
            let at = offset as usize;
            expected[at..at + bytes as usize].copy_from_slice(&content(&identity, bytes));
        } else {
            missing.insert(offset);
        }
    }
    let mut found = vec![0xEE; dst_len as usize];
    rule.run(&src_bytes, &mut found).unwrap();
    assert!(found == expected, "seed {seed}: {src_views:#?}\n{dst_views:#?}\n{rule}");

    let told = coverage(&[&src], &dst).unwrap();
    assert_eq!((told.wanted, told.covered, told.unmapped), (wanted, covered, unmapped), "seed {seed}");
    assert_eq!(told.is_complete(), missing.is_empty(), "seed {seed}");

    let bytes = rule.encode();
    assert_eq!(Rule::decode(&bytes, src_len, dst_len).as_ref(), Ok(&rule), "seed {seed}");
    for pack in [Pack::Destination, Pack::Source] {
        let halves = rule.split(pack).unwrap();
        let mut buffer = vec![0; halves.buffer_len as usize];
        let mut found = vec![0xEE; dst_len as usize];
        halves.gather.run(&src_bytes, &mut buffer).unwrap();
        halves.scatter.run(&buffer, &mut found).unwrap();
        assert!(found == expected, "seed {seed}, {pack:?}");
        assert!(halves.buffer_len <= rule.bytes(), "seed {seed}: the buffer has spare bytes");
        assert_eq!(halves.gather.bytes(), halves.buffer_len, "seed {seed}: the buffer has holes");
    }
    covered > 0
}

fn replace_hilbert(block: &mut Block) {
    match block {
        Block::S(_) => {}
        Block::T(record) => record.members.iter_mut().for_each(|member| replace_hilbert(&mut member.block)),
        Block::A(array) => {
            if array.order == Order::Hilbert {
                array.order = Order::Morton;
            }
            replace_hilbert(&mut array.element);
        }
    }
}

#[test]
fn random_pairs_of_fragments_agree_with_the_element_loop() {
    let long = std::env::var_os("DRYSTONE_LONG").is_some();
    let cases = if cfg!(miri) {
        20
    } else if long {
        1_000_000
    } else {
        100_000
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let shared: usize = std::thread::scope(|scope| {
        let part = |first| (first..cases).step_by(threads as usize).filter(|&seed| check(seed)).count();
        let parts: Vec<_> = (0..threads).map(|first| scope.spawn(move || part(first))).collect();
        parts.into_iter().map(|part| part.join().unwrap()).sum()
    });
    assert!(shared as u64 > cases / 4, "only {shared} pairs share anything");
}

#[test]
fn an_array_round_trips_through_the_hilbert_curve() {
    let counts = [13, 9];
    let fragment =
        |order| MemoryLayout::boxed(0, &[20, 20], &[3, 4], &counts, order, Block::opaque(4)).unwrap();
    let (row, curve) = (fragment(Order::Row), fragment(Order::Hilbert));
    let there = Rule::compile(&row, &curve, Narrowing::Refuse).unwrap();
    let back = Rule::compile(&curve, &row, Narrowing::Refuse).unwrap();
    let src: Vec<u8> = (0..row.len()).map(|k| (k * 37 % 251) as u8).collect();
    let (mut along, mut again) = (vec![0; src.len()], vec![0; src.len()]);
    there.run(&src, &mut along).unwrap();
    back.run(&along, &mut again).unwrap();
    assert_eq!(src, again);
    assert_ne!(src, along);
    let decoded = Rule::decode(&there.encode(), row.len(), curve.len()).unwrap();
    assert_eq!(decoded, there);
}
