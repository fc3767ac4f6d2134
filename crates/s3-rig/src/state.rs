//! The state that all requests share: the objects, the script, the links and the counters.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Config;
use crate::bucket::Objects;
use crate::counts::Tally;
use crate::link::{Limit, Link};
use crate::script::Script;

#[derive(Debug)]
pub(crate) struct State {
    config: Mutex<Config>,
    objects: Mutex<Objects>,
    script: Mutex<Script>,
    pub(crate) tally: Tally,
    pub(crate) inward: Link,
    pub(crate) outward: Link,
    pub(crate) limit: Limit,
    pub(crate) requests: AtomicU64,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    pub(crate) fn new(config: Config) -> Self {
        let mut objects = Objects::default();
        for bucket in &config.buckets {
            objects.buckets.insert(bucket.clone(), BTreeMap::new());
        }
        State {
            config: Mutex::new(config),
            objects: Mutex::new(objects),
            script: Mutex::default(),
            tally: Tally::default(),
            inward: Link::new(),
            outward: Link::new(),
            limit: Limit::new(),
            requests: AtomicU64::new(0),
        }
    }

    pub(crate) fn config(&self) -> MutexGuard<'_, Config> {
        locked(&self.config)
    }

    pub(crate) fn objects(&self) -> MutexGuard<'_, Objects> {
        locked(&self.objects)
    }

    pub(crate) fn script(&self) -> MutexGuard<'_, Script> {
        locked(&self.script)
    }

    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }
}
