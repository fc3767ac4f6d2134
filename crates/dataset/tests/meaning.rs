//! The meaning of declarations: layouts, parameters, orders, and which fragments may be written. Compared with an
//! independent, naive evaluation where there is one.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use drystone_dataset::{
    Diagnostics, Fill, Fragment, IndexMap, Order, Prim, Program, Role, Source, Type, Writable, check, format,
};

fn program(text: &str) -> Program {
    check(text).unwrap_or_else(|e| panic!("{}", e.render("text", text, false)))
}

fn layout(members: &str) -> (u64, u64, Vec<u64>) {
    let p = program(&format!("type T {members}\n"));
    let ty = p.type_layout("T", &[]).unwrap();
    let offsets = match &ty {
        Type::Struct(s) => s.fields.iter().map(|f| f.offset).collect(),
        _ => Vec::new(),
    };
    (ty.size(), ty.align(), offsets)
}

#[test]
fn structs_are_laid_out_as_c_does() {
    // Figures from a C compiler for the same structs on x86-64.
    assert_eq!(layout("struct { a int8; b float64; c int16 }"), (24, 8, vec![0, 8, 16]));
    assert_eq!(layout("struct { a int8; b complex64; c bool }"), (16, 4, vec![0, 4, 12]));
    assert_eq!(layout("struct { a complex128; b bytes(3); c int16 }"), (24, 8, vec![0, 16, 20]));
    assert_eq!(
        layout("struct { a [3]int16; s struct { x int8; y int32 } ; b int8 }"),
        (20, 4, vec![0, 8, 16])
    );
    assert_eq!(layout("struct packed { a int8; b float64; c int16 }"), (11, 1, vec![0, 1, 9]));
}

#[test]
fn pad_and_align_make_holes() {
    assert_eq!(layout("struct { a int8; pad 2; b int8 }"), (4, 1, vec![0, 3]));
    assert_eq!(layout("struct { a int8 align(16); b int8 align(4) }"), (16, 16, vec![0, 4]));
    assert_eq!(layout("struct { a int8 } align(32)"), (32, 32, vec![0]));
    assert_eq!(layout("struct packed { a int8; b int32 align(4); c int8 }"), (12, 4, vec![0, 4, 8]));
    // An alignment can only be increased.
    assert_eq!(layout("struct { a int8; b float64 align(2) }"), (16, 8, vec![0, 8]));
}

#[test]
fn a_fragment_is_laid_out_like_a_struct_of_its_variables() {
    let p = program(
        "dataset { var a[10] int8; var b[10] float64 }
         fragment f { var x[i:3] = a[i]; var y[i:2] = b[i]; pad 5; var z[i:3] align(32) = a[i+3]; align 64; var w = b[9] }",
    );
    let f = p.instantiate("f", &[]).unwrap();
    let offsets: Vec<u64> = f.vars.iter().map(|v| v.offset).collect();
    assert_eq!(offsets, [0, 8, 32, 64]);
    assert_eq!((f.size, f.align, f.padded_size()), (72, 64, 128));
    assert_eq!(f.vars[3].dims[0].map, IndexMap::constant(9));
}

#[test]
fn a_default_fragment_gets_its_place_from_align() {
    let p =
        program("dataset { var a[10] int8 }\nfragment f(r) default { align 4096; var x[i:5] = a[i + 5*r] }");
    let f = p.instantiate("f", &[("r", 1)]).unwrap();
    assert_eq!((f.size, f.padded_size(), f.vars[0].offset), (5, 4096, 0));
}

#[test]
fn for_makes_one_variable_per_value() {
    let p = program(
        "type C struct { v [3]float64 }
         dataset { var c[10] C }
         fragment f { for k in 0..3 var v[i:10 - k] = c[i + k].v[k] }",
    );
    let f = p.instantiate("f", &[]).unwrap();
    let seen: Vec<(Option<i64>, u64, u64, i64)> =
        f.vars.iter().map(|v| (v.iteration, v.offset, v.extents[0], v.dims[1].map.b)).collect();
    assert_eq!(seen, [(Some(0), 0, 10, 0), (Some(1), 80, 9, 1), (Some(2), 152, 8, 2)]);
    assert_eq!(f.vars[2].dims[0].map.b, 2);
}

#[test]
fn parameters_have_defaults_and_reach_everything() {
    let text = "param n = 4, m
const half = n / 2
type V [n]float32
dataset { var a[m, half] V }
fragment f(r) { var x[i:half, k:n] = a[r, i, k] }
";
    assert!(check(text).is_err(), "a default ends the list of names");
    let p = program(&text.replace("param n = 4, m", "param n = 4\nparam m"));
    assert_eq!(p.params().collect::<Vec<_>>(), [("n", true), ("m", false)]);
    assert_eq!(p.constants(&[]).unwrap(), [("half", 2)]);
    let f = p.instantiate("f", &[("m", 7), ("r", 3)]).unwrap();
    assert_eq!((f.size, f.vars[0].extents.clone()), (32, vec![2, 4]));
    let f = p.instantiate("f", &[("m", 7), ("r", 3), ("n", 10)]).unwrap();
    assert_eq!((f.size, f.vars[0].extents.clone()), (200, vec![5, 10]));
    assert_eq!(p.variable("a", &[("m", 7)]).unwrap().extents, [Some(7), Some(2)]);
}

fn message<T: std::fmt::Debug>(result: Result<T, Diagnostics>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn wrong_values_of_parameters_are_explained() {
    let p = program(
        "param n\ndataset { var a[100] int8 }\nfragment f(rank) { var x[i:n] = a[i/n + 0*rank] }"
            .replace("i/n + 0*rank", "i + n*rank")
            .as_str(),
    );
    let missing = message(p.instantiate("f", &[("n", 4)]));
    assert_eq!(missing, "the parameter `rank` has no value (give it one, or a default: `param rank = …`)");
    let slip = message(p.instantiate("f", &[("n", 4), ("rnak", 1)]));
    assert_eq!(slip, "a value is given for `rnak`, which is no parameter (did you mean `rank`?)");
    let twice = message(p.instantiate("f", &[("n", 4), ("rank", 1), ("n", 5)]));
    assert_eq!(twice, "two values are given for the parameter `n`");
    let negative = message(p.instantiate("f", &[("n", -4), ("rank", 1)]));
    assert_eq!(negative, "the extent of `i` is -4: expected at least 0");
    let unknown = message(p.instantiate("fragmnt", &[]));
    assert_eq!(unknown, "the text declares no fragment `fragmnt`");
    assert_eq!(message(p.instantiate("F", &[])), "the text declares no fragment `F` (did you mean `f`?)");
}

#[test]
fn variables_carry_their_properties() {
    let p = program(
        "dataset run { var T[*, 20, 30] float32 col steps dims(z, y, x) fill -1.5 transform \"zstd:3\" access \"plane:z\"
                       var name bytes(6) fill \"abc\"; var n int64 fill -9223372036854775808; var m [2]bool; var c complex64 fill 2; var u uint64 fill 18446744073709551615 }"
            .replace("var m [2]bool", "var m[2] bool fill true")
            .as_str(),
    );
    let t = p.variable("T", &[]).unwrap();
    assert_eq!(t.extents, [None, Some(20), Some(30)]);
    assert_eq!((t.order.clone(), t.steps, t.dataset.as_deref()), (Order::Col, true, Some("run")));
    assert_eq!(t.dims.as_ref().unwrap().iter().map(|d| &**d).collect::<Vec<_>>(), ["z", "y", "x"]);
    assert_eq!(t.fill, Some(Fill::Float(-1.5)));
    assert_eq!((t.transform.as_deref(), t.access.as_deref()), (Some("zstd:3"), Some("plane:z")));
    assert_eq!(p.variable("name", &[]).unwrap().fill, Some(Fill::Bytes(b"abc\0\0\0".to_vec())));
    assert_eq!(p.variable("n", &[]).unwrap().fill, Some(Fill::Int(i64::MIN.into())));
    assert_eq!(p.variable("u", &[]).unwrap().fill, Some(Fill::Int(u64::MAX.into())));
    assert_eq!(p.variable("c", &[]).unwrap().fill, Some(Fill::Float(2.0)));
    assert!(message(p.whole("T", &[])).contains("`T` grows"));
}

#[test]
fn whole_members_become_indices_of_the_leaves() {
    let p = program(
        "type Q struct { w float32; m [2, 3]int16 col }
         type P struct { id int64; q [4]Q }
         dataset { var p[5] P }
         fragment f { var x[i:5] = p[i].q; var y[i:5, k:4] = p[i].q[k].m }",
    );
    let f = p.instantiate("f", &[]).unwrap();
    let leaves = f.lower().unwrap();
    let columns: Vec<(&str, Prim, usize)> =
        leaves.iter().map(|l| (&*l.column, l.prim, l.dims.len())).collect();
    assert_eq!(columns, [("q.w", Prim::Float32, 2), ("q.m", Prim::Int16, 4), ("q.m", Prim::Int16, 4)]);
    assert_eq!(leaves[1].strides(), Some(vec![64, 16, 2, 4]));
    assert_eq!(leaves[2].strides(), Some(vec![48, 12, 2, 4]));
    assert_eq!(leaves[1].dataset_offset, 8 + 4);
    assert_eq!(leaves[1].dataset_index(&[4, 3, 1, 2]), leaves[2].dataset_index(&[4, 3, 1, 2]));
    let both: Vec<IndexMap> = leaves[1].dims.iter().map(|d| d.map).collect();
    assert_eq!(both, (0..4).map(IndexMap::identity).collect::<Vec<_>>());
}

#[test]
fn curves_have_no_strides() {
    let p = program(
        "dataset { var a[8, 8] float64 }
         fragment h { var x[i:8, j:8] hilbert = a[i, j] }
         fragment m { var x[i:8, j:8] morton = a[i, j] }
         fragment p { var x[i:8, j:4] perm(1, 0) = a[i, j] }",
    );
    for name in ["h", "m"] {
        let f = p.instantiate(name, &[]).unwrap();
        assert_eq!((f.vars[0].strides(), f.lower().unwrap()[0].address(&[0, 0])), (None, None));
    }
    assert_eq!(p.instantiate("p", &[]).unwrap().vars[0].strides(), Some(vec![8, 64]));
}

#[test]
fn quotients_are_exact_and_numbers_are_divided_as_in_c() {
    let p = program(
        "const q = -7 / 2
         const m = -7 % 2
         dataset { var a[100] float64 }
         fragment f { var x[i:9] = a[(6*i + 4)/4]; var y[i:9] = a[60/(i + 1)]; var z[i:9] = a[-(i - 9)] }",
    );
    assert_eq!(p.constants(&[]).unwrap(), [("q", -3), ("m", -1)]);
    let f = p.instantiate("f", &[]).unwrap();
    let maps: Vec<IndexMap> = f.vars.iter().map(|v| v.dims[0].map).collect();
    let of = |a, b, c, d| IndexMap { a, b, c, d, source: Source::Binder(0), modulus: None };
    assert_eq!(maps, [of(3, 2, 0, 2), of(0, 60, 1, 1), of(-1, 9, 0, 1)]);
    let reached: Vec<Option<i64>> = (0..6).map(|x| maps[1].apply(x)).collect();
    assert_eq!(reached, [Some(60), Some(30), Some(20), Some(15), Some(12), Some(10)]);
    assert_eq!((maps[1].apply(6), maps[0].apply(1), maps[0].apply(2)), (None, None, Some(4)));
    assert_eq!(maps.map_display(), ["(3*x0 + 2)/(2)", "(60)/(x0 + 1)", "-1*x0 + 9"]);
}

trait MapDisplay {
    fn map_display(&self) -> Vec<String>;
}

impl MapDisplay for Vec<IndexMap> {
    fn map_display(&self) -> Vec<String> {
        self.iter().map(IndexMap::to_string).collect()
    }
}

fn writable(body: &str) -> Writable {
    let p = program(&format!(
        "type P struct {{ x, y float64 }}\ndataset {{ var a[100] float64; var b[100, 100] P }}\nfragment f {{ {body} }}"
    ));
    p.instantiate("f", &[]).unwrap().writable().unwrap()
}

#[test]
fn a_fragment_may_be_written_if_it_names_every_element_once() {
    assert_eq!(writable("var x[i:100] = a[i]"), Writable::Yes);
    assert_eq!(writable("var x[i:50] = a[2*i]; var y[i:50] = a[2*i + 1]"), Writable::Yes);
    assert_eq!(writable("var x[i:9, j:9] = b[i, j].x; var y[i:9, j:9] = b[i, j].y"), Writable::Yes);
    assert_eq!(writable("for k in 0..100 var x[j:100] = b[j, k]"), Writable::Yes);
    assert_eq!(writable("var x[i:100] = a[i - 3 mod 100]"), Writable::Yes);
    let no = |vars, column: &str| Writable::No { vars, column: column.to_owned() };
    assert_eq!(writable("var x[i:100] = a[i - 3 mod 99]"), no((0, 0), "a"));
    assert_eq!(writable("var x[i:50] = a[2*i]; var y[i:50] = a[3*i]"), no((0, 1), "a"));
    assert_eq!(writable("var x[i:9, j:9] = a[i]"), no((0, 0), "a"));
    assert_eq!(writable("var x[i:9, j:9] = b[i, j]; var y[i:9, j:9] = b[i, j + 8].y"), no((0, 1), "b.y"));
    let unknown = Writable::NotProven { vars: (0, 1), column: "a".to_owned() };
    assert_eq!(writable("var x[i:9] = a[60/(i + 1)]; var y[i:9] = a[i]"), unknown);
}

/// Many small random fragments: the leaves agree, for every element, with a naive evaluation of the text.
#[test]
fn leaves_agree_with_reading_the_index_positions_by_hand() {
    let mut seed = 88_172_645_463_325_252_u64;
    let mut random = move |n: i64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % n as u64) as i64
    };
    for case in 0..2000 {
        let (ex, ey) = (random(6) + 1, random(6) + 1);
        let (a, b, d) = (random(7) - 3, random(15) - 7, random(3) + 1);
        let (e, g, m) = (random(5) - 2, random(9) - 4, random(6) + 1);
        let order = ["row", "col", "perm(1, 0)"][random(3) as usize];
        let a = if a == 0 { 1 } else { a };
        let text = format!(
            "dataset {{ var s[9, 5] int32 }}\nfragment f {{ var x[i:{ex}, j:{ey}] {order} = s[{e}*j + {g} mod {m}, ({a}*i + {b})/{d}] }}"
        );
        let p = program(&text);
        let f: Fragment = p.instantiate("f", &[]).unwrap();
        assert_eq!(f.role, Role::View);
        let leaves = f.lower().unwrap();
        let mut seen = std::collections::HashMap::new();
        let mut twice = false;
        for i in 0..ex {
            for j in 0..ey {
                let row = (e * j + g).rem_euclid(m);
                let exact = (a * i + b) % d == 0;
                let column = (a * i + b) / d;
                let inside = exact && (0..9).contains(&row) && (0..5).contains(&column);
                let expected = inside.then(|| vec![row as u64, column as u64]);
                let index = [i as u64, j as u64];
                let found: Vec<Vec<u64>> = leaves.iter().filter_map(|l| l.dataset_index(&index)).collect();
                assert_eq!(
                    found,
                    expected.clone().into_iter().collect::<Vec<_>>(),
                    "case {case} at {index:?}: {text}"
                );
                let rank = if order == "row" { i * ey + j } else { j * ex + i };
                assert!(leaves.iter().all(|l| l.address(&index) == Some(4 * rank as u64)));
                if let Some(element) = expected {
                    twice |= seen.insert(element, index).is_some();
                }
            }
        }
        let said = f.writable().unwrap();
        // With a constant row, elements repeat only if some row is inside at all.
        assert_eq!(matches!(said, Writable::No { .. }), twice, "case {case}: {said:?}: {text}");
        assert_eq!(program(&format(&text).unwrap()).instantiate("f", &[]).unwrap(), f, "formatted");
    }
}

#[test]
fn a_fragment_with_too_many_pieces_is_refused_with_a_reason() {
    let p =
        program("dataset { var a[10, 10] int8 }\nfragment f { var x[i:300, j:300] = a[i mod 1, j mod 1] }");
    let error = p.instantiate("f", &[]).unwrap().lower().unwrap_err();
    assert!(error.to_string().contains("more than 16384 pieces"), "{error}");
}

#[test]
fn the_published_text_of_the_language_is_accepted() {
    let text = "dataset {\n var data[80000, 80000] float64\n}\nfragment frag0 {\n var ds[i:1000, j:1000] = data[i, j]\n}\nfragment frag1 {\n var a [i:5000, j:6000] =\n data[i+500, j+300]\n}\n";
    assert_eq!(program(text).fragments().map(|f| f.name).collect::<Vec<_>>(), ["frag0", "frag1"]);
}

#[test]
fn fragments_can_be_read_by_a_person() {
    let p = program(
        "type C struct { t float32; v [3]float64 col; p float64 }
         dataset { var c[9, 9] C }
         fragment f(r) replica(2) { for k in 1..3 var v[i:4] = c[2*i + r, 0].v[k]; align 64; var s[j:9] = c[j mod 9, 1].{p, t} }",
    );
    let shown = p.instantiate("f", &[("r", 1)]).unwrap().to_string();
    let expected = "f(r=1) replica(2): 208 bytes, aligned to 64
  v#1 at 0: [4]float64 row = c.v [2*x0 + 1, 0, 1]
  v#2 at 32: [4]float64 row = c.v [2*x0 + 1, 0, 2]
  s at 64: [9]struct { p float64; t float32 } row = c.p, c.t [x0 mod 9, 1]";
    assert_eq!(shown, expected);
    let layout = p.type_layout("C", &[]).unwrap().to_string();
    assert_eq!(layout, "struct { t float32; v [3]float64 col; p float64 }");
}

#[test]
fn structs_are_the_same_type_wherever_they_stand() {
    let text = "type P struct { x float64; id int64 }\n";
    let moved = format!("// moved\n{text}");
    assert_eq!(program(text).type_layout("P", &[]).unwrap(), program(&moved).type_layout("P", &[]).unwrap());
    let other = text.replace("float64", "float32");
    assert_ne!(program(text).type_layout("P", &[]).unwrap(), program(&other).type_layout("P", &[]).unwrap());
}
