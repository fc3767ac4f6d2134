//! The `transform=` argument: text, or a list of texts and Zarr codec objects.

use drystone_transform::{ConfigValue, ListItem, Transform};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString};

use crate::error::{Result, invalid};

/// The chain as text; empty if there is none.
pub(crate) fn parse(given: Option<&Bound<'_, PyAny>>) -> Result<String> {
    let Some(given) = given else { return Ok(String::new()) };
    if let Ok(text) = given.cast::<PyString>() {
        return Ok(text.to_cow()?.into());
    }
    let items = if given.is_instance_of::<PyDict>() {
        vec![item(given)?]
    } else {
        let parts = given.try_iter().map_err(|_| {
            invalid(
                "transform is a text such as \"shuffle,zstd:1\", or a list of texts and Zarr codec objects",
            )
        })?;
        parts.map(|part| item(&part?)).collect::<Result<_>>()?
    };
    let chain = Transform::parse_list(&items).map_err(|e| invalid(format!("transform: {e}")))?;
    Ok(if chain.is_identity() { String::new() } else { chain.canonical() })
}

fn item(given: &Bound<'_, PyAny>) -> Result<ListItem> {
    if let Ok(text) = given.cast::<PyString>() {
        return Ok(ListItem::Text(text.to_cow()?.into()));
    }
    let Ok(object) = given.cast::<PyDict>() else {
        return Err(invalid(format!(
            "transform: a codec is a text or {{\"name\": ..., \"configuration\": {{...}}}}, not {}",
            given.repr()?
        )));
    };
    let name =
        object.get_item("name")?.ok_or_else(|| invalid("transform: a codec object needs a \"name\""))?;
    let mut configuration = Vec::new();
    if let Some(members) = object.get_item("configuration")?.filter(|c| !c.is_none()) {
        for (key, value) in members.cast::<PyDict>()? {
            configuration.push((key.extract()?, config_value(&value)?));
        }
    }
    Ok(ListItem::Object { name: name.extract()?, configuration })
}

fn config_value(given: &Bound<'_, PyAny>) -> Result<ConfigValue> {
    Ok(if given.is_none() {
        ConfigValue::Null
    } else if let Ok(truth) = given.cast::<PyBool>() {
        ConfigValue::Bool(truth.is_true())
    } else if given.is_instance_of::<PyInt>() {
        ConfigValue::Int(given.extract()?)
    } else if let Ok(number) = given.cast::<PyFloat>() {
        ConfigValue::Float(number.value())
    } else if let Ok(text) = given.cast::<PyString>() {
        ConfigValue::Text(text.to_cow()?.into())
    } else {
        ConfigValue::Nested
    })
}
