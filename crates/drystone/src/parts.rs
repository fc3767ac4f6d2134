//! Items of lower crates that appear in the engine's own signatures, grouped by the crate's name.
//!
//! A face uses no other items of those crates through the engine, so the rest can change. `tools/public_items.py`
//! lists the public items; an item is added here when a face needs it.

/// Element types, attributes and schemas.
pub mod format {
    pub use drystone_format::{MAX_NDIM, crc32c};

    /// Element types.
    pub mod dtype {
        pub use drystone_format::dtype::{DType, Member, Record, Scalar};

        /// Limits of element types.
        pub mod limit {
            pub use drystone_format::dtype::limit::{ITEM_SIZE, LEAVES, NESTING};
        }
    }

    /// The meaning of integers.
    pub mod meaning {
        pub use drystone_format::meaning::{Meaning, Scale, Unit};
    }

    /// Values of attributes.
    pub mod value {
        pub use drystone_format::value::{TypedArray, Value};
    }

    /// Variables, groups and their names.
    pub mod schema {
        pub use drystone_format::schema::{Attrs, Name, Schema, Variable, check_path};
    }
}

/// Members of records by path.
pub mod member {
    pub use crate::schema::member::{FoundMember, member};
}

/// Selections and plans.
pub mod plan {
    /// Listings of cells that do not form a strided box.
    pub mod listing {
        pub use drystone_plan::listing::{Leg, Listing};
    }

    /// Strided boxes of cells, and NumPy's rules for them.
    pub mod selection {
        pub use drystone_plan::selection::{Axis, Index, IndexError, Selection, index};
    }

    /// The text of a selection.
    pub mod selection_text {
        pub use drystone_plan::selection_text::{Item, Mistake, parse, parse_items};
    }

    /// Byte ranges that a plan reads.
    pub mod coalesce {
        pub use drystone_plan::coalesce::Fetch;
    }

    /// Texts that count things.
    pub mod counted {
        pub use drystone_plan::counted::counted;
    }

    /// How blocks are cut, and what a device costs.
    pub mod layout {
        pub use drystone_plan::layout::{AtDepth, Profile};
    }

    /// The plan of a read, as `explain` shows it.
    pub mod read_plan {
        pub use drystone_plan::read_plan::{Choice, ReadPlan};
    }

    /// Pieces of a large selection.
    pub mod tiles {
        pub use drystone_plan::tiles::Tiles;
    }
}

/// The trait of stores. Transports are in separate crates.
pub mod store {
    pub use drystone_store::Store;
}
