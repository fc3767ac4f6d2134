//! Clients, a network and storage targets, event by event.
//!
//! A target serves requests in the order of arrival: a seek, unless the request continues the one before, then its
//! bytes. A client keeps a fixed number of requests under way. Each request costs the client a fixed time before it
//! leaves, and its reply passes the client's link.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The costs of the simulated machine.
pub(crate) struct Machine {
    /// Bytes per second of a target.
    pub(crate) bandwidth: f64,
    /// Seconds of a seek.
    pub(crate) seek: f64,
    /// Seconds of a request besides its seek and its bytes.
    pub(crate) request: f64,
    /// Bytes per second of a client's link.
    pub(crate) link: f64,
    /// Requests that a client keeps under way.
    pub(crate) in_flight: usize,
    /// Bytes of a request, at most.
    pub(crate) rpc: u64,
}

/// One request: the target, and which bytes of which object.
#[derive(Clone, Copy)]
pub(crate) struct Rpc {
    pub(crate) target: u32,
    pub(crate) object: u64,
    pub(crate) at: u64,
    pub(crate) bytes: u64,
}

/// The result of a simulation.
pub(crate) struct Outcome {
    /// When the last client has all its bytes.
    pub(crate) seconds: f64,
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
}

/// Nanoseconds, so that events have one order.
type Time = u64;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Arrives,
    IsRead,
}

fn nanoseconds(seconds: f64) -> Time {
    (seconds * 1e9) as Time
}

/// Runs all clients from time 0 on; each does its requests in order.
pub(crate) fn simulate(machine: &Machine, targets: u64, clients: Vec<Vec<Rpc>>) -> Outcome {
    let mut free: Vec<Time> = vec![0; targets as usize];
    let mut last: Vec<(u64, u64)> = vec![(u64::MAX, 0); targets as usize];
    let mut link: Vec<Time> = vec![0; clients.len()];
    let mut next: Vec<usize> = vec![0; clients.len()];
    let mut events: BinaryHeap<Reverse<(Time, What, u32, u32)>> = BinaryHeap::new();
    let (mut end, mut requests, mut bytes) = (0, 0, 0);
    for (client, rpcs) in clients.iter().enumerate() {
        for n in 0..machine.in_flight.min(rpcs.len()) {
            let leaves = nanoseconds(machine.request * (n + 1) as f64);
            events.push(Reverse((leaves, What::Arrives, client as u32, n as u32)));
            next[client] = n + 1;
        }
    }
    while let Some(Reverse((now, what, client, number))) = events.pop() {
        let rpcs = &clients[client as usize];
        let rpc = rpcs[number as usize];
        match what {
            What::Arrives => {
                let target = rpc.target as usize;
                let seek = if last[target] == (rpc.object, rpc.at) { 0.0 } else { machine.seek };
                let done = now.max(free[target]) + nanoseconds(seek + rpc.bytes as f64 / machine.bandwidth);
                (free[target], last[target]) = (done, (rpc.object, rpc.at + rpc.bytes));
                (requests, bytes) = (requests + 1, bytes + rpc.bytes);
                events.push(Reverse((done, What::IsRead, client, number)));
            }
            What::IsRead => {
                let client = client as usize;
                link[client] = link[client].max(now) + nanoseconds(rpc.bytes as f64 / machine.link);
                end = end.max(link[client]);
                if next[client] < rpcs.len() {
                    let leaves = link[client] + nanoseconds(machine.request);
                    events.push(Reverse((leaves, What::Arrives, client as u32, next[client] as u32)));
                    next[client] += 1;
                }
            }
        }
    }
    Outcome { seconds: end as f64 / 1e9, requests, bytes }
}
