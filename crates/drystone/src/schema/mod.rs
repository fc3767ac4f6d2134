//! Variables in the schema: element types, members, declared texts, and suggestions for misspelt names.

pub(crate) mod column;
pub(crate) mod declared;
pub(crate) mod derived;
pub(crate) mod element_type;
pub(crate) mod grid;
pub(crate) mod member;
pub(crate) mod near_miss;
pub(crate) mod times;
pub(crate) mod units;
