//! A program whose ranks are threads of a test.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::sync::{Arc, Barrier, Mutex};

use drystone::Result;
use drystone::collective::Communicator;

/// Ranks that are threads.
struct Threads {
    size: usize,
    barrier: Barrier,
    slots: Mutex<Vec<(Vec<u8>, Vec<u64>)>>,
}

struct Rank {
    rank: usize,
    all: Arc<Threads>,
}

impl Rank {
    /// The bytes and sizes of all ranks.
    fn share(&self, bytes: &[u8], sizes: &[u64]) -> Vec<(Vec<u8>, Vec<u64>)> {
        self.all.slots.lock().unwrap()[self.rank] = (bytes.to_vec(), sizes.to_vec());
        self.all.barrier.wait();
        let all = self.all.slots.lock().unwrap().clone();
        self.all.barrier.wait();
        all
    }
}

impl Communicator for Rank {
    fn rank(&self) -> u32 {
        self.rank as u32
    }
    fn size(&self) -> u32 {
        self.all.size as u32
    }
    fn node(&self) -> u64 {
        0
    }
    fn all_gather(&self, send: &[u8], receive: &mut [u8]) -> Result<()> {
        let all: Vec<u8> = self.share(send, &[]).into_iter().flat_map(|(bytes, _)| bytes).collect();
        receive.copy_from_slice(&all);
        Ok(())
    }
    fn exchange(
        &self,
        send: &[u8],
        send_sizes: &[u64],
        receive: &mut [u8],
        receive_sizes: &[u64],
    ) -> Result<()> {
        let mut at = 0;
        for ((bytes, sizes), expected) in self.share(send, send_sizes).iter().zip(receive_sizes) {
            let from = sizes[..self.rank].iter().sum::<u64>() as usize;
            let len = sizes[self.rank] as usize;
            assert_eq!(len as u64, *expected);
            receive[at..at + len].copy_from_slice(&bytes[from..from + len]);
            at += len;
        }
        Ok(())
    }
}

/// Runs a program on this many ranks. Returns each rank's result.
pub(crate) fn program<T: Send>(size: usize, run: impl Fn(Arc<dyn Communicator>) -> T + Sync) -> Vec<T> {
    let slots = Mutex::new(vec![Default::default(); size]);
    let all = Arc::new(Threads { size, barrier: Barrier::new(size), slots });
    std::thread::scope(|scope| {
        let run = &run;
        let ranks: Vec<_> = (0..size)
            .map(|rank| {
                let rank = Rank { rank, all: all.clone() };
                scope.spawn(move || run(Arc::new(rank)))
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}
