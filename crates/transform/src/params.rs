//! The parameters of one codec, given by position or by name, each at most once.

use std::ops::RangeInclusive;

use crate::{Param, TransformError};

/// Parameters matched to a codec's parameter names.
pub(crate) struct Params<'a> {
    codec: &'static str,
    given: Vec<(&'static str, &'a Param)>,
}

impl<'a> Params<'a> {
    /// Matches `params` to `names`. Parameters without a name take the names in order.
    pub(crate) fn read(
        codec: &'static str,
        names: &'static [&'static str],
        params: &'a [Param],
    ) -> Result<Params<'a>, TransformError> {
        let takes = || if names.is_empty() { "nothing".into() } else { names.join(", ") };
        let bad = |problem: String| Err(TransformError::bad_parameter(codec, problem));
        let mut given: Vec<(&'static str, &'a Param)> = Vec::new();
        for (i, param) in params.iter().enumerate() {
            let (key, value) = param.key_and_value();
            let name = match key {
                Some(key) => names.iter().find(|name| **name == key),
                None => names.get(i),
            };
            let Some(name) = name else {
                return bad(format!("does not take {param}; it takes {}", takes()));
            };
            if given.iter().any(|(other, _)| other == name) {
                return bad(format!("{name} is given twice, the second time as {value}"));
            }
            given.push((name, value));
        }
        Ok(Params { codec, given })
    }

    fn get(&self, name: &str) -> Option<&'a Param> {
        self.given.iter().find(|(given, _)| *given == name).map(|(_, value)| *value)
    }

    /// A whole number within `range`, if given.
    pub(crate) fn int(&self, name: &str, range: RangeInclusive<i64>) -> Result<Option<i64>, TransformError> {
        let problem = match self.get(name) {
            None => return Ok(None),
            Some(Param::Int(value)) if range.contains(value) => return Ok(Some(*value)),
            Some(Param::Int(value)) => {
                format!("{name} {value} is out of range, allowed are {} to {}", range.start(), range.end())
            }
            Some(other) => {
                let (low, high) = (range.start(), range.end());
                format!("expected {name}, a whole number from {low} to {high}, found {other}")
            }
        };
        Err(TransformError::bad_parameter(self.codec, problem))
    }

    /// A number within `range`, if given.
    #[cfg(feature = "zfp")]
    pub(crate) fn number(
        &self,
        name: &str,
        range: RangeInclusive<f64>,
    ) -> Result<Option<f64>, TransformError> {
        let value = match self.get(name) {
            None => return Ok(None),
            Some(Param::Int(value)) => *value as f64,
            Some(Param::Float(value)) => *value,
            Some(other) => {
                let problem = format!("expected {name}, a number, found {other}");
                return Err(TransformError::bad_parameter(self.codec, problem));
            }
        };
        if range.contains(&value) {
            return Ok(Some(value));
        }
        let (low, high) = (range.start(), range.end());
        let problem = format!("{name} {value:?} is out of range, allowed are {low:?} to {high:?}");
        Err(TransformError::bad_parameter(self.codec, problem))
    }

    /// A text, if given.
    pub(crate) fn text(&self, name: &str) -> Result<Option<&'a str>, TransformError> {
        match self.get(name) {
            None => Ok(None),
            Some(Param::Text(text)) => Ok(Some(text)),
            Some(other) => {
                let problem = format!("expected {name}, a text in quotes, found {other}");
                Err(TransformError::bad_parameter(self.codec, problem))
            }
        }
    }

    /// One of `allowed`, if given.
    pub(crate) fn word(
        &self,
        name: &str,
        allowed: &[&'static str],
    ) -> Result<Option<&'static str>, TransformError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let known = match value {
            Param::Text(text) => allowed.iter().find(|word| text.eq_ignore_ascii_case(word)),
            _ => None,
        };
        match known {
            Some(word) => Ok(Some(word)),
            None => {
                let problem = format!("{name} is {value}, allowed are {}", allowed.join(", "));
                Err(TransformError::bad_parameter(self.codec, problem))
            }
        }
    }

    /// A whole number within `range`, or one of the words `allowed` as an `Err` value, if given.
    pub(crate) fn get_int_or_word(
        &self,
        name: &str,
        range: RangeInclusive<i64>,
        allowed: &[&'static str],
    ) -> Result<Option<Result<i64, &'static str>>, TransformError> {
        match self.get(name) {
            Some(Param::Int(_)) => Ok(self.int(name, range)?.map(Ok)),
            _ => Ok(self.word(name, allowed)?.map(Err)),
        }
    }

    /// The size of an element in bytes, if given.
    pub(crate) fn element_size(&self) -> Result<Option<usize>, TransformError> {
        Ok(self.int("elementsize", 1..=65_535)?.map(|size| size as usize))
    }
}

/// `key=value` with a whole number.
pub(crate) fn named_int(key: &str, value: i64) -> Param {
    Param::Named(key.into(), Box::new(Param::Int(value)))
}

/// `key=value` with any number.
#[cfg(feature = "zfp")]
pub(crate) fn named_number(key: &str, value: f64) -> Param {
    Param::Named(key.into(), Box::new(Param::Float(value)))
}

/// `key="value"`.
pub(crate) fn named_text(key: &str, value: &str) -> Param {
    Param::Named(key.into(), Box::new(Param::Text(value.into())))
}
