//! Texts in a condition: they become integers, since instants, durations and named values are integers in the
//! variable with which they are compared. Times may be used in no other way unless they are converted: as plain
//! integers, seconds would be compared with milliseconds, and `NaT` would be the least number.

use drystone_expression::{Binary, Name, Tree, Worded};
use drystone_format::instant::{NAT, Placed, parse, parse_duration};
use drystone_format::meaning::Meaning;
use drystone_format::schema::Schema;

use crate::schema::times::{meaning, refuse_bare_times};
use crate::{Error, Result};

/// The condition with integers in place of texts.
pub(super) fn without_words(schema: &Schema, condition: &Tree) -> Result<Tree> {
    if !condition.has_words() {
        refuse_bare_times(schema, condition)?;
        return Ok(condition.clone());
    }
    let of = |name: &Name, op, text: &str| match (meaning(schema, name).as_ref(), op) {
        (Some(Meaning::Names(names)), Binary::Eq | Binary::Ne) => {
            match names.iter().find(|(known, _)| known == text) {
                Some((_, value)) => Ok(Worded { op, value: *value, except: None }),
                None => {
                    let known: Vec<&str> = names.iter().take(20).map(|(name, _)| name.as_str()).collect();
                    Err(format!("no value is named {text:?}; there are: {}", known.join(", ")))
                }
            }
        }
        (Some(Meaning::Names(_)), _) => Err("names of values are equal or not: write `==` or `!=`".into()),
        (Some(Meaning::Instant(unit)), op) => match parse(text, *unit) {
            Some(placed) => Ok(compared(op, placed)),
            None => Err(format!(
                "{text:?} is not an instant of datetime64{unit}: write it as '2026-01-31' or '2026-01-31T12:30:00'"
            )),
        },
        (Some(Meaning::Duration(unit)), op) => match parse_duration(text, *unit) {
            Some(placed) => Ok(compared(op, placed)),
            None => {
                Err(format!("{text:?} is not a duration of timedelta64{unit}: write it as '90 s' or '1.5 h'"))
            }
        },
        (Some(Meaning::Members(_) | Meaning::Object | Meaning::Region) | None, _) => {
            Err(format!("`{name}` holds neither times nor named values, to which texts are compared"))
        }
    };
    let done = condition.with_words(of).map_err(|error| Error::invalid(error.to_string()))?;
    refuse_bare_times(schema, condition)?;
    Ok(done)
}

/// A comparison with an instant that may lie between two values. As in NumPy, "no time" satisfies only `!=`.
fn compared(op: Binary, placed: Placed) -> Worded {
    let floor = i128::from(placed.floor);
    let (op, value) = match (op, placed.exact) {
        (Binary::Gt, _) | (Binary::Le, _) | (_, true) => (op, floor),
        (Binary::Ge, false) => (Binary::Gt, floor),
        (Binary::Lt, false) => (Binary::Le, floor),
        // No value equals the instant, and all are unequal to it.
        (Binary::Eq, false) => (Binary::Lt, NAT.into()),
        (_, false) => (Binary::Ge, NAT.into()),
    };
    let below = matches!(op, Binary::Lt | Binary::Le);
    Worded { op, value, except: below.then_some(NAT.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_between_two_values_keeps_the_order() {
        let between = Placed { floor: 4, exact: false };
        for (op, holds) in [
            (Binary::Lt, [true, true, false]),
            (Binary::Le, [true, true, false]),
            (Binary::Gt, [false, false, true]),
            (Binary::Ge, [false, false, true]),
            (Binary::Eq, [false, false, false]),
            (Binary::Ne, [true, true, true]),
        ] {
            let worded = compared(op, between);
            let found = [3, 4, 5].map(|x: i128| match worded.op {
                Binary::Lt => x < worded.value,
                Binary::Le => x <= worded.value,
                Binary::Gt => x > worded.value,
                Binary::Ge => x >= worded.value,
                Binary::Eq => x == worded.value,
                _ => x != worded.value,
            });
            assert_eq!(found, holds, "{op:?}");
        }
    }

    #[test]
    fn values_without_a_time_are_before_nothing() {
        let exact = Placed { floor: 4, exact: true };
        assert_eq!(compared(Binary::Lt, exact).except, Some(NAT.into()));
        assert_eq!(compared(Binary::Gt, exact).except, None);
    }
}
