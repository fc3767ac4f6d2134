//! Types and fragments as text for people.

use std::fmt::{Display, Formatter, Result};

use crate::fragment::{DatasetDim, Fragment, FragmentVar, Role};
use crate::types::{Order, Type};

/// The declaration of the type, without padding and alignment, which follow from the offsets.
impl Display for Type {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Type::Prim(prim) => write!(f, "{prim}"),
            Type::Array(array) => {
                write!(f, "{}{}", bracketed(&array.extents), array.element)?;
                if array.order == Order::Row { Ok(()) } else { write!(f, " {}", array.order) }
            }
            Type::Struct(structure) => {
                f.write_str(if structure.packed { "struct packed {" } else { "struct {" })?;
                for (n, field) in structure.fields.iter().enumerate() {
                    write!(f, "{} {} {}", if n > 0 { ";" } else { "" }, field.name, field.ty)?;
                }
                f.write_str(" }")
            }
        }
    }
}

/// One line for the fragment, and one for each variable: its offset, its shape, and what it shows.
impl Display for Fragment {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let params: Vec<String> = self.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
        write!(f, "{}({})", self.name, params.join(", "))?;
        match self.role {
            Role::View => {}
            Role::Default => f.write_str(" default")?,
            Role::Replica(k) => write!(f, " replica({k})")?,
        }
        write!(f, ": {} bytes, aligned to {}", self.size, self.align)?;
        self.vars.iter().try_for_each(|var| write!(f, "\n  {var}"))
    }
}

impl Display for FragmentVar {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}", self.name)?;
        if let Some(counter) = self.iteration {
            write!(f, "#{counter}")?;
        }
        write!(f, " at {}: {}{} {} =", self.offset, bracketed(&self.extents), self.element, self.order)?;
        for (n, field) in self.fields.iter().enumerate() {
            let dot = if field.path.is_empty() { "" } else { "." };
            write!(f, "{} {}{dot}{}", if n > 0 { "," } else { "" }, self.variable.name, field.path)?;
        }
        let maps: Vec<String> = self.dims.iter().map(|DatasetDim { map, .. }| map.to_string()).collect();
        if maps.is_empty() { Ok(()) } else { write!(f, " [{}]", maps.join(", ")) }
    }
}

fn bracketed(extents: &[u64]) -> String {
    let list: Vec<String> = extents.iter().map(u64::to_string).collect();
    if list.is_empty() { String::new() } else { format!("[{}]", list.join(", ")) }
}
