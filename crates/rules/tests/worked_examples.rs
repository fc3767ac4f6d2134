//! The eight worked examples of the dataset language, with the figures that they must give.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use drystone_rules::*;

const F64: Block = Block::S(SBlock { bytes: 8, dtype: Some(Dtype::little(NumberKind::F64)) });
const F32: Block = Block::S(SBlock { bytes: 4, dtype: Some(Dtype::little(NumberKind::F32)) });
const I64: Block = Block::S(SBlock { bytes: 8, dtype: Some(Dtype::little(NumberKind::I64)) });

fn compile(src: &MemoryLayout, dst: &MemoryLayout) -> Rule {
    Rule::compile(src, dst, Narrowing::Refuse).unwrap()
}

fn copies(rule: &Rule) -> Vec<&StridedCopy> {
    fn copy(term: &Term) -> &StridedCopy {
        match term {
            Term::Copy(copy) => copy,
            other => panic!("{other:?}"),
        }
    }
    rule.terms().iter().map(copy).collect()
}

fn axis(extent: u64, map: IndexMap) -> Axis {
    Axis { extent, map }
}

#[test]
fn example_1_the_papers_overlap_is_500_by_700_and_no_more() {
    let boxed = |start: [i64; 2], counts: [u64; 2]| {
        MemoryLayout::boxed(0, &[80000, 80000], &start, &counts, Order::Row, F64).unwrap()
    };
    let (frag0, frag1) = (boxed([0, 0], [1000, 1000]), boxed([500, 300], [5000, 6000]));
    let rule = compile(&frag1, &frag0);
    let expected = StridedCopy::new(0, 4_002_400, 5600, vec![Dim::new(500, 48_000, 8_000)]).unwrap();
    assert_eq!(copies(&rule), [&expected]);
    assert_eq!(rule.bytes(), 2_800_000);
    assert_eq!(
        rule.to_string(),
        "2800000 bytes of 240000000 -> 8000000\n  500 x 5600 B from 0 (+48000) to 4002400 (+8000)"
    );
    assert!(rule.encode().len() < 64, "a rule for one tile has {} bytes", rule.encode().len());
    let halves = rule.split(Pack::Destination).unwrap();
    assert_eq!(halves.buffer_len, 2_800_000);
}

fn particle() -> Block {
    Block::record(24, [(0, 0, F32), (1, 4, F32), (2, 8, F32), (3, 16, I64)])
}

#[test]
fn example_2_structs_become_arrays_of_one_member_each() {
    const N: u64 = 1000;
    let aos = MemoryLayout::boxed(0, &[N], &[0], &[N], Order::Row, particle()).unwrap();
    let member = |id, offset, block: Block| View {
        var: 0,
        offset,
        path: vec![Step::Index(vec![axis(N, IndexMap::binder(0))]), Step::Member(id)],
        block: block.array([N], Order::Row),
    };
    let soa = MemoryLayout::new(vec![member(0, 0, F32), member(3, 4 * N, I64)], 12 * N).unwrap();
    let rule = compile(&aos, &soa);
    assert_eq!(aos.len(), 24 * N);
    let x = StridedCopy::new(0, 0, 4, vec![Dim::new(N, 24, 4)]).unwrap();
    let id = StridedCopy::new(16, 4 * N, 8, vec![Dim::new(N, 24, 8)]).unwrap();
    assert_eq!(copies(&rule), [&x, &id]);
    // The rule in the other direction writes the two members and leaves y, z and the padding unchanged.
    let back = compile(&soa, &aos);
    assert_eq!(back.bytes(), 12 * N);
}

#[test]
fn a_packed_record_that_is_copied_whole_is_one_run() {
    let packed = || Block::record(20, [(0, 0, F32), (1, 4, F32), (2, 8, F32), (3, 12, I64)]);
    let fragment = MemoryLayout::boxed(0, &[50], &[0], &[50], Order::Row, packed()).unwrap();
    assert_eq!(copies(&compile(&fragment, &fragment)), [&StridedCopy::contiguous(0, 0, 1000).unwrap()]);
    // With padding between the members, the holes remain holes.
    let padded = MemoryLayout::boxed(0, &[50], &[0], &[50], Order::Row, particle()).unwrap();
    let first = StridedCopy::new(0, 0, 12, vec![Dim::new(50, 24, 24)]).unwrap();
    let second = StridedCopy::new(16, 16, 8, vec![Dim::new(50, 24, 24)]).unwrap();
    assert_eq!(copies(&compile(&padded, &padded)), [&first, &second]);
}

/// One rank's block of a 4 x 4 x 4 decomposition with a halo of one cell, which may be periodic.
fn halo_block(rank: [i64; 3], periodic: bool) -> MemoryLayout {
    let (n, extent) = (64, 256);
    let map = |k: usize| {
        let map = IndexMap::affine(k, 1, n * rank[k] - 1);
        axis(extent, if periodic { map.modulo(extent) } else { map })
    };
    let path = vec![Step::Index((0..3).map(map).collect())];
    MemoryLayout::single(0, path, F64.array([66, 66, 66], Order::Row)).unwrap()
}

#[test]
fn example_3_halos_at_the_boundary_are_unmapped_or_wrap_around() {
    let shape = [256, 256, 256];
    let whole = MemoryLayout::boxed(0, &shape, &[0; 3], &shape, Order::Row, F64).unwrap();
    let corner = halo_block([0, 0, 0], false);
    let rule = compile(&whole, &corner);
    assert_eq!(rule.bytes(), 65 * 65 * 65 * 8);
    let found = coverage(&[&whole], &corner).unwrap();
    assert!(found.is_complete());
    assert_eq!(found.wanted, 65 * 65 * 65 * 8);
    assert_eq!(found.unmapped, (66 * 66 * 66 - 65 * 65 * 65) * 8);
    let inner = compile(&whole, &halo_block([1, 2, 1], false));
    assert_eq!(inner.bytes(), 66 * 66 * 66 * 8);
    // At the corner: the halo's two pieces per dimension give at most eight copies.
    let periodic = halo_block([0, 0, 0], true);
    let rule = compile(&whole, &periodic);
    assert_eq!(rule.bytes(), 66 * 66 * 66 * 8);
    assert!(rule.terms().len() <= 8, "{rule}");
    let found = coverage(&[&whole], &periodic).unwrap();
    assert_eq!((found.wanted, found.covered, found.unmapped), (rule.bytes(), rule.bytes(), 0));
}

#[test]
fn example_4_decimation_takes_every_fourth_and_its_inverse_gives_them_back() {
    let whole = MemoryLayout::boxed(0, &[1000, 1000], &[0, 0], &[1000, 1000], Order::Row, F64).unwrap();
    let every_fourth = |k| axis(1000, IndexMap::affine(k, 4, 2));
    let path = vec![Step::Index(vec![every_fourth(0), every_fourth(1)])];
    let coarse = MemoryLayout::single(0, path, F64.array([250, 250], Order::Row)).unwrap();
    let rule = compile(&whole, &coarse);
    let dims = vec![Dim::new(250, 32_000, 2_000), Dim::new(250, 32, 8)];
    assert_eq!(copies(&rule), [&StridedCopy::new(16_016, 0, 8, dims).unwrap()]);
    // var f[i:1000] = c[i/4] maps only i = 0 mod 4.
    let line = MemoryLayout::boxed(1, &[250], &[0], &[250], Order::Row, F64).unwrap();
    let quarter = vec![Step::Index(vec![axis(250, IndexMap::rational(0, 1, 0, 0, 4))])];
    let fine = MemoryLayout::single(1, quarter, F64.array([1000], Order::Row)).unwrap();
    let rule = compile(&line, &fine);
    assert_eq!(copies(&rule), [&StridedCopy::new(0, 0, 8, vec![Dim::new(250, 8, 32)]).unwrap()]);
    assert_eq!(coverage(&[&line], &fine).unwrap().unmapped, 750 * 8);
}

#[test]
fn example_5_transposing_indexes_and_column_order_are_the_same_bytes() {
    let (m, n) = (30, 20);
    let data = MemoryLayout::boxed(0, &[n, m], &[0, 0], &[n, m], Order::Row, F64).unwrap();
    let swapped = vec![Step::Index(vec![axis(n, IndexMap::binder(1)), axis(m, IndexMap::binder(0))])];
    let transposed = MemoryLayout::single(0, swapped, F64.array([m, n], Order::Row)).unwrap();
    let column = MemoryLayout::boxed(0, &[n, m], &[0, 0], &[n, m], Order::Col, F64).unwrap();
    let rule = compile(&data, &transposed);
    assert_eq!(rule, compile(&data, &column));
    let dims = vec![Dim::new(m, 8, 8 * n as i64), Dim::new(n, 8 * m as i64, 8)];
    assert_eq!(copies(&rule), [&StridedCopy::new(0, 0, 8, dims).unwrap()]);
}

#[test]
fn example_6_a_plane_of_two_fields_stays_a_struct() {
    let (nx, ny, nz) = (10, 30, 12);
    let cell = Block::record(32, [(0, 0, F64), (1, 8, F64), (2, 16, F64), (3, 24, F64)]);
    let field = MemoryLayout::boxed(0, &[nx, ny, nz], &[0; 3], &[nx, ny, nz], Order::Row, cell).unwrap();
    let at = [IndexMap::binder(0), IndexMap::constant(17), IndexMap::binder(1)];
    let axes = [nx, ny, nz].iter().zip(at).map(|(&extent, map)| axis(extent, map)).collect();
    let pair = Block::record(16, [(1, 0, F64), (2, 8, F64)]);
    let plane = MemoryLayout::single(0, vec![Step::Index(axes)], pair.array([nx, nz], Order::Row)).unwrap();
    let rule = compile(&field, &plane);
    let (row, slab) = (nz as i64 * 32, (ny * nz) as i64 * 32);
    let dims = vec![Dim::new(nx, slab, nz as i64 * 16), Dim::new(nz, 32, 16)];
    let expected = StridedCopy::new((17 * row) as u64 + 8, 0, 16, dims).unwrap();
    assert_eq!(copies(&rule), [&expected]);
}

#[test]
fn example_7_members_of_member_arrays_have_the_records_stride() {
    let (nx, ny) = (9, 7);
    let vel = || F64.array([3], Order::Row);
    let spec = || F32.array([9], Order::Row);
    let cell = Block::record(64, [(0, 0, vel()), (1, 24, spec())]);
    let cells = MemoryLayout::boxed(0, &[nx, ny], &[0, 0], &[nx, ny], Order::Row, cell).unwrap();
    assert_eq!(cells.len(), nx * ny * 64);
    let index = |k: usize, extent| axis(extent, IndexMap::binder(k));
    let one = |member, extent, at, offset, block: Block| View {
        var: 0,
        offset,
        path: vec![
            Step::Index(vec![index(0, nx), index(1, ny)]),
            Step::Member(member),
            Step::Index(vec![axis(extent, IndexMap::constant(at))]),
        ],
        block: block.array([nx, ny], Order::Row),
    };
    let views = vec![one(0, 3, 2, 0, F64), one(1, 9, 4, nx * ny * 8, F32)];
    let wanted = MemoryLayout::new(views, nx * ny * 12).unwrap();
    let rule = compile(&cells, &wanted);
    let vz = StridedCopy::new(16, 0, 8, vec![Dim::new(nx * ny, 64, 8)]).unwrap();
    let co2 = StridedCopy::new(40, nx * ny * 8, 4, vec![Dim::new(nx * ny, 64, 4)]).unwrap();
    assert_eq!(copies(&rule), [&vz, &co2]);
}

#[test]
fn example_8_stripes_by_row_become_a_replica_by_column() {
    let (m, n) = (4096, 3072);
    let stripe =
        |r: i64| MemoryLayout::boxed(0, &[m, n], &[1024 * r, 0], &[1024, n], Order::Row, F64).unwrap();
    let replica =
        |r: i64| MemoryLayout::boxed(0, &[m, n], &[0, 1024 * r], &[m, 1024], Order::Col, F64).unwrap();
    let rule = compile(&stripe(1), &replica(2));
    let dims = vec![Dim::new(1024, 8, 8 * m as i64), Dim::new(1024, 8 * n as i64, 8)];
    assert_eq!(copies(&rule), [&StridedCopy::new(2048 * 8, 1024 * 8, 8, dims).unwrap()]);
    let all: Vec<MemoryLayout> = (0..4).map(stripe).collect();
    let found = coverage(&all.iter().collect::<Vec<_>>(), &replica(2)).unwrap();
    assert_eq!((found.wanted, found.covered), (m * 1024 * 8, m * 1024 * 8));
    let some = coverage(&[&all[0], &all[2]], &replica(0)).unwrap();
    assert_eq!(some.covered, 2048 * 1024 * 8);
    let rows: Vec<_> =
        some.missing.iter().map(|part| (part.indexes[0].start, part.indexes[0].count)).collect();
    assert_eq!(rows, [(1024, 1024), (3072, 1024)]);
}
