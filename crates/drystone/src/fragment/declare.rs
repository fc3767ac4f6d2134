//! Declares fragments: a text in the dataset language creates variables, and is stored beside them.

use std::collections::BTreeMap;

use drystone_dataset::{Diagnostics, Fill, Prim, Type, Variable};
use drystone_format::schema::Declaration;

use crate::schema::column;
use crate::{Container, Error, NewVariable, Result, SchemaOp};

impl Container {
    /// Declares a text in the dataset language: creates the variables of its datasets and stores the text for
    /// [`fragment`](Self::fragment), in one commit. `values` are those of its parameters; parameters of datasets must
    /// have a value or a default. Returns the variables' names.
    ///
    /// Declaring the same text with the same values again changes nothing. Errors: `InvalidArgument` with the
    /// positions of all mistakes in the text; `Conflict` if a variable exists and differs, or if another text
    /// declares a fragment of the same name.
    pub fn declare(&self, text: &str, values: &[(&str, i64)]) -> Result<Vec<String>> {
        let explain = |diagnostics: &Diagnostics| invalid(diagnostics, text);
        let program = drystone_dataset::check(text).map_err(|d| explain(&d))?;
        let mut ops = Vec::new();
        let mut names = Vec::new();
        for name in program.variable_names() {
            let variable = program.variable(name, values).map_err(|d| explain(&d))?;
            ops.push(SchemaOp::CreateVariable(name.to_string(), Box::new(new_variable(&variable)?)));
            names.push(name.to_string());
        }
        // A wrong value is reported even if there are no variables.
        program.constants(values).map_err(|d| explain(&d))?;
        let values: BTreeMap<String, i64> = values.iter().map(|(n, v)| (n.to_string(), *v)).collect();
        ops.push(SchemaOp::Declare(Declaration { text: text.to_string(), values }));
        self.apply(ops)?;
        Ok(names)
    }
}

/// Joins the errors of a text into one error.
pub(crate) fn invalid(diagnostics: &Diagnostics, text: &str) -> Error {
    Error::invalid(format!(
        "the declaration has errors:\n{}",
        diagnostics.render("text", text, false).trim_end()
    ))
}

fn new_variable(variable: &Variable) -> Result<NewVariable> {
    let (_, lead) = column::strip(&variable.ty);
    let mut dims: Vec<String> = variable.dims.iter().flatten().map(|name| name.to_string()).collect();
    if !dims.is_empty() {
        dims.extend((0..lead.len()).map(|n| format!("{}_{n}", variable.name)));
    }
    let dtype =
        column::dtype(&variable.ty).map_err(|e| e.while_doing(format!("declaring \"{}\"", variable.name)))?;
    Ok(NewVariable {
        fill: variable.fill.as_ref().and_then(|fill| fill_bytes(fill, &variable.ty)),
        dtype,
        shape: variable.extents.iter().copied().chain(lead.into_iter().map(Some)).collect(),
        dims,
        steps: variable.steps,
        local: false,
        transform: variable.transform.as_deref().unwrap_or_default().to_string(),
        chunks: None,
        attrs: BTreeMap::new(),
        access: variable.access.as_deref().unwrap_or_default().to_string(),
        meaning: None,
    })
}

/// A fill value as the bytes of one element. The checker has verified that it is a value of the type.
fn fill_bytes(fill: &Fill, ty: &Type) -> Option<Vec<u8>> {
    let Type::Prim(prim) = column::strip(ty).0 else { return None };
    let real = match *fill {
        Fill::Int(n) => n as f64,
        Fill::Float(v) => v,
        Fill::Bool(b) => f64::from(u8::from(b)),
        Fill::Bytes(ref bytes) => return Some(bytes.clone()),
    };
    Some(match (prim, fill) {
        (Prim::Float16, _) => half::f16::from_f64(real).to_le_bytes().to_vec(),
        (Prim::Bfloat16, _) => half::bf16::from_f64(real).to_le_bytes().to_vec(),
        (Prim::Float32, _) => (real as f32).to_le_bytes().to_vec(),
        (Prim::Float64, _) => real.to_le_bytes().to_vec(),
        (Prim::Complex64, _) => [(real as f32).to_le_bytes(), [0; 4]].concat(),
        (Prim::Complex128, _) => [real.to_le_bytes(), [0; 8]].concat(),
        (_, Fill::Int(n)) => n.to_le_bytes().get(..prim.size() as usize)?.to_vec(),
        (_, Fill::Bool(b)) => vec![u8::from(*b)],
        _ => return None,
    })
}
