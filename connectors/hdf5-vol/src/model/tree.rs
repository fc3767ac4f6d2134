//! The objects of one HDF5 file, in memory: groups with their links, datasets, committed types, attributes.
//!
//! Knows names, ids and counts, nothing of the library and nothing of values in the container. Names are
//! bytes: HDF5 does not require UTF-8.
//!
//! Invariants
//! - every hard link leads to an existing object, and `nlink` is the number of those links plus what a
//!   program has added to it;
//! - a committed type stays while a dataset or an attribute uses it;
//! - the root is a group that is never removed;
//! - an id is assigned once.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

/// Permanent number of an object. It is also the address that programs see in references and tokens.
pub type Id = u64;

/// The root group.
pub const ROOT: Id = 96;

/// Bits of creation order, as in the library: 1 tracked, 2 indexed.
pub const TRACKED: u8 = 1;

/// A datatype as `H5Tencode` writes it, and the bytes of one element in the file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoredType {
    /// The encoding by `H5Tencode`.
    pub encoded: Vec<u8>,
    /// Bytes of one stored element.
    pub size: u32,
    /// The committed type, if it is one.
    pub committed: Option<Id>,
}

/// An extent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Space {
    /// No element.
    Null,
    /// One element.
    Scalar,
    /// A box of elements: sizes now and at most (`u64::MAX`: unlimited).
    Simple(Vec<u64>, Vec<u64>),
}

impl Space {
    /// Sizes; none for a scalar or null space.
    pub fn dims(&self) -> &[u64] {
        match self {
            Space::Simple(dims, _) => dims,
            _ => &[],
        }
    }

    /// Number of elements; `None` if that does not fit.
    pub fn points(&self) -> Option<u64> {
        match self {
            Space::Null => Some(0),
            Space::Scalar => Some(1),
            Space::Simple(dims, _) => dims.iter().try_fold(1u64, |a, n| a.checked_mul(*n)),
        }
    }
}

/// An attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Attribute {
    pub order: u32,
    pub cset: u8,
    pub dtype: StoredType,
    pub space: Space,
    /// Elements in the stored type; empty if none were written yet.
    pub data: Vec<u8>,
}

/// A filter of a dataset's pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Filter {
    pub id: i32,
    pub flags: u32,
    pub values: Vec<u32>,
}

/// How a dataset was created.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct Properties {
    pub layout: u8,
    pub chunk: Vec<u64>,
    pub filters: Vec<Filter>,
    /// 0 undefined, 1 default, 2 given by the program.
    pub fill_defined: u8,
    pub fill_time: u8,
    pub alloc_time: u8,
}

/// A dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dataset {
    /// Its type.
    pub dtype: StoredType,
    /// Its extent.
    pub space: Space,
    /// How it was created.
    pub properties: Properties,
    /// One element in the stored type, if the fill value is not zero.
    pub fill: Option<Vec<u8>>,
    /// Id and uid of its variable in the container.
    pub variable: Option<(u32, u64)>,
    /// Extents within which values may lie in the container: cells that are added again after shrinking are
    /// filled.
    pub high: Vec<u64>,
}

impl Dataset {
    /// The value of unwritten cells: the fill value, unless it is never to be written.
    pub fn unwritten(&self) -> Option<&[u8]> {
        self.fill.as_deref().filter(|_| self.properties.fill_time != 1)
    }
}

/// The target of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// To an object of this file.
    Hard(Id),
    /// To a path.
    Soft(Vec<u8>),
    /// The data that the class of link (64 is external) keeps.
    Custom(i32, Vec<u8>),
}

/// A link of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Link {
    pub order: i64,
    pub cset: u8,
    pub target: Target,
}

/// A group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct Group {
    pub links: BTreeMap<Vec<u8>, Link>,
    pub next_order: i64,
    /// Creation order: bits.
    pub order: u8,
}

/// The kind of an object, with its content.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Body {
    Group(Group),
    Dataset(Box<Dataset>),
    Type(StoredType),
}

/// Seconds since 1970, 0 where they are not tracked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct Times {
    pub tracked: bool,
    pub access: i64,
    pub modified: i64,
    pub changed: i64,
    pub born: i64,
}

impl Times {
    /// The times of a new object.
    pub fn now(tracked: bool) -> Self {
        let t = if tracked { seconds() } else { 0 };
        Times { tracked, access: t, modified: t, changed: t, born: t }
    }

    fn touch(&mut self) {
        if self.tracked {
            self.changed = seconds();
        }
    }
}

fn seconds() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs() as i64)
}

/// An object.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Object {
    pub nlink: u32,
    pub times: Times,
    pub comment: Vec<u8>,
    pub attributes: BTreeMap<Vec<u8>, Attribute>,
    pub next_attribute: u32,
    /// Creation order of attributes: bits.
    pub attribute_order: u8,
    /// Thresholds of attribute counts at which the library would change their storage.
    pub phase: (u32, u32),
    pub body: Body,
}

impl Object {
    /// A new object without links.
    pub fn new(body: Body, times: Times) -> Self {
        Object {
            nlink: 0,
            times,
            comment: Vec::new(),
            attributes: BTreeMap::new(),
            next_attribute: 0,
            attribute_order: 0,
            phase: (8, 6),
            body,
        }
    }

    /// A group that is created on the path to this object: with its properties if it is a group, else by
    /// default.
    pub fn between(&self) -> Self {
        match &self.body {
            Body::Group(_) => Object {
                attribute_order: self.attribute_order,
                phase: self.phase,
                ..Object::new(Body::Group(Group::default()), Times::now(self.times.tracked))
            },
            _ => Object::group(),
        }
    }

    /// A group as it is made by default.
    pub fn group() -> Self {
        Object::new(Body::Group(Group::default()), Times::now(true))
    }

    /// The committed types that it and its attributes use, each as often as it is used.
    pub(super) fn committed(&self) -> impl Iterator<Item = Id> + '_ {
        let own = match &self.body {
            Body::Dataset(dataset) => dataset.dtype.committed,
            _ => None,
        };
        own.into_iter().chain(self.attributes.values().filter_map(|attribute| attribute.dtype.committed))
    }

    /// Adds or replaces an attribute, which gets the next position in creation order.
    pub fn put_attribute(&mut self, name: &[u8], mut attribute: Attribute) {
        attribute.order = self.next_attribute;
        self.next_attribute = self.next_attribute.wrapping_add(1);
        self.attributes.insert(name.to_vec(), attribute);
        self.times.touch();
    }
}

/// Order of an iteration (`H5_index_t`, `H5_iter_order_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Order {
    pub by_creation: bool,
    pub descending: bool,
}

/// All objects of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// By id.
    pub objects: BTreeMap<Id, Object>,
    /// The next id.
    pub next: Id,
    /// The file's creation properties (`H5Pencode2`), as written by the library that created it.
    pub fcpl: Vec<u8>,
}

impl Tree {
    /// Only a root group.
    pub fn new(order: u8, attribute_order: u8) -> Self {
        let body = Body::Group(Group { order, ..Group::default() });
        let mut root = Object::new(body, Times::now(false));
        root.nlink = 1;
        root.attribute_order = attribute_order;
        Tree { objects: BTreeMap::from([(ROOT, root)]), next: ROOT + 8, fcpl: Vec::new() }
    }

    /// Adds an object without links.
    pub fn add(&mut self, object: Object) -> Id {
        let id = self.next;
        self.next += 8;
        self.objects.insert(id, object);
        id
    }

    /// The group with this id.
    pub fn group(&self, id: Id) -> Option<&Group> {
        match &self.objects.get(&id)?.body {
            Body::Group(group) => Some(group),
            _ => None,
        }
    }

    /// The group with this id, mutable.
    pub fn group_mut(&mut self, id: Id) -> Option<&mut Group> {
        match &mut self.objects.get_mut(&id)?.body {
            Body::Group(group) => Some(group),
            _ => None,
        }
    }

    /// The dataset with this id.
    pub fn dataset(&self, id: Id) -> Option<&Dataset> {
        match &self.objects.get(&id)?.body {
            Body::Dataset(dataset) => Some(dataset),
            _ => None,
        }
    }

    /// The dataset with this id, mutable.
    pub fn dataset_mut(&mut self, id: Id) -> Option<&mut Dataset> {
        match &mut self.objects.get_mut(&id)?.body {
            Body::Dataset(dataset) => Some(dataset),
            _ => None,
        }
    }

    /// Makes a link in a group; `false` if the name is taken or the group does not exist.
    pub fn link(&mut self, group: Id, name: &[u8], cset: u8, target: Target) -> bool {
        let hard = if let Target::Hard(id) = target { Some(id) } else { None };
        if hard.is_some_and(|id| !self.objects.contains_key(&id)) {
            return false;
        }
        let Some(g) = self.group_mut(group) else { return false };
        if g.links.contains_key(name) {
            return false;
        }
        let order = g.next_order;
        g.next_order += 1;
        g.links.insert(name.to_vec(), Link { order, cset, target });
        if let Some(object) = hard.and_then(|id| self.objects.get_mut(&id)) {
            object.nlink += 1;
            object.times.touch();
        }
        if let Some(object) = self.objects.get_mut(&group) {
            object.times.touch();
        }
        true
    }

    /// Removes a link and returns it. The object stays until [`Tree::reap`].
    pub fn unlink(&mut self, group: Id, name: &[u8]) -> Option<Link> {
        let from = self.group_mut(group)?;
        let link = from.links.remove(name)?;
        if from.links.is_empty() {
            from.next_order = 0;
        }
        if let Target::Hard(id) = link.target
            && let Some(object) = self.objects.get_mut(&id)
        {
            object.nlink = object.nlink.saturating_sub(1);
        }
        Some(link)
    }

    /// How many hard links lead to an object.
    fn links_to(&self, id: Id) -> u32 {
        let groups = self.objects.values().filter_map(|object| match &object.body {
            Body::Group(group) => Some(group),
            _ => None,
        });
        let links = groups.flat_map(|group| group.links.values());
        links.filter(|link| link.target == Target::Hard(id)).count() as u32 + u32::from(id == ROOT)
    }

    /// How many datasets and attributes use a committed type.
    pub fn uses(&self, id: Id) -> u32 {
        self.objects.values().flat_map(Object::committed).filter(|used| *used == id).count() as u32
    }

    /// The reference count of an object as programs see it: links, what was added to them, and uses of a
    /// committed type.
    pub fn references(&self, id: Id) -> u32 {
        let Some(object) = self.objects.get(&id) else { return 0 };
        match object.body {
            Body::Type(_) => object.nlink.saturating_add(self.uses(id)),
            _ => object.nlink,
        }
    }

    /// Changes the reference count of an object by 1 up or down; `false` if there is no such object, or its
    /// links alone make the count.
    pub fn count_reference(&mut self, id: Id, up: bool) -> bool {
        let links = if up { 0 } else { self.links_to(id) };
        let Some(object) = self.objects.get_mut(&id) else { return false };
        let changed = if up { object.nlink.checked_add(1) } else { object.nlink.checked_sub(1) };
        match changed.filter(|count| *count >= links) {
            Some(count) => object.nlink = count,
            None => return false,
        }
        object.times.touch();
        true
    }

    /// How many objects hard links lead to from the root, which is included.
    pub fn reachable(&self) -> usize {
        let mut seen = std::collections::BTreeSet::from([ROOT]);
        let mut look = vec![ROOT];
        while let Some(id) = look.pop() {
            for link in self.group(id).map(|group| group.links.values()).into_iter().flatten() {
                if let Target::Hard(child) = link.target
                    && seen.insert(child)
                {
                    look.push(child);
                }
            }
        }
        seen.len()
    }

    /// Removes those of the given objects without links, uses and open handles, and what only they led to;
    /// returns the ids that were removed.
    pub fn reap(&mut self, mut look: Vec<Id>, held: impl Fn(Id) -> bool) -> Vec<Id> {
        let mut gone = Vec::new();
        while let Some(id) = look.pop() {
            let Some(object) = self.objects.get(&id) else { continue };
            let used = || matches!(object.body, Body::Type(_)) && self.uses(id) > 0;
            if id == ROOT || held(id) || object.nlink > 0 || used() {
                continue;
            }
            if let Some(object) = self.objects.remove(&id) {
                gone.push(id);
                look.extend(object.committed());
                if let Body::Group(group) = object.body {
                    for link in group.links.into_values() {
                        if let Target::Hard(child) = link.target
                            && let Some(object) = self.objects.get_mut(&child)
                        {
                            object.nlink = object.nlink.saturating_sub(1);
                            if object.nlink == 0 {
                                look.push(child);
                            }
                        }
                    }
                }
            }
        }
        gone
    }

    /// Names of a group's links in an order.
    pub fn names(&self, group: Id, order: Order) -> Vec<Vec<u8>> {
        let Some(group) = self.group(group) else { return Vec::new() };
        let mut names: Vec<(i64, &Vec<u8>)> = group.links.iter().map(|(n, l)| (l.order, n)).collect();
        if order.by_creation {
            names.sort_unstable();
        }
        if order.descending {
            names.reverse();
        }
        names.into_iter().map(|(_, n)| n.clone()).collect()
    }

    /// Names of an object's attributes in an order.
    pub fn attribute_names(&self, id: Id, order: Order) -> Vec<Vec<u8>> {
        let Some(object) = self.objects.get(&id) else { return Vec::new() };
        let mut names: Vec<(u32, &Vec<u8>)> = object.attributes.iter().map(|(n, a)| (a.order, n)).collect();
        if order.by_creation {
            names.sort_unstable();
        }
        if order.descending {
            names.reverse();
        }
        names.into_iter().map(|(_, n)| n.clone()).collect()
    }

    /// Some path from the root to an object, the one with the fewest links.
    pub fn path_of(&self, id: Id) -> Option<Vec<u8>> {
        if id == ROOT {
            return Some(b"/".to_vec());
        }
        let mut seen = std::collections::BTreeSet::from([ROOT]);
        let mut queue = std::collections::VecDeque::from([(ROOT, Vec::new())]);
        while let Some((at, path)) = queue.pop_front() {
            for (name, link) in self.group(at).map(|g| &g.links).into_iter().flatten() {
                if let Target::Hard(child) = link.target {
                    let mut to = path.clone();
                    to.push(b'/');
                    to.extend_from_slice(name);
                    if child == id {
                        return Some(to);
                    }
                    if self.group(child).is_some() && seen.insert(child) {
                        queue.push_back((child, to));
                    }
                }
            }
        }
        None
    }

    /// The target of a path, following hard links only.
    pub fn plain(&self, path: &[u8]) -> Option<Id> {
        let mut at = ROOT;
        for name in path.split(|b| *b == b'/').filter(|n| !n.is_empty() && *n != b".") {
            match self.group(at)?.links.get(name)?.target {
                Target::Hard(id) => at = id,
                _ => return None,
            }
        }
        Some(at)
    }
}
