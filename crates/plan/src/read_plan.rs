//! read_plan
