//! See docs/format/.
