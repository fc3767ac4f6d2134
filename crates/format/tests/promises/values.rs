//! Strategies for the values of the format: valid by construction, with the structure real containers have.

use std::collections::BTreeMap;
use std::sync::Arc;

use drystone_format::branch::{Branch, Child, PageRef};
use drystone_format::derived::{Derived, Edge, Input, Kind};
use drystone_format::dtype::{DType, Member, Record, Scalar};
use drystone_format::entry::{Encoding, Entry, Stats, StoredPiece, key_cmp};
use drystone_format::layout::{Cells, Layout, Order};
use drystone_format::log::{FileHeader, FileKind, GroupHead, Rank};
use drystone_format::manifest::{Manifest, Root, Section};
use drystone_format::meaning::{Meaning, Scale, Unit};
use drystone_format::published::{self, Shard};
use drystone_format::schema::{Attrs, Declaration, Name, Schema, Variable};
use drystone_format::source::{Source, SourceState};
use drystone_format::statistics::{Chunk, Statistics};
use drystone_format::steps::Steps;
use drystone_format::table::{Prefix, Subchunk};
use drystone_format::value::{TypedArray, Value};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

/// Columns as they occur: constant, regular, nearly regular, and irregular.
pub(crate) fn column() -> impl Strategy<Value = Vec<u64>> {
    let wheels = vec((1u64..6, any::<i16>()), 1..5);
    let odometer = (any::<u64>(), wheels).prop_map(|(first, wheels)| {
        wheels.iter().fold(vec![first], |values, &(count, stride)| {
            let turn = |v: &u64| {
                (0..count).map(|i| v.wrapping_add_signed(i64::from(stride) * i as i64)).collect::<Vec<_>>()
            };
            values.iter().flat_map(turn).collect()
        })
    });
    let flawed = (odometer.clone(), any::<prop::sample::Index>(), any::<u64>()).prop_map(|(mut v, at, x)| {
        let at = at.index(v.len());
        v[at] = x;
        v
    });
    prop_oneof![
        (any::<u64>(), 0usize..100).prop_map(|(v, n)| vec![v; n]),
        odometer.clone(),
        odometer.prop_map(|mut v| {
            v.truncate(v.len() * 2 / 3);
            v
        }),
        flawed,
        vec(any::<u64>(), 0..100),
        vec(any::<i8>().prop_map(|v| i64::from(v).cast_unsigned()), 0..100),
        vec((0u64..50).prop_map(|v| v * 4096 + 17), 0..100),
    ]
}

pub(crate) fn leaf_dtype() -> impl Strategy<Value = DType> {
    prop_oneof![
        5 => select(Scalar::all().collect::<Vec<_>>()).prop_map(DType::Scalar),
        1 => (1u32..20).prop_map(DType::Bytes),
        1 => (1u32..20).prop_map(DType::Unicode),
    ]
}

/// Any type of fixed size.
pub(crate) fn sized_dtype() -> impl Strategy<Value = DType> {
    leaf_dtype().prop_recursive(3, 12, 4, |inner| {
        (vec((inner, vec(1u64..3, 0..3), 0u32..3), 1..4), 0u32..5).prop_map(|(parts, tail)| {
            let mut at = 0;
            let mut members = Vec::new();
            for (i, (dtype, shape, gap)) in parts.into_iter().enumerate() {
                let offset = at + gap;
                at = offset + dtype.item_size() * shape.iter().product::<u64>() as u32;
                members.push(Member { name: format!("m{i}"), dtype, shape, offset });
            }
            DType::Record(Record { itemsize: at + tail, members })
        })
    })
}

pub(crate) fn dtype() -> impl Strategy<Value = DType> {
    prop_oneof![9 => sized_dtype(), 1 => Just(DType::String), 1 => select(Scalar::all().collect::<Vec<_>>()).prop_map(DType::Ragged)]
}

fn typed_array() -> impl Strategy<Value = TypedArray> {
    (leaf_dtype(), vec(0u64..4, 0..3)).prop_flat_map(|(dtype, shape)| {
        let len = shape.iter().product::<u64>() as usize * dtype.item_size() as usize;
        vec(any::<u8>(), len).prop_map(move |data| TypedArray {
            dtype: dtype.clone(),
            shape: shape.clone(),
            data,
            meaning: meaning_of(&dtype),
        })
    })
}

/// A meaning that elements of this type can have.
fn meaning_of(dtype: &DType) -> Option<Meaning> {
    match dtype {
        DType::Scalar(Scalar::I64) => Some(Meaning::Instant(Unit { scale: Scale::Microsecond, count: 3 })),
        DType::Scalar(Scalar::U8) => Some(Meaning::Names(vec![("solid".into(), 3), ("fluid".into(), 1)])),
        DType::Record(record) => {
            let of = |m: &Member| Some((m.name.clone(), meaning_of(&m.dtype)?));
            Some(Meaning::Members(record.members.iter().filter_map(of).collect()))
                .filter(|m| *m != Meaning::Members(BTreeMap::new()))
        }
        _ => None,
    }
}

pub(crate) fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(|i| Value::Int(i.into())),
        any::<u64>().prop_map(|i| Value::Int(i.into())),
        any::<u64>()
            .prop_map(f64::from_bits)
            .prop_filter("not comparable", |x| !x.is_nan())
            .prop_map(Value::Float),
        "\\PC{0,12}".prop_map(Value::Text),
        vec(any::<u8>(), 0..12).prop_map(Value::Bytes),
        typed_array().prop_map(Value::Array),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::List),
            btree_map("[a-c]{0,3}", inner, 0..5).prop_map(Value::Map),
        ]
    })
}

fn attrs() -> impl Strategy<Value = Attrs> {
    btree_map("[a-z]{1,6}", value(), 0..3)
}

fn variable() -> impl Strategy<Value = Variable> {
    let axes = vec((0u64..1 << 40, any::<bool>(), 1u64..1000, "[a-z]{1,3}"), 0..4);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    let clips = vec(vec(0u64..100, 4), 0..3);
    (dtype(), axes, flags, "[a-z0-9:,]{0,12}", option::of(any::<u8>()), attrs(), any::<u64>(), clips)
        .prop_map(|(dtype, axes, (steps, local, named, chunked), transform, fill, attrs, created, clips)| {
            Variable {
                id: 0,
                shape: axes.iter().map(|a| a.0).collect(),
                growable: axes.iter().map(|a| a.1).collect(),
                dims: axes.iter().filter(|_| named).map(|a| a.3.clone()).collect(),
                steps,
                local,
                access: if created % 2 == 0 { transform.clone() } else { String::new() },
                transform,
                chunks: chunked.then(|| axes.iter().map(|a| a.2).collect()),
                fill: fill.filter(|_| !dtype.has_blobs()).map(|b| vec![b; dtype.item_size() as usize]),
                attrs,
                meaning: meaning_of(&dtype).filter(|_| created % 3 == 0),
                created,
                uid: created.wrapping_mul(3),
                derived: None,
                clips: (3u64..).step_by(7).zip(clips).map(|(c, s)| (c, s[..axes.len()].to_vec())).collect(),
                dtype,
            }
        })
}

/// A definition from two older variables. Its tree is not decoded here.
fn definition(id: u32, variable: &Variable) -> Box<Derived> {
    let input = |name: &str, variable| Input { name: name.into(), variable };
    let inputs = vec![input("a", id - 1), input("b", variable.created as u32 % id)];
    let (kind, edge) = (Kind::ALL[variable.created as usize % 3], Edge::ALL[variable.uid as usize % 4]);
    let (text, tree) = (variable.transform.clone(), variable.transform.clone().into_bytes());
    Box::new(Derived { kind, edge, text, tree, inputs })
}

pub(crate) fn schema() -> impl Strategy<Value = Schema> {
    let paths = btree_map("[a-z]{1,3}(/[a-z]{1,3}){0,2}", attrs(), 0..3);
    let links = btree_map("l[a-z]{1,3}", "[a-z]{1,3}", 0..3);
    (vec(variable(), 0..4), paths, links, attrs()).prop_map(|(variables, mut groups, links, root)| {
        groups.insert(String::new(), root);
        let mut names: BTreeMap<String, Name> =
            links.into_iter().map(|(path, target)| (path, Name::Link(target))).collect();
        let mut numbered = BTreeMap::new();
        for (id, mut variable) in (0u32..).step_by(3).zip(variables) {
            variable.id = id;
            variable.derived = (id > 0 && !variable.local && id % 2 == 0).then(|| definition(id, &variable));
            names.insert(format!("v/{id}"), Name::Variable(id));
            numbered.insert(id, variable);
        }
        let declarations = [("param n\ndataset { var a[n] int8 }", 3), ("", i64::MIN)];
        let declarations = declarations.into_iter().take(numbered.len());
        let declarations = declarations
            .map(|(text, n)| Declaration { text: text.into(), values: BTreeMap::from([("n".into(), n)]) });
        Schema { next_id: 40, groups, variables: numbered, names, declarations: declarations.collect() }
    })
}

fn piece(subchunks: u64) -> impl Strategy<Value = StoredPiece> {
    let length = if subchunks > 1 { subchunks * 8..1 << 30 } else { 0..1 << 30 };
    (0u64..1 << 40, length, any::<bool>(), select(vec![0u8, 14, 16]), any::<u32>(), 0u64..9).prop_map(
        move |(position, length, trailed, unit_log2, check, histogram)| {
            let mut piece = StoredPiece { position, length, trailer: 0, unit_log2, check };
            if trailed && subchunks <= 1 {
                piece.trailer = piece.units() * 4 + histogram * 4;
            }
            piece
        },
    )
}

fn stats() -> impl Strategy<Value = Stats> {
    (option::of(any::<(u64, u64)>()), 0u64..10).prop_map(|(min_max, nans)| Stats { min_max, nans })
}

/// A layout of elements of 8 bytes.
fn layout(ndim: u8) -> impl Strategy<Value = Layout> {
    let dims = Just((0..ndim).collect::<Vec<u8>>()).prop_shuffle().prop_map(Order::Dims);
    let order = match ndim {
        0 => dims.boxed(),
        _ => prop_oneof![dims, Just(Order::Morton), Just(Order::Hilbert)].boxed(),
    };
    let cells = (order, 0u32..20, 0u32..20);
    let cells = cells.prop_map(|(order, at, more)| Layout::Cells(Cells { room: at + 8 + more, at, order }));
    prop_oneof![Just(Layout::Dense), cells, (3u32..9).prop_map(Layout::Unknown)]
}

pub(crate) fn entry() -> impl Strategy<Value = Entry> {
    let axes = vec((0u64..1000, 0u64..20, 1u64..8), 0..5);
    let chain = select(vec!["", "zstd:3", "shuffle,zstd:1"]);
    let key = (0u64..5, 0u32..4, 0u32..3, 0u64..9, any::<u64>(), 0u64..100);
    (key, axes, chain, 0u32..7).prop_flat_map(
        |((step, variable, member, commit, order, put), axes, chain, source)| {
            let mut entry = Entry { step, variable, member, commit, order, put, source, ..Entry::default() };
            entry.ndim = axes.len() as u8;
            for (d, &(offset, count, cut)) in axes.iter().enumerate() {
                (entry.offset[d], entry.count[d], entry.cut[d]) = (offset, count, cut);
            }
            entry.subchunks = entry.grid_len().unwrap_or(0);
            let layout = (layout(entry.ndim), 0u32..3, option::of(0u32..100));
            let known = |(layout, replica, part): (Layout, u32, Option<u32>)| {
                let part = part.filter(|_| !matches!(layout, Layout::Unknown(_)));
                (layout, replica, part)
            };
            (piece(entry.subchunks), stats(), layout.prop_map(known)).prop_map(
                move |(piece, stats, (layout, replica, part))| Entry {
                    piece,
                    stats,
                    encoding: Arc::new(Encoding { chain: chain.into(), item: 8, layout, replica, part }),
                    ..entry.clone()
                },
            )
        },
    )
}

/// A decomposition of one variable into equal blocks, as simulations write it.
pub(crate) fn regular_entries(ranks: [u64; 3], edge: u64) -> Vec<Entry> {
    let mut entries = Vec::new();
    for i in 0..ranks.iter().product() {
        let place = [i / (ranks[1] * ranks[2]), i / ranks[2] % ranks[1], i % ranks[2]];
        let mut entry = Entry { step: 4, variable: 1, commit: 9, order: i, ndim: 3, ..Entry::default() };
        for (d, place) in place.into_iter().enumerate() {
            (entry.offset[d], entry.count[d], entry.cut[d]) = (place * edge, edge, edge);
        }
        entry.subchunks = 1;
        entry.source = i as u32;
        entry.piece = StoredPiece {
            position: 104,
            length: edge.pow(3) * 8,
            check: i as u32 * 77,
            ..StoredPiece::default()
        };
        entries.push(entry);
    }
    entries
}

pub(crate) fn entries() -> impl Strategy<Value = Vec<Entry>> {
    prop_oneof![
        3 => vec(entry(), 0..12),
        1 => ((1u64..5, 1u64..5, 1u64..5), 1u64..9).prop_map(|((a, b, c), edge)| regular_entries([a, b, c], edge)),
    ]
}

pub(crate) fn page_ref() -> impl Strategy<Value = PageRef> {
    (any::<u64>(), 0u64..1 << 40, 1u32.., any::<u32>()).prop_map(|(file, offset, length, crc)| PageRef {
        file,
        offset,
        length,
        crc,
    })
}

pub(crate) fn branch() -> impl Strategy<Value = Branch> {
    (vec(entry(), 1..30), 1usize..6, vec(page_ref(), 30), 1u8..17).prop_map(
        |(mut entries, per, pages, height)| {
            entries.sort_by(key_cmp);
            let children = entries.chunks(per).zip(pages).map(|(chunk, page)| Child::of_entries(chunk, page));
            Branch { height, children: children.collect() }
        },
    )
}

pub(crate) fn table() -> impl Strategy<Value = Vec<Subchunk>> {
    let regular = (2usize..3000, stats()).prop_map(|(n, stats)| {
        let piece = StoredPiece { position: 64, length: 100, check: 5, ..StoredPiece::default() };
        vec![Subchunk { piece, stats, prefix: None }; n]
    });
    let prefix = (piece(1), 1u8.., any::<f64>(), any::<f64>())
        .prop_map(|(piece, level, absolute, relative)| Prefix::new(&piece, level, absolute, relative));
    let any = vec(
        (piece(1), stats(), option::of(prefix)).prop_map(|(piece, stats, prefix)| {
            let prefix = prefix.filter(|prefix| prefix.length > 0 && piece.length > 0);
            Subchunk { piece, stats, prefix }
        }),
        0..30,
    );
    prop_oneof![any, regular]
}

pub(crate) fn source() -> impl Strategy<Value = Source> {
    let state = select(vec![SourceState::Open, SourceState::Closed, SourceState::Fenced]);
    (any::<(u64, u32)>(), any::<(u64, u64, u64)>(), 0u64..5, state).prop_map(
        |((writer, part), (watermark, idx_length, seg_length), groups, state)| Source {
            kind: 0,
            writer,
            part,
            watermark,
            groups,
            state,
            idx_length,
            seg_length,
        },
    )
}

fn section() -> impl Strategy<Value = Section> {
    prop_oneof![vec(any::<u8>(), 0..40).prop_map(Section::Inline), page_ref().prop_map(Section::Page)]
}

pub(crate) fn shards() -> impl Strategy<Value = Vec<Shard>> {
    let one = any::<(u64, u128, u64, u32)>();
    btree_map(any::<u64>(), one, 0..20).prop_map(|all| {
        all.into_iter()
            .map(|(number, (version, fingerprint, length, index_check))| Shard {
                number,
                version,
                fingerprint,
                length,
                index_check,
            })
            .collect()
    })
}

pub(crate) fn shard_statistics() -> impl Strategy<Value = Statistics> {
    let fills = option::of(0..u64::MAX - 1);
    let chunk =
        (any::<u64>(), fills, stats()).prop_map(|(values, fills, stats)| Chunk { values, fills, stats });
    (any::<(u128, u64)>(), vec(any::<u64>(), 0..10), vec(chunk, 0..20)).prop_map(
        |((fingerprint, version), extents, chunks)| Statistics { fingerprint, version, extents, chunks },
    )
}

pub(crate) fn published() -> impl Strategy<Value = published::Array> {
    let axes = vec((1u64..50, 1u64..9, 0u64..1000), 0..5);
    let pages = btree_map(any::<u64>(), (1u32..4097, page_ref()), 0..4);
    (any::<(u32, u64, u32, u64)>(), "[a-z/]{0,12}", axes, any::<bool>(), pages).prop_map(
        |((variable, uid, member, version), node, axes, zstd, pages)| published::Array {
            node,
            variable,
            uid,
            member,
            version,
            shape: axes.iter().map(|(_, _, n)| *n).collect(),
            chunk: axes.iter().map(|(c, _, _)| *c).collect(),
            shard: axes.iter().map(|(c, many, _)| c * many).collect(),
            zstd,
            tail: member % 65,
            pages: pages
                .into_iter()
                .map(|(first, (count, page))| published::ShardPage { first, count, page })
                .collect(),
        },
    )
}

pub(crate) fn manifest() -> impl Strategy<Value = Manifest> {
    let ids = any::<([u8; 16], [u8; 16])>();
    let numbers = (2u64..1_000_000_000_000, any::<u64>(), any::<bool>(), any::<u64>());
    let ahead = btree_map((0u32..600, any::<u64>()), Just(()), 0..5);
    let root = option::of((page_ref(), 0u8..17, any::<u64>()));
    let sections = (section(), section(), option::of(section()));
    let boot = option::of("\\PC{1,16}");
    (ids, numbers, sections, vec(page_ref(), 2), root, ahead, boot).prop_map(
        |(
            (write_id, uuid),
            (version, time, marked, fence),
            (schema, steps, published),
            source_pages,
            root,
            ahead,
            boot,
        )| {
            Manifest {
                version,
                parent: version - 1,
                write_id,
                uuid,
                time,
                marked,
                last_marked: version / 2,
                fence,
                schema,
                steps,
                source_pages,
                source_count: 600,
                root: root.map(|(page, height, entries)| Root { page, height, entries }),
                ahead: ahead.into_keys().collect(),
                published,
                boot,
            }
        },
    )
}

pub(crate) fn file_header() -> impl Strategy<Value = FileHeader> {
    let kind = select(vec![FileKind::Segment, FileKind::Idx, FileKind::Pages]);
    let rank =
        option::of((any::<u32>(), any::<u32>()).prop_filter("rank below nranks", |(rank, n)| rank < n));
    (kind, any::<[u8; 16]>(), any::<(u64, u32, u64, u64, u64, u64)>(), rank, ["\\PC{0,20}", "\\PC{0,20}"])
        .prop_map(|(kind, uuid, (id, part, run, fence, time, base), rank, [origin, process])| FileHeader {
            kind,
            uuid,
            id,
            part,
            run,
            rank: rank.map(|(rank, nranks)| Rank { rank, nranks }),
            fence,
            time,
            origin,
            process,
            base,
        })
}

pub(crate) fn group() -> impl Strategy<Value = (GroupHead, Vec<Entry>)> {
    (option::of(0..u64::MAX), any::<(bool, bool, u64, u64)>(), entries()).prop_map(
        |(step, (last, replace, group, part), mut entries)| {
            let n = entries.len() as u64;
            let head = GroupHead {
                step,
                last,
                replace,
                group,
                part,
                entries: if last { n } else { 0 },
                variables: if last { vec![(1, 7), (3, n)] } else { vec![] },
                closed: if last { n.saturating_mul(1 << 50) } else { 0 },
            };
            entries.iter_mut().for_each(|e| e.step = head.entry_step());
            (head, entries)
        },
    )
}

pub(crate) fn steps() -> impl Strategy<Value = Steps> {
    (vec((0u64..200, any::<bool>()), 0..40), vec((0u64..50, any::<u64>()), 0..5)).prop_map(
        |(inserts, hidden)| {
            let mut steps = Steps::default();
            inserts.iter().for_each(|&(step, far)| steps.insert(if far { step * 1_000_003 } else { step }));
            hidden.iter().for_each(|&(step, commit)| steps.hide(step, commit));
            steps
        },
    )
}
