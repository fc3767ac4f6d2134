//! The worked examples of the language: each parses, is valid, and is lowered to figures that were worked out by hand.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use drystone_dataset::{Fragment, IndexMap, Leaf, Order, Program, Role, Source, Type, check};

fn program(text: &str) -> Program {
    check(text).unwrap_or_else(|e| panic!("{}", e.render("example", text, false)))
}

fn fragment(program: &Program, name: &str, values: &[(&str, i64)]) -> Fragment {
    program.instantiate(name, values).unwrap_or_else(|e| panic!("{e}"))
}

fn leaves(fragment: &Fragment) -> Vec<Leaf> {
    fragment.lower().unwrap()
}

fn affine(a: i64, b: i64, binder: usize) -> IndexMap {
    IndexMap { a, b, c: 0, d: 1, source: Source::Binder(binder), modulus: None }
}

#[test]
fn example_1_two_boxes_of_one_array_overlap_in_500_by_700_elements() {
    let p = program(
        "dataset { var data[80000, 80000] float64 }
         fragment frag0 { var ds[i:1000, j:1000] = data[i, j] }
         fragment frag1 { var a[i:5000, j:6000] = data[i+500, j+300] }",
    );
    let (frag0, frag1) = (fragment(&p, "frag0", &[]), fragment(&p, "frag1", &[]));
    let (ds, a) = (&frag0.vars[0], &frag1.vars[0]);
    assert_eq!(a.strides(), Some(vec![48_000, 8]));
    assert_eq!(ds.strides(), Some(vec![8_000, 8]));
    assert_eq!((frag0.size, frag1.size), (8_000_000, 240_000_000));
    assert_eq!([a.dims[0].map, a.dims[1].map], [affine(1, 500, 0), affine(1, 300, 1)]);
    // The overlap in frag0 is [500, 1000) x [300, 1000): it begins at byte 4 002 400.
    let (source, target) = (&leaves(&frag1)[0], &leaves(&frag0)[0]);
    assert_eq!(source.dataset_index(&[0, 0]), Some(vec![500, 300]));
    assert_eq!(source.dataset_index(&[499, 699]), Some(vec![999, 999]));
    assert_eq!(target.address(&[500, 300]), Some(4_002_400));
    assert_eq!(500 * 700 * 8, 2_800_000);
}

#[test]
fn example_2_an_array_of_structs_becomes_a_struct_of_arrays() {
    let p = program(
        "const N = 1000
         type P struct { x,y,z float32; id int64 }
         dataset { var p[N] P }
         fragment soa { var x[i:N] = p[i].x; var id[i:N] = p[i].id }",
    );
    let Type::Struct(record) = p.type_layout("P", &[]).unwrap() else { panic!("P is a struct") };
    assert_eq!((record.size, record.align), (24, 8));
    let offsets: Vec<u64> = record.fields.iter().map(|f| f.offset).collect();
    assert_eq!(offsets, [0, 4, 8, 16]);
    let whole = leaves(&p.whole("p", &[]).unwrap());
    let soa = fragment(&p, "soa", &[]);
    let columns = leaves(&soa);
    assert_eq!((&*whole[0].column, whole[0].strides()), ("x", Some(vec![24])));
    assert_eq!((&*columns[0].column, columns[0].strides()), ("x", Some(vec![4])));
    assert_eq!((&*columns[1].column, columns[1].strides()), ("id", Some(vec![8])));
    assert_eq!((columns[1].offset, columns[1].dataset_offset), (4000, 16));
    assert_eq!(soa.size, 12_000);
}

const HALO: &str = "param r, px, py, pz
const n = 64
dataset { var u[px*n, py*n, pz*n] float64 }
fragment blk(r) {
    var u[i:n+2, j:n+2, k:n+2] = u[i + n*(r/(py*pz)) - 1, j + n*(r/pz%py) - 1, k + n*(r%pz) - 1]
}
fragment ring(r) {
    var u[i:n+2, j:n+2, k:n+2] = u[i + n*(r/(py*pz)) - 1 mod px*n, j + n*(r/pz%py) - 1 mod py*n, k + n*(r%pz) - 1 mod pz*n]
}";

#[test]
fn example_3_a_halo_is_unmapped_at_the_boundary() {
    let p = program(HALO);
    let grid = [("px", 2), ("py", 3), ("pz", 4)];
    let mut values = grid.to_vec();
    values.push(("r", 17)); // (1, 1, 1) in the grid
    let block = fragment(&p, "blk", &values);
    let maps: Vec<IndexMap> = block.vars[0].dims.iter().map(|d| d.map).collect();
    assert_eq!(maps, [affine(1, 63, 0), affine(1, 63, 1), affine(1, 63, 2)]);
    let leaf = &leaves(&block)[0];
    assert_eq!(leaf.strides(), Some(vec![66 * 66 * 8, 66 * 8, 8]));
    assert_eq!(leaf.dataset_index(&[0, 0, 0]), Some(vec![63, 63, 63]));
    // Rank 17 is at the upper end of the first dimension: its last plane has no counterpart.
    assert_eq!(leaf.dataset_index(&[65, 0, 0]), None);
    values.pop();
    values.push(("r", 0));
    let first = &leaves(&fragment(&p, "blk", &values))[0];
    assert_eq!(first.dataset_index(&[0, 1, 1]), None);
    assert_eq!(first.dataset_index(&[1, 1, 1]), Some(vec![0, 0, 0]));
}

#[test]
fn example_3_a_periodic_halo_wraps_and_is_cut_into_ordinary_boxes() {
    let p = program(HALO);
    let values = [("px", 2), ("py", 3), ("pz", 4), ("r", 0)];
    let block = fragment(&p, "ring", &values);
    assert_eq!(block.vars[0].dims[0].map.modulus, Some(128));
    let boxes = leaves(&block);
    // In each dimension, one plane from the far side and 65 planes of its own: 2 x 2 x 2 boxes.
    assert_eq!(boxes.len(), 8);
    assert!(boxes.iter().all(|b| b.dims.iter().all(|d| d.map.modulus.is_none())));
    let at =
        |index: &[u64]| -> Vec<Vec<u64>> { boxes.iter().filter_map(|b| b.dataset_index(index)).collect() };
    assert_eq!(at(&[0, 0, 0]), [[127, 191, 255]]);
    assert_eq!(at(&[1, 0, 65]), [[0, 191, 64]]);
    let cells: u64 = boxes.iter().map(|b| b.runs.iter().map(|r| r.count).product::<u64>()).sum();
    assert_eq!(cells, 66 * 66 * 66);
}

#[test]
fn example_4_decimation_and_its_inverse() {
    let p = program(
        "dataset { var data[1000, 1000] float64; var c[250] float64 }
         fragment coarse { var c[i:250, j:250] = data[4*i+2, 4*j+2] }
         fragment fine { var f[i:1000] = c[i/4] }",
    );
    let coarse = &leaves(&fragment(&p, "coarse", &[]))[0];
    assert_eq!(coarse.dims[0].map, affine(4, 2, 0));
    assert_eq!(coarse.dataset_index(&[249, 0]), Some(vec![998, 2]));
    let fine = &leaves(&fragment(&p, "fine", &[]))[0];
    assert_eq!(fine.dims[0].map, IndexMap { d: 4, ..affine(1, 0, 0) });
    let mapped: Vec<u64> = (0..1000).filter(|&i| fine.dataset_index(&[i]).is_some()).collect();
    assert_eq!(mapped, (0..250).map(|i| 4 * i).collect::<Vec<_>>());
}

#[test]
fn example_5_transposition_by_index_and_by_order_is_the_same_memory() {
    let p = program(
        "const N = 30; const M = 20
         dataset { var data[N, M] float64 }
         fragment swapped { var t[i:M, j:N] = data[j, i] }
         fragment ordered { var t[i:N, j:M] col = data[i, j] }",
    );
    let swapped = &leaves(&fragment(&p, "swapped", &[]))[0];
    let ordered = &leaves(&fragment(&p, "ordered", &[]))[0];
    assert_eq!(swapped.strides(), Some(vec![8 * 30, 8]));
    assert_eq!(ordered.strides(), Some(vec![8, 8 * 30]));
    for i in 0..30 {
        for j in 0..20 {
            assert_eq!(swapped.address(&[j, i]), ordered.address(&[i, j]));
            assert_eq!(swapped.dataset_index(&[j, i]), ordered.dataset_index(&[i, j]));
        }
    }
}

#[test]
fn example_6_a_plane_keeps_two_fields_as_a_struct() {
    let p = program(
        "const NX = 40; const NY = 30; const NZ = 20
         type Cell struct { temp float32; rho float64; pres float64 }
         dataset { var T[NX, NY, NZ] Cell }
         fragment cut { var plane[i:NX, k:NZ] = T[i, 17, k].{temp, pres} }",
    );
    let cut = fragment(&p, "cut", &[]);
    let plane = &cut.vars[0];
    assert_eq!((plane.element.size(), plane.element.align()), (16, 8));
    let fields: Vec<(&str, u64, u64)> =
        plane.fields.iter().map(|f| (&*f.path, f.dataset_offset, f.offset)).collect();
    assert_eq!(fields, [("temp", 0, 0), ("pres", 16, 8)]);
    assert_eq!(plane.dims[1].map, IndexMap::constant(17));
    assert_eq!([plane.dims[0].map, plane.dims[2].map], [affine(1, 0, 0), affine(1, 0, 1)]);
    let strides: Vec<Option<u64>> = plane.dims.iter().map(|d| d.stride).collect();
    assert_eq!(strides, [Some(24 * 600), Some(24 * 20), Some(24)]);
    assert_eq!(leaves(&cut)[1].dataset_index(&[3, 4]), Some(vec![3, 17, 4]));
    assert_eq!(leaves(&cut)[1].address(&[3, 4]), Some(16 * (3 * 20 + 4) + 8));
}

#[test]
fn example_7_members_of_member_arrays_are_64_bytes_apart() {
    let p = program(
        "const NX = 8; const NY = 6
         type Cell struct { vel [3]float64; spec [9]float32 }
         dataset { var cell[NX, NY] Cell }
         fragment members { var vz[i:NX,j:NY] = cell[i,j].vel[2]; var co2[i:NX,j:NY] = cell[i,j].spec[4] }",
    );
    let layout = p.type_layout("Cell", &[]).unwrap();
    assert_eq!(layout.size(), 64);
    let Type::Struct(cell) = layout else { panic!("Cell is a struct") };
    assert_eq!(cell.field("spec").unwrap().offset, 24);
    let members = fragment(&p, "members", &[]);
    let (vz, co2) = (&members.vars[0], &members.vars[1]);
    assert_eq!((vz.fields[0].dataset_offset, co2.fields[0].dataset_offset), (0, 24));
    // The byte in a cell: the member's offset and the constant index times the stride of the member array.
    let byte = |v: &drystone_dataset::FragmentVar| {
        v.fields[0].dataset_offset + v.dims[2].map.b as u64 * v.dims[2].stride.unwrap()
    };
    assert_eq!((byte(vz), byte(co2)), (16, 40));
    assert_eq!((vz.dims[1].stride, vz.dims[0].stride), (Some(64), Some(64 * 6)));
    assert_eq!((vz.offset, co2.offset, members.size), (0, 384, 384 + 192));
    assert_eq!(leaves(&members)[0].dataset_index(&[5, 4]), Some(vec![5, 4, 2]));
}

#[test]
fn example_8_stripes_are_aligned_and_have_a_replica() {
    let p = program(
        "const M = 4096; const N = 3000
         dataset { var data[M, N] float64 }
         fragment s(r) default { align 4096; var d[i:1024, j:N] = data[i+1024*r, j] }
         fragment a(r) replica(1) { var d[i:M, j:1024] col = data[i, j+1024*r] }",
    );
    let s = fragment(&p, "s", &[("r", 3)]);
    assert_eq!((s.role, s.align, s.size), (Role::Default, 4096, 1024 * 3000 * 8));
    assert_eq!(s.padded_size(), 1024 * 3000 * 8);
    assert_eq!(s.params, [("r".into(), 3)]);
    assert_eq!(s.vars[0].dims[0].map, affine(1, 3072, 0));
    let a = fragment(&p, "a", &[("r", 2)]);
    assert_eq!((a.role, &a.vars[0].order), (Role::Replica(1), &Order::Col));
    assert_eq!(a.vars[0].strides(), Some(vec![8, 8 * 4096]));
    // The last replica is narrower than its box: columns 3000..3072 have no counterpart.
    assert_eq!(leaves(&a)[0].dataset_index(&[0, 951]), Some(vec![0, 2999]));
    assert_eq!(leaves(&a)[0].dataset_index(&[0, 952]), None);
}
