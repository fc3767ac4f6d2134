//! The values in the bytes of a vector, as JSON, by name of the structure.

use drystone_format::Corrupt;
use drystone_format::block::decode_block;
use drystone_format::branch::{Branch, PageRef};
use drystone_format::cache_unit::{UnitHead, head_len};
use drystone_format::column;
use drystone_format::cursor::Reader;
use drystone_format::derived::{Derived, Input};
use drystone_format::dtype::DType;
use drystone_format::entry::{Entry, Stats, StoredPiece};
use drystone_format::frame::{Next, next};
use drystone_format::identity::{Identity, decode_hint, decode_mark};
use drystone_format::layout::{Layout, Order};
use drystone_format::log::{FileHeader, decode_group};
use drystone_format::manifest::{Manifest, Section};
use drystone_format::meaning::{Meaning, Unit};
use drystone_format::piece::{BlobRef, Trailer};
use drystone_format::published;
use drystone_format::redundancy::{Group, ObjectHead};
use drystone_format::schema::{Attrs, Name, Schema, Variable};
use drystone_format::source::{Source, decode_page};
use drystone_format::staged::{Registration, StagedPart};
use drystone_format::statistics::Statistics;
use drystone_format::steps::Steps;
use drystone_format::table::{self, Prefix};
use drystone_format::value::Value;

use super::json::Json;

/// Decodes the bytes and describes the values.
pub(crate) fn describe(structure: &str, bytes: &[u8]) -> Result<Json, Corrupt> {
    let mut r = Reader::new(bytes);
    Ok(match structure {
        "column" => {
            let n = r.u32()? as usize;
            let values = column::decode(&mut r, n)?;
            r.end()?;
            numbers(&values)
        }
        "frames" => frames(bytes)?,
        "identity" => identity(&Identity::decode(bytes)?),
        "parity_group" => parity_group(&Group::decode(bytes)?),
        "parity_object" => parity_object(bytes)?,
        "cache_unit" => cache_unit(bytes)?,
        "staged" => staged(&Registration::decode(bytes)?),
        "hint" => decode_hint(bytes).ok_or_else(|| Corrupt::new("no hint", 0))?.into(),
        "mark" => decode_mark(bytes)?.into(),
        "file_header" => file_header(&FileHeader::decode(bytes)?),
        "group" => {
            let (head, entries) = decode_group(bytes)?;
            Json::object([
                ("step", head.step.map_or(Json::Null, Json::from)),
                ("final", Json::Bool(head.last)),
                ("replace", Json::Bool(head.replace)),
                ("group", head.group.into()),
                ("frame", head.part.into()),
                ("total", head.entries.into()),
                ("entries", Json::list(&entries, entry)),
            ])
        }
        "entry_block" => Json::list(&decode_block(bytes)?, entry),
        "branch" => branch(&Branch::decode(bytes)?),
        "subchunk_table" => {
            let n = r.u32()?;
            let table = table::decode(bytes, n.into())?;
            let prefixes = table.iter().any(|s| s.prefix.is_some());
            Json::list(&table, |s| {
                let mut all = stored(&s.piece, &s.stats);
                all.extend(prefixes.then(|| prefix(s.prefix.unwrap_or_default())).into_iter().flatten());
                Json::Object(all)
            })
        }
        "source_page" => Json::list(&decode_page(bytes)?, source),
        "steps" => steps(&Steps::decode(bytes)?),
        "dtype" => dtype(&DType::decode(bytes)?),
        "value" => value(&Value::decode(bytes)?),
        "schema" => schema(&Schema::decode(bytes)?),
        "manifest" => manifest(&Manifest::decode(bytes)?),
        "published" => Json::list(&published::decode(bytes)?, published_array),
        "shard_page" => Json::list(&published::decode_page(bytes)?, shard),
        "shard_statistics" => shard_statistics(&Statistics::decode(bytes)?),
        "blob_reference" => {
            let blob = BlobRef::decode(bytes)?;
            let (position, length, crc) = (blob.position.into(), blob.length.into(), blob.crc.into());
            Json::object([("position", position), ("length", length), ("crc", crc)])
        }
        "stored_piece" => stored_piece(&mut r)?,
        other => return Err(Corrupt::new(format!("no structure is called {other}"), 0)),
    })
}

fn numbers(values: &[u64]) -> Json {
    Json::list(values, |&v| v.into())
}

fn frames(bytes: &[u8]) -> Result<Json, Corrupt> {
    let (mut at, mut out) = (0, Vec::new());
    loop {
        match next(bytes, at, out.len() as u64) {
            Next::Frame { header, payload, end } => {
                out.push(Json::object([
                    ("kind", (header.kind as u64).into()),
                    ("ordinal", header.ordinal.into()),
                    ("payload", Json::hex(payload)),
                ]));
                at = end;
            }
            Next::End => return Ok(Json::List(out)),
            Next::Torn(e) => return Err(e),
        }
    }
}

fn cache_unit(bytes: &[u8]) -> Result<Json, Corrupt> {
    let number = |at: usize, len: usize| {
        let bytes = bytes.get(at..at + len).unwrap_or_default();
        bytes.iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte))
    };
    let (head, payload) = bytes
        .split_at_checked(head_len(number(40, 4) as usize, number(32, 8)))
        .ok_or_else(|| Corrupt::new("a short unit", 0))?;
    let head = UnitHead::decode(head)?;
    Ok(Json::object([
        ("uuid", Json::hex(&head.uuid)),
        ("key", Json::Text(head.key.clone())),
        ("offset", head.offset.into()),
        ("length", head.length.into()),
        ("checks", Json::list(&head.checks, |check| u64::from(*check).into())),
        ("payload_crc", u64::from(drystone_format::crc32c(payload)).into()),
    ]))
}

fn staged(registration: &Registration) -> Json {
    let text = |text: &String| Json::Text(text.clone());
    Json::object([
        ("uuid", Json::hex(&registration.uuid)),
        ("writer", registration.writer.into()),
        ("node", text(&registration.node)),
        ("group", text(&registration.group)),
        ("boot", text(&registration.boot)),
        ("folders", Json::list(&registration.folders, text)),
        ("parts", Json::list(&registration.parts, staged_part)),
    ])
}

fn staged_part(part: &StagedPart) -> Json {
    Json::object([
        ("part", u64::from(part.part).into()),
        ("length", part.length.into()),
        ("crc", u64::from(part.crc).into()),
        ("step", part.step.map_or(Json::Null, Json::from)),
    ])
}

fn parity_group(group: &Group) -> Json {
    let chunks: Vec<u64> = (0..group.members.len()).map(|stripe| group.chunk(stripe)).collect();
    Json::object([
        ("uuid", Json::hex(&group.uuid)),
        ("step", group.step.into()),
        ("copies", Json::Bool(group.copies)),
        ("parity", (group.parity as u64).into()),
        (
            "members",
            Json::list(&group.members, |member| {
                Json::object([
                    ("writer", member.writer.into()),
                    ("node", Json::Text(member.node.clone())),
                    ("folder", Json::Text(member.folder.clone())),
                    ("parts", Json::list(&member.parts, staged_part)),
                ])
            }),
        ),
        ("chunks", numbers(&chunks)),
    ])
}

fn parity_object(bytes: &[u8]) -> Result<Json, Corrupt> {
    let head = ObjectHead::decode(bytes)?;
    let range = head.payload_range();
    let part = |from: u64, to: u64| bytes.get(from as usize..to as usize).unwrap_or_default();
    let group = Group::decode(part(range.start - head.group, range.start))?;
    let payload = part(range.start, range.end);
    let crc = bytes.get(range.end as usize..).and_then(|tail| tail.try_into().ok()).map(u32::from_le_bytes);
    if crc != Some(drystone_format::crc32c(payload)) {
        return Err(Corrupt::new("the payload fails its CRC", range.end as usize));
    }
    Ok(Json::object([
        ("member", u64::from(head.member).into()),
        ("group", parity_group(&group)),
        ("payload", Json::hex(payload)),
    ]))
}

fn identity(identity: &Identity) -> Json {
    Json::object([
        ("version", identity.version.into()),
        ("uuid", Json::hex(&identity.uuid)),
        ("durability", Json::Text(identity.durability.name().into())),
        ("features", Json::list(&identity.features, |f| Json::Text(f.clone()))),
        ("created", Json::Text(identity.created.clone())),
    ])
}

fn file_header(header: &FileHeader) -> Json {
    let mut members = vec![
        ("kind", (header.kind as u64 + 1).into()),
        ("uuid", Json::hex(&header.uuid)),
        ("id", header.id.into()),
        ("part", header.part.into()),
        ("run", header.run.into()),
        ("rank", header.rank.map_or(Json::Null, |r| r.rank.into())),
        ("nranks", header.rank.map_or(Json::Null, |r| r.nranks.into())),
        ("fence", header.fence.into()),
        ("time", header.time.into()),
        ("origin", Json::Text(header.origin.clone())),
    ];
    members.extend((header.base > 0).then(|| ("base", header.base.into())));
    Json::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn stored(piece: &StoredPiece, stats: &Stats) -> Vec<(String, Json)> {
    let members = [
        ("position", piece.position.into()),
        ("length", piece.length.into()),
        ("trailer", piece.trailer.into()),
        ("unit_log2", piece.unit_log2.into()),
        ("check", piece.check.into()),
        ("min", stats.min_max.map_or(Json::Null, |m| m.0.into())),
        ("max", stats.min_max.map_or(Json::Null, |m| m.1.into())),
        ("nans", stats.nans.into()),
    ];
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The columns of a prefix, with errors as the table stores them.
fn prefix(prefix: Prefix) -> Vec<(String, Json)> {
    let members = [
        ("front_length", prefix.length.into()),
        ("front_position", prefix.position.into()),
        ("front_check", prefix.check.into()),
        ("front_level", u64::from(prefix.level).into()),
        ("front_absolute", (prefix.absolute().to_bits() >> 40).into()),
        ("front_relative", (prefix.relative().to_bits() >> 40).into()),
    ];
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// 0 for the dense layout, else room, offset and order of cells.
fn layout(layout: &Layout) -> Json {
    match layout {
        Layout::Dense | Layout::Stacked { .. } => 0u64.into(),
        Layout::Unknown(number) => (*number).into(),
        Layout::Cells(cells) => {
            let order = match &cells.order {
                Order::Dims(dims) => numbers(&dims.iter().map(|d| u64::from(*d)).collect::<Vec<_>>()),
                Order::Morton => Json::Text("morton".into()),
                Order::Hilbert => Json::Text("hilbert".into()),
            };
            Json::object([("room", cells.room.into()), ("at", cells.at.into()), ("order", order)])
        }
    }
}

fn entry(e: &Entry) -> Json {
    let ndim = usize::from(e.ndim);
    let mut encoding = vec![
        ("chain".to_owned(), Json::Text(e.encoding.chain.clone())),
        ("item".to_owned(), e.encoding.item.into()),
        ("layout".to_owned(), layout(&e.encoding.layout)),
    ];
    if e.encoding.replica > 0 {
        encoding.push(("replica".to_owned(), e.encoding.replica.into()));
    }
    if let Some(part) = e.encoding.part {
        encoding.push(("part".to_owned(), part.into()));
    }
    let encoding = Json::Object(encoding);
    let members = [
        ("step", e.step.into()),
        ("variable", e.variable.into()),
        ("member", e.member.into()),
        ("commit", e.commit.into()),
        ("order", e.order.into()),
        ("put", e.put.into()),
        ("offset", numbers(&e.offset[..ndim])),
        ("count", numbers(&e.count[..ndim])),
        ("cut", numbers(&e.cut[..ndim])),
        ("encoding", encoding),
        ("subchunks", e.subchunks.into()),
        ("source", e.source.into()),
    ];
    let members = members.into_iter().map(|(name, value)| (name.to_owned(), value));
    Json::Object(members.chain(stored(&e.piece, &e.stats)).collect())
}

fn page(page: &PageRef) -> Json {
    numbers(&[page.file, page.offset, page.length.into(), page.crc.into()])
}

fn branch(branch: &Branch) -> Json {
    let key = |(step, variable, member): (u64, u32, u32)| numbers(&[step, variable.into(), member.into()]);
    let children = Json::list(&branch.children, |c| {
        Json::object([
            ("first", key(c.first)),
            ("first_offset", numbers(&c.first_offset)),
            ("last", key(c.last)),
            ("lo", numbers(&c.lo)),
            ("hi", numbers(&c.hi)),
            ("entries", c.entries.into()),
            ("commit", c.commit.into()),
            ("page", page(&c.page)),
        ])
    });
    Json::object([("height", branch.height.into()), ("children", children)])
}

fn source(s: &Source) -> Json {
    Json::object([
        ("kind", s.kind.into()),
        ("writer", s.writer.into()),
        ("part", s.part.into()),
        ("watermark", s.watermark.into()),
        ("groups", s.groups.into()),
        ("state", (s.state as u64).into()),
        ("idx_length", s.idx_length.into()),
        ("seg_length", s.seg_length.into()),
    ])
}

fn steps(steps: &Steps) -> Json {
    Json::object([
        ("runs", Json::list(&steps.runs, |r| numbers(&[r.first, r.count, r.stride]))),
        ("hidden", Json::list(&steps.hidden, |&(step, commit)| numbers(&[step, commit]))),
    ])
}

fn dtype(d: &DType) -> Json {
    match d {
        DType::Scalar(scalar) => Json::Text(scalar.name().into()),
        DType::String => Json::Text("string".into()),
        DType::Bytes(n) => Json::object([("bytes", (*n).into())]),
        DType::Unicode(n) => Json::object([("unicode", (*n).into())]),
        DType::Ragged(scalar) => Json::object([("ragged", Json::Text(scalar.name().into()))]),
        DType::Record(record) => {
            let members = Json::list(&record.members, |m| {
                Json::object([
                    ("name", Json::Text(m.name.clone())),
                    ("dtype", dtype(&m.dtype)),
                    ("shape", numbers(&m.shape)),
                    ("offset", m.offset.into()),
                ])
            });
            Json::object([("itemsize", record.itemsize.into()), ("members", members)])
        }
    }
}

/// A value. If JSON cannot represent it exactly, it becomes an object with one member that names the type.
fn value(v: &Value) -> Json {
    match v {
        Value::Null => Json::Null,
        Value::Bool(b) => Json::Bool(*b),
        Value::Int(i) => Json::Int(*i),
        Value::Float(x) => Json::object([("float", Json::Text(format!("{:016x}", x.to_bits())))]),
        Value::Text(text) => Json::Text(text.clone()),
        Value::Bytes(bytes) => Json::object([("bytes", Json::hex(bytes))]),
        Value::List(items) => Json::list(items, value),
        Value::Map(items) => Json::object([("map", attrs(items))]),
        Value::Array(array) => with_meaning(
            Json::object([
                ("dtype", dtype(&array.dtype)),
                ("shape", numbers(&array.shape)),
                ("data", Json::hex(&array.data)),
            ]),
            array.meaning.as_ref(),
        ),
    }
}

fn attrs(attrs: &Attrs) -> Json {
    Json::Object(attrs.iter().map(|(key, item)| (key.clone(), value(item))).collect())
}

/// An object, with a member for the meaning if there is one.
fn with_meaning(object: Json, meaning_of: Option<&Meaning>) -> Json {
    match (object, meaning_of) {
        (Json::Object(mut members), Some(said)) => {
            members.push(("meaning".into(), meaning(said)));
            Json::Object(members)
        }
        (object, _) => object,
    }
}

/// A meaning, structured as its CBOR items are.
fn meaning(said: &Meaning) -> Json {
    let time = |kind: u32, unit: &Unit| {
        Json::List(vec![kind.into(), Json::Text(unit.scale.name().into()), unit.count.into()])
    };
    match said {
        Meaning::Instant(unit) => time(0, unit),
        Meaning::Duration(unit) => time(1, unit),
        Meaning::Names(names) => {
            let pair = |(name, value): &(String, i128)| {
                Json::List(vec![Json::Text(name.clone()), Json::Int(*value)])
            };
            Json::List(vec![2u32.into(), Json::list(names, pair)])
        }
        Meaning::Object => Json::List(vec![4u32.into(), 0u32.into()]),
        Meaning::Region => Json::List(vec![4u32.into(), 1u32.into()]),
        Meaning::Members(members) => {
            let members = members.iter().map(|(name, below)| (name.clone(), meaning(below)));
            Json::List(vec![3u32.into(), Json::Object(members.collect())])
        }
    }
}

fn variable(v: &Variable) -> Json {
    let derived = v.derived.as_deref().map(|derived| ("derived", definition(derived)));
    let members = [
        ("id", v.id.into()),
        ("dtype", dtype(&v.dtype)),
        ("shape", numbers(&v.shape)),
        ("growable", Json::list(&v.growable, |&g| Json::Bool(g))),
        ("dims", Json::list(&v.dims, |d| Json::Text(d.clone()))),
        ("steps", Json::Bool(v.steps)),
        ("local", Json::Bool(v.local)),
        ("transform", Json::Text(v.transform.clone())),
        ("chunks", v.chunks.as_ref().map_or(Json::Null, |c| numbers(c))),
        ("fill", v.fill.as_ref().map_or(Json::Null, |f| Json::hex(f))),
        ("attrs", attrs(&v.attrs)),
        ("created", v.created.into()),
        ("clips", Json::list(&v.clips, |(commit, shape)| Json::List(vec![(*commit).into(), numbers(shape)]))),
    ];
    let members = members.into_iter().chain(derived).map(|(name, value)| (name.to_owned(), value)).collect();
    with_meaning(Json::Object(members), v.meaning.as_ref())
}

fn definition(d: &Derived) -> Json {
    let edge = ["one_sided", "fill", "periodic", "nan"][d.edge as usize];
    let input = |input: &Input| {
        Json::object([("name", Json::Text(input.name.clone())), ("variable", input.variable.into())])
    };
    Json::object([
        ("kind", Json::Text(d.kind.name().into())),
        ("edge", Json::Text(edge.into())),
        ("text", Json::Text(d.text.clone())),
        ("tree", Json::hex(&d.tree)),
        ("inputs", Json::list(&d.inputs, input)),
    ])
}

fn schema(schema: &Schema) -> Json {
    let groups = schema.groups.iter().map(|(path, a)| (path.clone(), attrs(a)));
    let names = schema.names.iter().map(|(path, name)| {
        let name = match name {
            Name::Variable(id) => (*id).into(),
            Name::Link(target) => Json::Text(target.clone()),
        };
        (path.clone(), name)
    });
    Json::object([
        ("next_id", schema.next_id.into()),
        ("groups", Json::Object(groups.collect())),
        ("variables", Json::list(schema.variables.values(), variable)),
        ("names", Json::Object(names.collect())),
    ])
}

fn manifest(m: &Manifest) -> Json {
    let section = |section: &Section| match section {
        Section::Inline(bytes) => Json::hex(bytes),
        Section::Page(p) => page(p),
    };
    let root = m.root.map_or(Json::Null, |root| {
        Json::object([
            ("page", page(&root.page)),
            ("height", root.height.into()),
            ("entries", root.entries.into()),
        ])
    });
    let mut members = vec![
        ("version", m.version.into()),
        ("parent", m.parent.into()),
        ("write_id", Json::hex(&m.write_id)),
        ("uuid", Json::hex(&m.uuid)),
        ("time", m.time.into()),
        ("marked", Json::Bool(m.marked)),
        ("last_marked", m.last_marked.into()),
        ("fence", m.fence.into()),
        ("schema", section(&m.schema)),
        ("steps", section(&m.steps)),
        ("source_pages", Json::list(&m.source_pages, page)),
        ("source_count", m.source_count.into()),
        ("root", root),
        ("ahead", Json::list(&m.ahead, |&(source, group)| numbers(&[source.into(), group]))),
    ];
    members.extend(m.published.iter().map(|p| ("published", section(p))));
    members.extend(m.boot.iter().map(|boot| ("boot", Json::Text(boot.clone()))));
    Json::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn published_array(a: &published::Array) -> Json {
    Json::object([
        ("node", Json::Text(a.node.clone())),
        ("variable", a.variable.into()),
        ("uid", a.uid.into()),
        ("member", a.member.into()),
        ("version", a.version.into()),
        ("shape", numbers(&a.shape)),
        ("chunk", numbers(&a.chunk)),
        ("shard", numbers(&a.shard)),
        ("zstd", Json::Bool(a.zstd)),
        ("tail", a.tail.into()),
        (
            "pages",
            Json::list(&a.pages, |p| {
                Json::object([("first", p.first.into()), ("count", p.count.into()), ("page", page(&p.page))])
            }),
        ),
    ])
}

fn shard(s: &published::Shard) -> Json {
    Json::object([
        ("number", s.number.into()),
        ("version", s.version.into()),
        ("fingerprint", Json::hex(&s.fingerprint.to_le_bytes())),
        ("length", s.length.into()),
        ("index_check", s.index_check.into()),
    ])
}

fn shard_statistics(s: &Statistics) -> Json {
    Json::object([
        ("fingerprint", Json::hex(&s.fingerprint.to_le_bytes())),
        ("version", s.version.into()),
        ("extents", numbers(&s.extents)),
        (
            "chunks",
            Json::list(&s.chunks, |c| {
                Json::object([
                    ("values", c.values.into()),
                    ("fills", c.fills.map_or(Json::Null, Json::from)),
                    ("nans", c.stats.nans.into()),
                    ("min", c.stats.min_max.map_or(Json::Null, |m| m.0.into())),
                    ("max", c.stats.min_max.map_or(Json::Null, |m| m.1.into())),
                ])
            }),
        ),
    ])
}

/// A stored piece. The vector has before it u64 length, u64 trailer, u32 unit_log2 and u32 check, as an entry would
/// state them.
fn stored_piece(r: &mut Reader<'_>) -> Result<Json, Corrupt> {
    let (length, trailer, unit_log2, check) = (r.u64()?, r.u64()?, r.u32()? as u8, r.u32()?);
    let piece = StoredPiece { position: 0, length, trailer, unit_log2, check };
    let payload = r.take(length as usize)?;
    let mut checks = Json::Null;
    let mut histogram = Json::Null;
    let mut meta = None;
    if trailer == 0 {
        piece.check_payload(payload)?;
    } else {
        r.take((length.next_multiple_of(4) - length) as usize)?;
        let trailer = Trailer::decode(&piece, r.take(trailer as usize)?)?;
        trailer.check(&piece, 0, payload)?;
        checks = Json::list(&trailer.checks, |&c| c.into());
        histogram = Json::hex(&trailer.histogram);
        meta = Some(trailer.meta).filter(|m| !m.is_empty());
    }
    r.end()?;
    let payload = Json::hex(payload);
    Ok(match meta {
        None => Json::object([("payload", payload), ("checks", checks), ("histogram", histogram)]),
        Some(meta) => Json::object([
            ("payload", payload),
            ("checks", checks),
            ("metadata", Json::hex(&meta)),
            ("histogram", histogram),
        ]),
    })
}
