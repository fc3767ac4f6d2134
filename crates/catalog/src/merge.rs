//! Which pages are merged: a pure decision.
//!
//! Eight small pages of about the same size are merged, so a container is rewritten once per factor of eight. A page is
//! also rewritten if a quarter of it is hidden.

use crate::manifest::PageRef;

/// Most pages of one size class.
const ALIKE: usize = 8;
/// A page with more containers is not merged.
const LARGE: u32 = 1 << 16;

fn class(page: &PageRef) -> u32 {
    (page.live().max(1)).ilog2() / 3
}

/// The indices of the pages to merge; empty if there is no need.
pub(crate) fn plan(pages: &[PageRef]) -> Vec<usize> {
    let empty = |page: &PageRef| page.live() == 0;
    for size in 0..=LARGE.ilog2() / 3 {
        let alike = pages.iter().filter(|page| class(page) == size && page.live() <= LARGE);
        if alike.count() >= ALIKE {
            let smaller = |page: &PageRef| class(page) <= size && page.live() <= LARGE;
            return (0..pages.len()).filter(|&n| pages.get(n).is_some_and(smaller)).collect();
        }
    }
    let wasteful = |page: &PageRef| page.hidden.len() as u32 > page.containers / 4 + 8 || empty(page);
    (0..pages.len()).filter(|&n| pages.get(n).is_some_and(wasteful)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(containers: u32, hidden: u32) -> PageRef {
        PageRef { id: [0; 16], containers, len: 0, directory: 0, crc: 0, hidden: (0..hidden).collect() }
    }

    #[test]
    fn eight_small_pages_become_one_and_the_large_one_stays() {
        let mut pages = vec![page(10_000, 0)];
        pages.extend((0..7).map(|_| page(1, 0)));
        assert!(plan(&pages).is_empty());
        pages.push(page(2, 0));
        assert_eq!(plan(&pages), (1..9).collect::<Vec<_>>());
    }

    #[test]
    fn a_page_of_which_much_is_hidden_is_written_again() {
        assert_eq!(plan(&[page(100, 40), page(100, 10)]), [0]);
    }
}
