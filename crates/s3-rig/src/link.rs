//! Bandwidth shared by all connections: each direction is one queue of bytes.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// One direction of the link.
#[derive(Debug)]
pub(crate) struct Link {
    free: Mutex<Instant>,
}

impl Link {
    pub(crate) fn new() -> Self {
        Link { free: Mutex::new(Instant::now()) }
    }

    /// Waits until `len` bytes have passed.
    pub(crate) async fn pass(&self, len: usize, bytes_per_second: Option<f64>) {
        let Some(rate) = bytes_per_second else { return };
        let until = {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            *free = (*free).max(Instant::now()) + Duration::from_secs_f64(len as f64 / rate);
            *free
        };
        tokio::time::sleep_until(until.into()).await;
    }
}

/// A limit of requests per second: a token bucket that holds those of a tenth of a second.
#[derive(Debug)]
pub(crate) struct Limit {
    level: Mutex<(f64, Instant)>,
}

impl Limit {
    pub(crate) fn new() -> Self {
        Limit { level: Mutex::new((0.0, Instant::now())) }
    }

    /// Whether one more request is within the limit.
    pub(crate) fn admits(&self, per_second: Option<f64>) -> bool {
        let Some(rate) = per_second else { return true };
        let mut level = self.level.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let room = (level.0 + now.duration_since(level.1).as_secs_f64() * rate).min((rate / 10.0).max(1.0));
        let admitted = room >= 1.0;
        *level = (if admitted { room - 1.0 } else { room }, now);
        admitted
    }
}
