//! Definitions of derived variables (docs/format/manifest.md, "Derived variables").
//!
//! The tree is encoded as docs/format/expression.md specifies; this crate does not interpret it.

use crate::Corrupt;
use crate::cbor::{Sink, Source};

/// Most bytes of the text and of the tree of a definition, each.
pub const MAX_DEFINITION: usize = 256 << 10;

/// Most inputs of one definition.
pub const MAX_INPUTS: usize = 4096;

/// What a container stores for a derived variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Only the definition.
    Virtual,
    /// The definition, and statistics of its values.
    Bounds,
    /// The definition and its values.
    Stored,
}

impl Kind {
    /// Every kind, in the order of their codes.
    pub const ALL: [Kind; 3] = [Kind::Virtual, Kind::Bounds, Kind::Stored];

    /// Its name in texts.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Virtual => "virtual",
            Kind::Bounds => "bounds",
            Kind::Stored => "stored",
        }
    }

    /// The kind with this name.
    pub fn from_name(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// How an expression treats neighbours beyond the edge of the domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Edge {
    /// Differences are one-sided; a neighbour beyond the edge is the cell at the edge.
    OneSided,
    /// A neighbour is the fill value of its input.
    Fill,
    /// A neighbour is the cell at the opposite edge.
    Periodic,
    /// There is none: a value that needs it is NaN.
    Nan,
}

impl Edge {
    /// Every rule, in the order of the codes.
    pub const ALL: [Edge; 4] = [Edge::OneSided, Edge::Fill, Edge::Periodic, Edge::Nan];
}

/// A name in the tree, and the variable that it refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// The path in the tree.
    pub name: String,
    /// The permanent id of the variable, which may have another path by now.
    pub variable: u32,
}

/// How a variable is computed from others.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Derived {
    pub kind: Kind,
    pub edge: Edge,
    /// The definition as its author wrote it.
    pub text: String,
    /// The encoded expression that is computed.
    pub tree: Vec<u8>,
    /// The names that are variables, each once, ascending. Other names in the tree are dimensions or the step.
    pub inputs: Vec<Input>,
}

impl Derived {
    /// Checks the limits, and that no definition depends on the variable `own`: inputs are older than the variables
    /// derived from them.
    pub fn validate(&self, own: u32) -> Result<(), String> {
        for (what, bytes) in [("text", self.text.len()), ("tree", self.tree.len())] {
            if bytes > MAX_DEFINITION {
                return Err(format!(
                    "a definition with a {what} of {bytes} bytes; {MAX_DEFINITION} are possible"
                ));
            }
        }
        if self.inputs.is_empty() || self.inputs.len() > MAX_INPUTS {
            return Err(format!(
                "a definition of {} inputs; 1 to {MAX_INPUTS} are possible",
                self.inputs.len()
            ));
        }
        if let Some(pair) = self.inputs.windows(2).find(|pair| pair[0].name >= pair[1].name) {
            return Err(format!("the input {:?} of a definition is not in ascending order", pair[1].name));
        }
        match self.inputs.iter().find(|input| input.variable >= own) {
            Some(input) => Err(format!(
                "it is derived from {:?}, variable {}, which is no older",
                input.name, input.variable
            )),
            None => Ok(()),
        }
    }

    pub(crate) fn write(&self, out: &mut Sink) {
        out.map(5).u64(0).u64(self.kind as u64).u64(1).u64(self.edge as u64);
        out.u64(2).text(&self.text).u64(3).bytes(&self.tree).u64(4).array(self.inputs.len());
        for input in &self.inputs {
            out.array(2).text(&input.name).u64(input.variable.into());
        }
    }

    pub(crate) fn read(source: &mut Source<'_>) -> Result<Self, Corrupt> {
        let (mut kind, mut edge, mut text, mut tree, mut inputs) = (None, None, None, None, None);
        source.fields(|source, key| {
            match key {
                0 => kind = Some(one_of(source, &Kind::ALL, "kind of definition")?),
                1 => edge = Some(one_of(source, &Edge::ALL, "edge rule")?),
                2 => text = Some(source.text()?.to_owned()),
                3 => tree = Some(source.bytes()?.to_vec()),
                4 => {
                    inputs = Some(source.list(|source| {
                        source.tuple(2)?;
                        Ok(Input { name: source.text()?.to_owned(), variable: source.u32()? })
                    })?)
                }
                // An unknown field may change the values, so it is refused.
                _ => return Err(source.corrupt(format!("unknown key {key} of a definition"))),
            }
            Ok(true)
        })?;
        Ok(Derived {
            kind: source.need(kind, "kind of a definition")?,
            edge: source.need(edge, "edge rule of a definition")?,
            text: source.need(text, "text of a definition")?,
            tree: source.need(tree, "tree of a definition")?,
            inputs: source.need(inputs, "inputs of a definition")?,
        })
    }
}

fn one_of<T: Copy>(source: &mut Source<'_>, all: &[T], what: &str) -> Result<T, Corrupt> {
    let code = source.u64()?;
    let found = usize::try_from(code).ok().and_then(|code| all.get(code)).copied();
    found.ok_or_else(|| source.corrupt(format!("unknown {what} {code}")))
}
