//! The contract of [`Store`], as a program.
//!
//! Every implementation calls [`check`] in its tests. `check` tests only what the trait guarantees, skips what
//! [`Features`](crate::Features) exclude, and panics with the guarantee that was violated.

mod changes;
mod concurrent;
mod reads;
mod submitted;

use crate::{PutMode, Store};

/// Checks every guarantee that one process can check. `make` returns an empty store each time.
///
/// # Panics
/// If a guarantee is violated; the message has the guarantee and what was found.
pub fn check(make: impl Fn() -> Box<dyn Store>) {
    let checks: [fn(&dyn Store); 27] = [
        reads::a_missing_object_is_not_found,
        reads::reads_are_exact,
        reads::reading_past_the_end_is_a_short_read,
        reads::empty_objects_and_empty_reads_work,
        reads::large_objects_come_back_whole,
        reads::what_is_read_is_shown_in_order_and_once,
        reads::one_range_comes_into_several_buffers,
        reads::listing_is_sorted_and_by_prefix,
        reads::keys_are_checked_by_every_method,
        changes::put_if_absent_leaves_what_is_there,
        changes::put_replaces_whole_objects,
        changes::an_object_is_put_after_what_it_names_or_not_at_all,
        changes::appends_go_to_the_end_and_nowhere_else,
        changes::preallocated_space_is_not_seen,
        changes::writes_inside_lengthen_by_zeros_and_change_nothing_else,
        changes::without_append_nothing_is_appended,
        changes::deleted_objects_are_gone_and_can_be_made_again,
        changes::sync_accepts_what_exists_only,
        changes::sweeping_touches_no_object,
        changes::exec_is_refused_where_it_is_not_offered,
        concurrent::of_racing_creators_exactly_one_wins,
        concurrent::a_replaced_object_is_never_seen_in_part,
        concurrent::what_is_below_the_length_can_be_read_while_it_grows,
        reads::local_files_are_the_same_objects,
        submitted::questions_can_be_submitted_too,
        submitted::requests_done_together_are_answered_in_order,
        submitted::submitted_requests_keep_their_order_and_return_their_buffers,
    ];
    for check in checks {
        let store = make();
        assert_eq!(
            store.list("").expect("an empty store can be listed"),
            [],
            "`make` must return an empty store"
        );
        check(&*store);
    }
}

/// Creates an object by the means that the store has; if it can append, with the bytes in several parts.
fn write(store: &dyn Store, key: &str, bytes: &[u8]) {
    if store.features().append {
        let (first, second) = bytes.split_at(bytes.len() / 3);
        store.append(key, 0, &[first, b"", second]).expect("a new object can be appended to at 0");
    } else {
        store.put(key, &[bytes], PutMode::IfAbsent, false).expect("a new object can be put");
    }
}

/// Bytes that differ from their neighbours, so that a shift is detected.
fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i as u8).wrapping_mul(31) ^ ((i >> 8) as u8).wrapping_mul(17) ^ seed).collect()
}

/// Asserts that the outcome is an error of this kind, with these fields; otherwise the guarantee is violated.
macro_rules! expect_error {
    ($outcome:expr, $kind:ident { $($field:tt)* } $(if $guard:expr)?, $promise:expr) => {{
        let outcome = $outcome;
        assert!(
            matches!(&outcome, Err($crate::StoreError::$kind { $($field)* }) $(if $guard)?),
            "{}: expected {}, got {:?}", $promise, stringify!($kind), outcome
        );
    }};
}
use expect_error;
