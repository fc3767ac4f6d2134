//! Checks before a put: ranks that would mix with earlier writers are refused, and members, boxes and transforms must
//! fit the variable.

use super::bounds_only;
use super::derived::{EXACT, bounds_chain};
use crate::schema::element_type::logical;
use drystone_format::dtype::{DType, Leaf};
use drystone_format::log::Rank;
use drystone_format::schema::Variable;
use drystone_transform::{Chain, Transform};

use crate::commit::adoption;
use crate::commit::adoption::{Books, Damaged, Listing, Logs};
use crate::container::Config;
use crate::container::Inner;
use crate::schema::member::{Column, member, no_member};
use crate::{Error, Result};

/// Refuses a ranked writer if earlier writers left steps that it would mix with. Records what waits for a
/// commit.
pub(super) fn refuse_unfenced(
    inner: &Inner,
    base: &crate::Snapshot,
    rank: Rank,
    mut listing: Listing,
) -> Result<()> {
    let (logs, _) = adoption::gather_from(inner, base, Damaged::GiveUp, Logs::All, &mut listing)?;
    let books = Books::new(base, base.sources(&inner.pages)?);
    for log in logs.iter().filter(|l| !adoption::is_fenced(l, base)) {
        if !adoption::has_pending(log, &books) {
            continue;
        }
        adoption::remember_waiting(inner, std::iter::once(log), &books);
        let Some(theirs) = log.header.rank else { continue };
        let remedy = "call recover(adopt=True) to keep its complete steps, or recover(discard=True) to drop them, then open the \
                      writers again";
        if theirs.nranks != rank.nranks {
            return Err(Error::conflict(format!(
                "a run of {} ranks left uncommitted steps (rank {}, {}), this is one of {}; {remedy}",
                theirs.nranks, theirs.rank, log.header.origin, rank.nranks
            )));
        }
        if theirs.rank == rank.rank && !log.is_closed() {
            return Err(Error::conflict(format!(
                "another writer of rank {} ({}) left uncommitted steps and did not close; {remedy}",
                rank.rank, log.header.origin
            )));
        }
    }
    Ok(())
}

/// Returns the number of the last fence. Errors: `Conflict` if ranked writers left anything that no recovery has
/// settled.
pub(crate) fn require_settled(container: &crate::Container) -> Result<u64> {
    let inner = &container.inner;
    inner.require_writable()?;
    let mut listing = Listing::begin(inner.store.as_ref());
    let (base, _) = inner.newest()?;
    let (logs, _) = adoption::gather_from(inner, &base, Damaged::GiveUp, Logs::All, &mut listing)?;
    let books = Books::new(&base, base.sources(&inner.pages)?);
    let left = |log: &&crate::log::scan::WriterLog| {
        !adoption::is_fenced(log, &base) && adoption::has_pending(log, &books)
    };
    if let Some((log, theirs)) = logs.iter().filter(left).find_map(|log| Some((log, log.header.rank?))) {
        return Err(Error::conflict(format!(
            "a run of {} ranks left uncommitted steps (rank {}, {}); call recover(adopt=True) to keep its complete steps, or \
             recover(discard=True) to drop them, then open the writers again",
            theirs.nranks, theirs.rank, log.header.origin
        )));
    }
    let fence = base.manifest.fence;
    inner.adopt_snapshot(base);
    Ok(fence)
}

/// The leaf members to write, or parts of them, with their offsets in an element of the given data.
pub(crate) fn members(
    path: &str,
    variable: &Variable,
    field: Option<&str>,
    dtype: &DType,
    item: usize,
) -> Result<Vec<Column>> {
    let Some(field) = field else {
        if *dtype != variable.dtype {
            return Err(Error::invalid(format!(
                "\"{path}\" has dtype {}, the array has {dtype}; convert it first (numpy: .astype)",
                variable.dtype
            )));
        }
        if item as u64 != u64::from(dtype.item_size()) {
            return Err(Error::invalid(format!(
                "the array has elements of {item} bytes, {dtype} has {}",
                dtype.item_size()
            )));
        }
        return Ok(Column::all(dtype));
    };
    let found = member(&variable.dtype, field).ok_or_else(|| no_member(&variable.dtype, path, field))?;
    if *dtype != found.dtype {
        return Err(Error::invalid(format!(
            "member \"{field}\" of \"{path}\" has dtype {}, the array has {dtype}; convert it first",
            found.dtype
        )));
    }
    if item != found.size as usize {
        return Err(Error::invalid(format!(
            "member \"{field}\" of \"{path}\" has {} bytes per element (shape {:?}), the array {item}",
            found.size, found.shape
        )));
    }
    Ok(found.columns)
}

/// The columns of a variable of strings or lists, or of such a member of a record, with offsets in the references of a
/// cell.
pub(crate) fn blob_columns(path: &str, variable: &Variable, field: Option<&str>) -> Result<Vec<Column>> {
    let Some(field) = field else {
        let columns = Column::all(&variable.dtype);
        return match &variable.dtype {
            dtype if dtype.is_blob() => Ok(columns),
            dtype if dtype.has_blobs() => Err(Error::invalid(format!(
                "\"{path}\" holds {dtype}: give the member that the strings or lists are for, or whole records"
            ))),
            dtype => Err(Error::invalid(format!("\"{path}\" holds {dtype}, not strings or lists"))),
        };
    };
    let found = member(&variable.dtype, field).ok_or_else(|| no_member(&variable.dtype, path, field))?;
    match &found.dtype {
        dtype if dtype.is_blob() => Ok(found.columns),
        dtype => Err(Error::invalid(format!(
            "member \"{field}\" of \"{path}\" holds {dtype}, not strings or lists"
        ))),
    }
}

/// Checks a block of strings or lists for some columns of one type: the number of values, their lengths, and the box.
/// Returns the offset.
pub(crate) fn check_strings(
    path: &str,
    (variable, columns): (&Variable, &[Column]),
    shape: &[u64],
    values: &[&[u8]],
    offset: Option<&[u64]>,
) -> Result<Vec<u64>> {
    let repeat = columns.iter().map(|column| column.leaf.repeat).sum();
    for column in columns.iter().take(1) {
        check_blobs(path, &column.leaf, values)?;
    }
    if shape.iter().try_fold(repeat, |a: u64, n| a.checked_mul(*n)) != Some(values.len() as u64) {
        return Err(Error::invalid("the number of values does not fit the shape"));
    }
    if let Some(long) = values.iter().find(|value| value.len() as u64 > u64::from(u32::MAX)) {
        let what = format!("a string of {} bytes; at most 4 GiB are supported", long.len());
        return Err(Error::unsupported(what));
    }
    check_box(path, variable, shape, offset)
}

pub(crate) fn check_box(
    path: &str,
    variable: &Variable,
    shape: &[u64],
    offset: Option<&[u64]>,
) -> Result<Vec<u64>> {
    let bad = |why: String| Error::invalid(format!("put to \"{path}\": {why}"));
    if let Some(derived) = &variable.derived {
        return Err(bad(format!("it is derived ({}), so it holds no values of its own", derived.text)));
    }
    if variable.local {
        if offset.is_some_and(|o| o.iter().any(|n| *n != 0)) {
            return Err(bad("a local variable's blocks have no offset".into()));
        }
        if shape.len() > drystone_format::MAX_NDIM {
            return Err(bad(format!(
                "{} dimensions; at most {} are supported",
                shape.len(),
                drystone_format::MAX_NDIM
            )));
        }
        return Ok(vec![0; shape.len()]);
    }
    let ndim = variable.shape.len();
    if shape.len() != ndim {
        return Err(bad(format!(
            "the block has {} dimensions {shape:?}, the variable {ndim} {:?} (the step axis aside)",
            shape.len(),
            variable.shape
        )));
    }
    let offset = offset.map_or_else(|| vec![0; ndim], <[u64]>::to_vec);
    if offset.len() != ndim {
        return Err(bad(format!("the offset has {} entries for {ndim} dimensions", offset.len())));
    }
    for d in 0..ndim {
        let end = offset[d].checked_add(shape[d]).filter(|e| i64::try_from(*e).is_ok());
        let inside = end.is_some_and(|e| variable.growable[d] || e <= variable.shape[d]);
        if !inside {
            return Err(bad(format!(
                "the block at offset {offset:?} with shape {shape:?} leaves the variable's shape {:?} in dimension {d}",
                variable.shape
            )));
        }
    }
    Ok(offset)
}

/// The encoding of a variable's blocks: as configured, else as declared.
pub(super) fn transform_of(path: &str, variable: &Variable, config: Option<&Config>) -> Result<Transform> {
    if variable.transform == bounds_only::NAME {
        return Ok(Transform::Chain(bounds_chain()?));
    }
    if variable.transform == EXACT {
        return Ok(Transform::Chain(Chain::identity()));
    }
    let Some((config, transform)) = config.and_then(|c| Some((c, c.transform(path)?))) else {
        return Transform::parse(&variable.transform).map_err(|e| {
            Error::unsupported(format!("\"{path}\" has a transform this program cannot apply: {e}"))
        });
    };
    for leaf in variable.dtype.leaves() {
        transform.check_takes(&logical(&leaf, &[0])).map_err(|e| {
            let file = config.path().display();
            Error::invalid(format!("the transform that {file} gives \"{path}\": {e}"))
        })?;
    }
    Ok(transform.clone())
}

/// Refuses elements of one size for a column of values of any length.
pub(crate) fn require_fixed(path: &str, leaf: &Leaf) -> Result<()> {
    let wanted = match &leaf.dtype {
        DType::String => "strings",
        other if other.is_blob() => "lists of numbers",
        _ => return Ok(()),
    };
    Err(Error::invalid(format!(
        "{} holds {wanted}; give {wanted}, not fixed-size elements",
        named(path, leaf)
    )))
}

/// The variable, or the member of a record, for messages.
fn named(path: &str, leaf: &Leaf) -> String {
    match leaf.path.as_str() {
        "" => format!("\"{path}\""),
        member => format!("member \"{member}\" of \"{path}\""),
    }
}

/// Refuses values of any length that do not have the column's type: texts are UTF-8, lists have whole numbers of
/// elements.
fn check_blobs(path: &str, leaf: &Leaf, values: &[&[u8]]) -> Result<()> {
    let wrong = match &leaf.dtype {
        DType::String => {
            let broken = |(n, text): (usize, &&[u8])| Some((n, std::str::from_utf8(text).err()?));
            let found = values.iter().enumerate().find_map(broken);
            found.map(|(n, e)| format!("text {n} of the block for {} is not UTF-8: {e}", named(path, leaf)))
        }
        DType::Ragged(scalar) => {
            let size = scalar.size() as usize;
            values.iter().enumerate().find(|(_, list)| list.len() % size != 0).map(|(n, list)| {
                format!(
                    "list {n} of the block for {} has {} bytes, which is no multiple of the {size} of {scalar}",
                    named(path, leaf),
                    list.len()
                )
            })
        }
        dtype => Some(format!("{} holds {dtype}, not strings or lists", named(path, leaf))),
    };
    wrong.map_or(Ok(()), |wrong| Err(Error::invalid(wrong)))
}
