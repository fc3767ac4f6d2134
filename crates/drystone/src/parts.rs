//! What programs need of the crates below: the items that appear in the engine's own signatures, by the crate's name.
//!
//! A face names nothing else of those crates through the engine, so the rest can change. `tools/public_items.py` lists
//! what is public; an item is added here when a face needs it.

/// Addresses and sessions of servers, for regions.
#[cfg(feature = "object")]
pub mod client {
    pub use drystone_client::{InvalidAddress, Level, Options, Piece, Refused, Region, Session, Status};
}

/// Declared memory layouts: texts in the dataset language and what they mean.
pub mod dataset {
    pub use drystone_dataset::{
        ArrayType, Diagnostic, Diagnostics, Field, Fragment, Leaf, MAX_TEXT, Order, Prim, Program,
        StructType, Type, check, format,
    };
}

/// Element types, attributes and schemas.
pub mod format {
    pub use drystone_format::MAX_NDIM;

    /// Element types.
    pub mod dtype {
        pub use drystone_format::dtype::{DType, Member, Record, Scalar, limit};
    }

    /// What integers stand for.
    pub mod meaning {
        pub use drystone_format::meaning::{Meaning, Scale, Unit, described};
    }

    /// Instants and durations as texts.
    pub mod instant {
        pub use drystone_format::instant::{NAT, duration_text, text};
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

/// Byte files: the handle on them, and what a mount tells and asks.
pub mod file_store {
    pub use drystone_file_store::{Failure, Files, Handle, Result, Stat, Usage};

    /// What files are.
    pub mod files {
        pub use drystone_file_store::files::{Body, Owner, ROOT, Refused, SetAttrs, TimeChange};
    }
}

/// Selections and plans.
pub mod plan {
    /// Cells that are no strided box.
    pub mod listing {
        pub use drystone_plan::listing::{Leg, Listing};
    }

    /// Cells that are a strided box, and NumPy's rules for them.
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

    /// Numbers of things in texts.
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

/// Conversions between memory layouts.
pub mod rules {
    pub use drystone_rules::{
        Axis, Block, Dtype, IndexMap, Member, MemoryLayout, Narrowing, Order, Rule, RuleError, Step, View,
        extend_past_caches,
    };
}

/// Stores: the trait that a transport provides, and those that come with the engine.
pub mod store {
    pub use drystone_store::{
        Arrivals, Completer, Far, Features, ListEntry, LocalFiles, LocalStore, MapPolicy, Mapped,
        MemoryStore, Pending, PutMode, Reply, Request, Result, Store, StoreError, StoreExt, Upload,
        WholeFile, preallocate,
    };
}

/// Chains of codecs.
pub mod transform {
    pub use drystone_transform::{Chain, MAX_DECODED_LEN, Precision, Scratch, TransformError, readable};
}
