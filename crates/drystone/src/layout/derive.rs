//! From declared texts to forms: finds the instances of stored fragments, and the layout that each gives a variable.
//!
//! The parameters of a stored fragment number its tiles: each counts from 0 (or 1) as long as the tile meets the
//! variable. A fragment can choose a layout if each of its indices moves along one dimension of the variable, one
//! cell at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use drystone_dataset::{Fragment, Leaf, Program, Role, Source};
use drystone_format::layout::{MAX_ROOM, Order};
use drystone_format::schema::{Declaration, Schema, Variable};

use super::region::Region;
use super::{Form, Set};
use crate::schema::column;
use crate::schema::declared::{parsed, said};
use crate::{Error, Result};

/// The most instances of stored fragments that are considered. Cells of further instances are stored as if
/// undeclared.
const MOST_INSTANCES: usize = 1 << 16;

/// Layouts of variables, made at the first use.
#[derive(Default)]
pub(crate) struct Layouts(BTreeMap<u32, Known>);

struct Known {
    declarations: usize,
    /// The extents up to which the dimensions were considered.
    reach: Vec<u64>,
    sets: Arc<[Set]>,
}

impl Layouts {
    /// The forms of a variable under a schema, for puts that end before `end`.
    pub(crate) fn of(&mut self, schema: &Schema, variable: &Variable, end: &[u64]) -> Result<Arc<[Set]>> {
        if schema.declarations.is_empty() || variable.local || variable.dtype.is_blob() {
            return Ok(Arc::new([]));
        }
        let known = self.0.get(&variable.id);
        let fits = |known: &&Known| {
            known.declarations == schema.declarations.len()
                && known.reach.len() == end.len()
                && known.reach.iter().zip(end).all(|(reach, end)| end <= reach)
        };
        if let Some(known) = known.filter(fits) {
            return Ok(known.sets.clone());
        }
        let grown = |((n, grows), end): ((&u64, &bool), &u64)| {
            if *grows { end.saturating_mul(2).max(*n) } else { *n }
        };
        let reach: Vec<u64> = variable.shape.iter().zip(&variable.growable).zip(end).map(grown).collect();
        let sets: Arc<[Set]> = sets(schema, variable, &reach)?.into();
        self.0.insert(
            variable.id,
            Known { declarations: schema.declarations.len(), reach, sets: sets.clone() },
        );
        Ok(sets)
    }
}

/// The sets of forms of a variable up to `reach`. Fragments that cannot choose a layout are skipped: an older
/// version, which did not check this, declared them.
fn sets(schema: &Schema, variable: &Variable, reach: &[u64]) -> Result<Vec<Set>> {
    let Some((path, _)) = schema.named().find(|(_, v)| v.id == variable.id) else { return Ok(Vec::new()) };
    for declaration in &schema.declarations {
        let program = parsed(declaration)?;
        if !program.variable_names().any(|name| name == path) {
            continue;
        }
        let mut found: BTreeMap<u32, Vec<Form>> = BTreeMap::new();
        for (name, params) in stored(&program) {
            let Ok(instances) = instances(&program, declaration, &name, &params, |f| meets(f, path, reach))
            else {
                continue;
            };
            for fragment in instances {
                let Ok(forms) = forms(&fragment, path, variable, reach) else { continue };
                found.entry(number(fragment.role)).or_default().extend(forms);
            }
        }
        return Ok(found.into_iter().map(|(replica, forms)| Set { replica, forms }).collect());
    }
    Ok(Vec::new())
}

/// Refuses a text with a stored fragment that cannot choose a layout. Its variables are in the schema.
pub(crate) fn check(schema: &Schema, declaration: &Declaration, program: &Program) -> Result<()> {
    for (name, params) in stored(program) {
        let cannot = |why: String| {
            Error::unsupported(format!(
                "the fragment \"{name}\" cannot choose how data is stored: {why}; leave out `default` or `replica`"
            ))
        };
        let mut looked = 0;
        let first = |_: &Fragment| {
            looked += 1;
            looked < 3
        };
        for fragment in instances(program, declaration, &name, &params, first).map_err(cannot)? {
            for path in program.variable_names() {
                let Some(variable) = schema.resolve(path) else { continue };
                forms(&fragment, path, variable, &vec![u64::MAX; variable.shape.len()]).map_err(cannot)?;
            }
        }
    }
    Ok(())
}

/// The names and parameters of the stored fragments.
fn stored(program: &Program) -> Vec<(String, Vec<String>)> {
    let named = |f: drystone_dataset::FragmentInfo<'_>| {
        (f.name.to_string(), f.params.iter().map(|p| (*p).to_string()).collect())
    };
    program.fragments().filter(|f| f.is_default || f.is_replica).map(named).collect()
}

fn number(role: Role) -> u32 {
    match role {
        Role::Replica(number) => number,
        Role::View | Role::Default => 0,
    }
}

/// The instances of a fragment that `wanted` accepts. Parameters are counted up until it rejects one.
fn instances(
    program: &Program,
    declaration: &Declaration,
    name: &str,
    params: &[String],
    mut wanted: impl FnMut(&Fragment) -> bool,
) -> std::result::Result<Vec<Fragment>, String> {
    let mut values: Vec<(&str, i64)> = declaration
        .values
        .iter()
        .map(|(n, v)| (n.as_str(), *v))
        .filter(|(n, _)| !params.iter().any(|p| p == n))
        .collect();
    let fixed = values.len();
    values.extend(params.iter().map(|p| (p.as_str(), 0)));
    let mut out = Vec::new();
    let mut made = 0;
    walk(
        fixed,
        &mut values,
        &mut |values| {
            made += 1;
            if made > MOST_INSTANCES {
                return Ok(None);
            }
            let fragment = program.instantiate(name, values).map_err(|d| said(&d))?;
            Ok(wanted(&fragment).then_some(fragment))
        },
        &mut out,
    )?;
    Ok(out)
}

type Make<'m> = dyn FnMut(&[(&str, i64)]) -> std::result::Result<Option<Fragment>, String> + 'm;

/// Counts up the parameter at `at` and those after it; the last one counts fastest. Returns whether any instance was
/// accepted.
fn walk(
    at: usize,
    values: &mut Vec<(&str, i64)>,
    make: &mut Make<'_>,
    out: &mut Vec<Fragment>,
) -> std::result::Result<bool, String> {
    if at >= values.len() {
        let Some(made) = make(values)? else { return Ok(false) };
        // A parameter that changes nothing would count for ever.
        let again = out.last().is_some_and(|last| last.vars == made.vars);
        if !again {
            out.push(made);
        }
        return Ok(!again);
    }
    let (mut any, mut refused) = (false, None);
    for value in 0.. {
        if let Some((_, v)) = values.get_mut(at) {
            *v = value;
        }
        let taken = match walk(at + 1, values, make, out) {
            Ok(taken) => taken,
            // A rule may be undefined at 0, as n/r is.
            Err(why) if value == 0 => {
                refused = Some(why);
                false
            }
            Err(_) if any => false,
            Err(why) => return Err(refused.unwrap_or(why)),
        };
        any |= taken;
        if !taken && value > 0 {
            break;
        }
    }
    Ok(any)
}

/// Whether a fragment contains anything of a variable below `reach`.
fn meets(fragment: &Fragment, path: &str, reach: &[u64]) -> bool {
    let of = |var: &drystone_dataset::FragmentVar| *var.variable.name == *path;
    let inside = |var: &drystone_dataset::FragmentVar| {
        var.dims.iter().zip(reach).all(|(dim, reach)| {
            let count = match dim.map.source {
                Source::Binder(x) => var.extents.get(x).copied().unwrap_or(0),
                Source::Constant => 1,
            };
            let first = i128::from(dim.map.b);
            first < i128::from(*reach) && first + i128::from(count) > 0
        })
    };
    fragment.vars.iter().filter(|var| of(var)).any(inside)
}

/// The forms that a fragment gives a variable.
fn forms(
    fragment: &Fragment,
    path: &str,
    variable: &Variable,
    reach: &[u64],
) -> std::result::Result<Vec<Form>, String> {
    let leaves = fragment.lower().map_err(|e| e.to_string())?;
    let mut out = Vec::new();
    for (number, var) in fragment.vars.iter().enumerate().filter(|(_, var)| *var.variable.name == *path) {
        if var.dims.iter().any(|dim| dim.map.modulus.is_some()) {
            return Err(format!("`{}` wraps around", var.name));
        }
        let (element, lead) = column::strip(&var.variable.ty);
        let ndim = var.variable.extents.len() + lead.len();
        if column::dtype(element).ok().as_ref() != Some(&variable.dtype) || ndim != variable.shape.len() {
            return Err(format!("the variable \"{path}\" is not what the text declares"));
        }
        if var.dims.len() > ndim {
            return Err(format!("`{}` takes a member array apart, which is stored whole", var.name));
        }
        let Some(leaf) = leaves.iter().find(|leaf| leaf.var == number) else { continue };
        let Some((region, dims, room)) = arranged(leaf, ndim, var.name.as_ref(), reach)? else { continue };
        let mut members = Vec::new();
        for (member, stored) in variable.dtype.leaves().iter().enumerate() {
            let first = u64::from(stored.offset);
            let within = |field: &&drystone_dataset::FieldRef| {
                first >= field.dataset_offset && first - field.dataset_offset < field.ty.size()
            };
            if let Some(field) = var.fields.iter().find(within) {
                members.push((member as u32, (field.offset + first - field.dataset_offset) as u32));
            }
        }
        if members.is_empty() {
            return Err(format!("`{}` holds no whole member", var.name));
        }
        out.push(Form { region, room, order: dims, members });
    }
    Ok(out)
}

type Arranged = Option<(Region, Option<Order>, u32)>;

/// The box, order and cell of a leaf's variable. `None` if it has no cells below `reach`.
fn arranged(leaf: &Leaf, ndim: usize, name: &str, reach: &[u64]) -> std::result::Result<Arranged, String> {
    let mut region = Region::new();
    let mut dimension_of = vec![None; leaf.runs.len()];
    for (d, dim) in leaf.dims.iter().take(ndim).enumerate() {
        let map = dim.map;
        let (from, count) = match map.source {
            Source::Constant => (i128::from(map.b), 1),
            Source::Binder(x) => {
                let Some(run) = leaf.runs.get(x).filter(|_| (map.a, map.c, map.d) == (1, 0, 1)) else {
                    return Err(format!(
                        "the cells of `{name}` do not follow one another in the variable: ({map})"
                    ));
                };
                if let Some(slot) = dimension_of.get_mut(x) {
                    *slot = Some(d);
                }
                (i128::from(map.b) + i128::from(run.start), i128::from(run.count))
            }
        };
        let most = i128::from(reach.get(d).copied().unwrap_or(u64::MAX));
        let (low, high) = (from.clamp(0, most), (from + count).clamp(0, most));
        if low >= high {
            return Ok(None);
        }
        region.push((low as u64, high as u64));
    }
    // The outermost arrays are dimensions of the variable; inner arrays lie inside its elements.
    let (mut first, mut sequence, mut room, mut curve) = (0, Vec::new(), None, None);
    for (n, level) in leaf.levels.iter().enumerate() {
        let count = level.extents.len();
        let is_outer =
            n == 0 || dimension_of.get(first..first + count).is_some_and(|d| d.iter().any(Option::is_some));
        if !is_outer {
            break;
        }
        use drystone_dataset::Order as Declared;
        match &level.order {
            Declared::Row => sequence.extend(first..first + count),
            Declared::Col => sequence.extend((first..first + count).rev()),
            Declared::Perm(axes) => sequence.extend(axes.iter().map(|axis| first + axis)),
            Declared::Morton => curve = Some(Order::Morton),
            Declared::Hilbert => curve = Some(Order::Hilbert),
        }
        if curve.is_some() && n > 0 {
            return Err(format!("`{name}` follows a curve inside its elements"));
        }
        first += count;
        room = Some(level.unit);
    }
    if curve.is_some()
        && dimension_of.iter().skip(leaf.levels.first().map_or(0, |l| l.extents.len())).any(Option::is_some)
    {
        return Err(format!("`{name}` follows a curve of arrays"));
    }
    let moved: Vec<usize> = sequence.iter().filter_map(|x| dimension_of.get(*x).copied().flatten()).collect();
    let dims: Vec<usize> = (0..ndim).filter(|d| !moved.contains(d)).chain(moved.iter().copied()).collect();
    let sorted = moved.is_sorted();
    let order = curve
        .filter(|_| ndim > 0)
        .or_else(|| (!sorted).then(|| Order::Dims(dims.iter().map(|d| *d as u8).collect())));
    let room = room.and_then(|room| u32::try_from(room).ok()).filter(|room| (1..=MAX_ROOM).contains(room));
    match room {
        Some(room) => Ok(Some((region, order, room))),
        None => Err(format!("an element of `{name}` has more than {MAX_ROOM} bytes")),
    }
}
