//! The order of the tree, of leaves, and of age.

use std::cmp::Ordering;

use drystone_format::MAX_NDIM;
use drystone_format::branch::{Branch, Child, PageRef};
use drystone_format::entry::{Entry, key_cmp, leaf_cmp, newest_cmp, z_cmp};
use proptest::prelude::*;

fn offset(dims: &[u64]) -> [u64; MAX_NDIM] {
    std::array::from_fn(|d| dims.get(d).copied().unwrap_or(0))
}

/// The interleaved bits, highest first: the definition of the order that `z_cmp` computes faster.
fn interleaved(offset: &[u64; MAX_NDIM]) -> Vec<bool> {
    (0..64).rev().flat_map(|bit| offset.iter().map(move |v| v >> bit & 1 == 1)).collect()
}

proptest! {
    #[test]
    fn z_order_is_the_order_of_interleaved_bits(a in any::<[u64; MAX_NDIM]>(), b in any::<[u64; MAX_NDIM]>(), s in 0u32..64) {
        let (a, b) = (a.map(|v| v >> s), b.map(|v| v >> s));
        prop_assert_eq!(z_cmp(&a, &b), interleaved(&a).cmp(&interleaved(&b)));
        prop_assert_eq!(z_cmp(&a, &a), Ordering::Equal);
    }
}

#[test]
fn the_lowest_dimension_decides_between_equal_bits() {
    assert_eq!(z_cmp(&offset(&[1, 2]), &offset(&[2, 1])), Ordering::Less);
    assert_eq!(z_cmp(&offset(&[0, 3]), &offset(&[1, 2])), Ordering::Less);
    assert_eq!(z_cmp(&offset(&[0, 4]), &offset(&[3, 0])), Ordering::Greater);
}

#[test]
fn keys_order_by_column_then_place_then_age() {
    let e = |step, variable, member, at, commit, order, put| Entry {
        step,
        variable,
        member,
        offset: offset(at),
        commit,
        order,
        put,
        ..Entry::default()
    };
    let ascending = [
        e(0, 9, 0, &[7, 7], 9, 9, 9),
        e(1, 0, 0, &[0, 3], 1, 0, 0),
        e(1, 0, 0, &[1, 2], 1, 0, 0),
        e(1, 0, 0, &[1, 2], 1, 0, 1),
        e(1, 0, 0, &[1, 2], 1, 2, 0),
        e(1, 0, 0, &[1, 2], 3, 0, 0),
        e(1, 0, 1, &[0, 0], 0, 0, 0),
        e(1, 1, 0, &[0, 0], 0, 0, 0),
    ];
    assert!(ascending.is_sorted_by(|a, b| key_cmp(a, b).is_lt()));
    assert!(ascending.is_sorted_by(|a, b| leaf_cmp(a, b).is_lt()));
    assert_eq!(newest_cmp(&ascending[4], &ascending[5]), Ordering::Less);
    let (a, b) = (e(1, 0, 0, &[0, 4], 0, 0, 0), e(1, 0, 0, &[3, 0], 0, 0, 0));
    assert_eq!((key_cmp(&a, &b), leaf_cmp(&a, &b)), (Ordering::Greater, Ordering::Less));
}

#[test]
fn a_branch_whose_children_are_out_of_order_is_refused() {
    let at = |step| Child::of_entries(&[Entry { step, ..Entry::default() }], PageRef::default());
    let branch = |steps: [u64; 2]| Branch { height: 1, children: steps.map(at).to_vec() }.encode();
    assert!(Branch::decode(&branch([1, 2])).is_ok());
    assert!(Branch::decode(&branch([2, 1])).is_err());
}
