//! The text of an order, such as `V:16,S:32,P:2.1.1.4`: its levels, slowest first.

use crate::TransformError;

/// Default number of bins, and default edge of a box in space.
const BINS: u32 = 16;
const EDGE: u64 = 32;
pub(super) const MAX_BINS: u32 = 256;
const MAX_COMPONENTS: usize = 8;

/// A sort criterion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// Bins of values.
    Value,
    /// Boxes along a Hilbert curve.
    Space,
    /// Components, those with the leading bytes first.
    Precision,
}

impl Level {
    pub(super) fn code(self) -> u8 {
        self as u8 + 1
    }

    pub(super) fn from_code(code: u8) -> Option<Level> {
        [Level::Value, Level::Space, Level::Precision].get(usize::from(code).checked_sub(1)?).copied()
    }
}

/// All three levels, slowest first. A level that was not requested has a single member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) levels: [Level; 3],
    pub(super) bins: u32,
    /// Edge of a box; `None` means one box.
    pub(super) edge: Option<u64>,
    /// Bytes of each component, most significant first; empty means one component.
    pub(super) components: Vec<usize>,
    text: String,
}

impl Order {
    pub(super) fn parse(text: &str) -> Result<Order, TransformError> {
        let bad = |problem: String| TransformError::bad_parameter("mloc", problem);
        let mut order = Order {
            levels: [Level::Value; 3],
            bins: 1,
            edge: None,
            components: Vec::new(),
            text: text.into(),
        };
        let mut levels = Vec::new();
        for piece in text.split(',').map(str::trim) {
            let (name, value) =
                piece.split_once(':').map_or((piece, None), |(name, value)| (name, Some(value.trim())));
            let number = |low: u64, high: u64, usual: u64| match value {
                None => Ok(usual),
                Some(value) => value.parse().ok().filter(|n| (low..=high).contains(n)).ok_or_else(|| {
                    bad(format!("{name} in the order is a number from {low} to {high}, found {value:?}"))
                }),
            };
            let level = match name.trim() {
                "V" | "v" => {
                    order.bins = number(1, MAX_BINS.into(), BINS.into())? as u32;
                    Level::Value
                }
                "S" | "s" => {
                    order.edge = Some(number(4, 1 << 20, EDGE)?);
                    Level::Space
                }
                "P" | "p" => {
                    let bytes = value.unwrap_or("2.1.1.4").split('.').map(|n| n.parse::<usize>().ok());
                    let bytes: Option<Vec<usize>> =
                        bytes.map(|n| n.filter(|n| (1..=8).contains(n))).collect();
                    order.components =
                        bytes.filter(|bytes| bytes.len() <= MAX_COMPONENTS).ok_or_else(|| {
                            bad(format!(
                                "P in the order is bytes of components, as P:2.1.1.4, found {piece:?}"
                            ))
                        })?;
                    Level::Precision
                }
                _ => {
                    return Err(bad(format!(
                        "expected V, S or P in the order, as \"V:16,S:32,P:2.1.1.4\", found {piece:?}"
                    )));
                }
            };
            if levels.contains(&level) {
                return Err(bad(format!("{name} is twice in the order")));
            }
            levels.push(level);
        }
        levels.extend(
            [Level::Value, Level::Space, Level::Precision].into_iter().filter(|l| !text_has(text, *l)),
        );
        order.levels = levels.try_into().map_err(|_| bad("an order has three levels at most".into()))?;
        Ok(order)
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Bytes of the components of scalars of `width` bytes.
    pub(super) fn cut(&self, width: usize) -> Vec<usize> {
        let mut left = width;
        let mut cut = Vec::new();
        for &bytes in self.components.iter().take(MAX_COMPONENTS - 1) {
            if left > 0 {
                cut.push(bytes.min(left));
                left -= bytes.min(left);
            }
        }
        cut.extend(Some(left).filter(|&left| left > 0));
        cut
    }
}

fn text_has(text: &str, level: Level) -> bool {
    let name = ["v", "s", "p"][level as usize];
    text.split(',')
        .any(|piece| piece.trim().split(':').next().is_some_and(|n| n.trim().eq_ignore_ascii_case(name)))
}
