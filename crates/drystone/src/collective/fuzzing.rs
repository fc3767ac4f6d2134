//! Messages of other ranks as a broken communicator might deliver them: the body of a fuzz target.

use drystone_plan::joint_read::{JointRead, Overlap};

use super::{meeting, reader, staged};

/// Decodes bytes as messages of another rank: words of a meeting, blocks, wishes.
pub(crate) fn fuzz_sent(data: &[u8]) {
    let _ = meeting::decode(data);
    let _ = staged::Staged::receive(data);
    let Some((ndim, rest)) = data.split_first() else { return };
    let ndim = usize::from(ndim % 11);
    let wishes: Vec<_> =
        rest.chunks(reader::WISH).filter_map(|bytes| reader::decode_wish(bytes, ndim)).collect();
    let nodes: Vec<u64> = (0..wishes.len() as u64).map(|rank| rank / 3).collect();
    for readers in [None, Some(2)] {
        let Some(plan) = JointRead::new(&wishes, &nodes, 8, readers) else { continue };
        // The boxes must be disjoint: no cell is served twice.
        for wish in &wishes {
            let parts = plan.rounds.iter().flatten().flatten().filter_map(|cube| Overlap::of(wish, cube));
            assert_eq!(Some(parts.map(|part| part.cells()).sum()), wish.cells());
        }
    }
}
