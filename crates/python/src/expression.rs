//! Expressions: trees built from texts or from Python operators.

use std::collections::BTreeMap;

use drystone_expression::{Answer, Builder, Error, Name, Tree, Type, parse_with_words};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyString};

use crate::error::{Failure, Result, invalid, unsupported};

fn refused(error: &Error) -> Failure {
    invalid(error.to_string())
}

/// An immutable tree.
#[pyclass(frozen, eq, hash, name = "ExpressionHandle", module = "drystone._core")]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct ExpressionHandle {
    pub(crate) tree: Tree,
}

/// A name for Python: path, members, offsets.
type NameParts = (String, Vec<String>, Vec<(String, i16)>);

#[pymethods]
impl ExpressionHandle {
    /// Parses a text. `groups` are the paths of groups, after which `/` descends.
    #[staticmethod]
    fn parse(text: &str, groups: Vec<String>) -> Result<Self> {
        let parsed = parse_with_words(text, |path| groups.iter().any(|group| group == path));
        let tree = parsed.map_err(|error| invalid(error.render(text)))?;
        Ok(ExpressionHandle { tree })
    }

    #[staticmethod]
    fn decode(data: &[u8]) -> Result<Self> {
        let tree = Tree::decode(data).map_err(|error| {
            if error.unsupported { unsupported(error.to_string()) } else { invalid(error.to_string()) }
        })?;
        Ok(ExpressionHandle { tree })
    }

    /// A variable or a member of it, at an offset.
    #[staticmethod]
    fn name(path: String, members: Vec<String>, offsets: Vec<(String, i64)>) -> Result<Self> {
        let mut builder = Builder::new();
        let root = Name::new(path)
            .and_then(|name| members.into_iter().try_fold(name, Name::member))
            .and_then(|name| name.neighbour(offsets))
            .and_then(|name| builder.name(name))
            .map_err(|error| refused(&error))?;
        Ok(ExpressionHandle { tree: builder.finish(root) })
    }

    #[staticmethod]
    fn constant(value: &Bound<'_, PyAny>) -> Result<Self> {
        let mut builder = Builder::new();
        // An integer is never converted to a float: beyond 64 bits it is refused.
        let root = if value.is_instance_of::<PyBool>() {
            builder.boolean(value.extract()?)
        } else if value.is_instance_of::<PyInt>() {
            let beyond = |_| invalid(format!("the constant {value} has more than 64 bits"));
            builder.integer(value.extract().map_err(beyond)?)
        } else if let Ok(text) = value.cast::<PyString>() {
            builder.text(&text.to_cow()?)
        } else {
            builder.float(value.cast::<PyFloat>()?.value())
        };
        let root = root.map_err(|error| refused(&error))?;
        Ok(ExpressionHandle { tree: builder.finish(root) })
    }

    /// Applies an operator, by its sign, or a function to operands.
    #[staticmethod]
    fn apply(name: &str, operands: Vec<PyRef<'_, ExpressionHandle>>) -> Result<Self> {
        let mut builder = Builder::new();
        let made = operands
            .iter()
            .map(|operand| builder.import(&operand.tree))
            .collect::<std::result::Result<Vec<_>, _>>()
            .and_then(|ids| builder.apply(name, &ids));
        let root = made.map_err(|error| refused(&error))?;
        Ok(ExpressionHandle { tree: builder.finish(root) })
    }

    fn encode<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.tree.encode())
    }

    #[getter]
    fn text(&self) -> String {
        self.tree.to_string()
    }

    /// The names in the expression: path, members, offsets.
    #[getter]
    fn names(&self) -> Vec<NameParts> {
        let parts = |name: &Name| {
            let offsets = name.offsets().iter().map(|o| (o.dim.clone(), o.by)).collect();
            (name.path().to_owned(), name.members().to_vec(), offsets)
        };
        self.tree.names().iter().map(parts).collect()
    }

    /// The type of the result. `types` maps each path (members after dots) to its type, or to the reason why it
    /// has none. Other names do not exist.
    fn dtype(&self, types: BTreeMap<String, String>) -> Result<&'static str> {
        let program = self.tree.check(|name| {
            let whole = [name.path()].into_iter().chain(name.members().iter().map(String::as_str));
            match types.get(&whole.collect::<Vec<_>>().join(".")) {
                Some(said) => match Type::from_name(said) {
                    Some(dtype) => Answer::Type(dtype),
                    None => Answer::Unfit(said.clone()),
                },
                None => Answer::Unknown(types.keys().cloned().collect()),
            }
        });
        Ok(program.map_err(|error| refused(&error))?.dtype().name())
    }
}
