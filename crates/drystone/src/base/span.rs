//! Spans: single reads, puts, commits and background operations, reported to listeners when they end
//! (docs/guide/metrics.md).
//!
//! Invariants
//! - without listeners a span costs one atomic load: it reads no clock and allocates no memory;
//! - a listener is called by the thread that did the work, after the work; failed work is not reported. Locks of the
//!   engine may be held, so a listener must not use a container.
//!
//! With the feature `tracing` the same spans go to the subscriber of `tracing`, with the target `drystone`.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// The kind of operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// One plan of a read was executed.
    Read,
    /// A writer took a block.
    Put,
    /// A commit made something visible, such as a step or a change of the schema.
    Commit,
    /// A publication wrote shards, or found that all were up to date.
    Publish,
    /// A recovery settled the steps that dead runs left.
    Recover,
    /// A part of a log was drained from a tier to home.
    Drain,
    /// Ranges of a far store were fetched into the cache folder, as a caller requested.
    Warm,
}

impl SpanKind {
    /// The name of the kind in events and in `tracing`.
    pub fn name(self) -> &'static str {
        match self {
            SpanKind::Read => "read",
            SpanKind::Put => "put",
            SpanKind::Commit => "commit",
            SpanKind::Publish => "publish",
            SpanKind::Recover => "recover",
            SpanKind::Drain => "drain",
            SpanKind::Warm => "warm",
        }
    }
}

/// One operation that ended.
#[derive(Debug, Clone)]
pub struct Span<'a> {
    /// The kind of operation.
    pub kind: SpanKind,
    /// Path or URL of the container.
    pub container: &'a str,
    /// Path of the variable that was read or put, or key of the part that was drained; else empty.
    pub variable: &'a str,
    /// The duration from beginning to end.
    pub duration: Duration,
    /// The bytes and requests of the operation.
    pub values: Values,
}

/// The bytes and requests of an operation. A field without a meaning for the kind of span is 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Values {
    /// Bytes of the values that were requested or given.
    pub wanted_bytes: u64,
    /// Bytes that were fetched from the store, written into shards, or drained.
    pub bytes: u64,
    /// Requests to the store for these bytes.
    pub requests: u64,
    /// Round trips to a far store.
    pub rounds: u64,
    /// Blocks that a read met or a put wrote; shards that were published; steps that were adopted.
    pub blocks: u64,
}

type Listener = Arc<dyn Fn(&Span<'_>) + Send + Sync>;

static LISTENING: AtomicUsize = AtomicUsize::new(0);
static NEXT: AtomicU64 = AtomicU64::new(0);
static LISTENERS: RwLock<Vec<(u64, Listener)>> = RwLock::new(Vec::new());

/// A listener of spans. Dropping it ends the listening.
#[derive(Debug)]
pub struct Listening(u64);

/// Calls a function with each span of this process, until the listener is dropped.
pub fn listen(listener: impl Fn(&Span<'_>) + Send + Sync + 'static) -> Listening {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut listeners = LISTENERS.write().unwrap_or_else(PoisonError::into_inner);
    listeners.push((number, Arc::new(listener)));
    LISTENING.store(listeners.len(), Ordering::Relaxed);
    Listening(number)
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut listeners = LISTENERS.write().unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|(number, _)| *number != self.0);
        LISTENING.store(listeners.len(), Ordering::Relaxed);
    }
}

/// A span in progress.
pub(crate) struct Begun {
    at: Option<Instant>,
    #[cfg(feature = "tracing")]
    traced: tracing::span::EnteredSpan,
}

pub(crate) fn begin(kind: SpanKind) -> Begun {
    #[cfg(not(feature = "tracing"))]
    let _ = kind;
    Begun {
        at: (LISTENING.load(Ordering::Relaxed) > 0).then(Instant::now),
        #[cfg(feature = "tracing")]
        traced: traced::begin(kind),
    }
}

impl Begun {
    /// Ends the span and passes it to the listeners. `container` returns the name of the container; it is called only
    /// if there are listeners.
    pub(crate) fn end(self, kind: SpanKind, container: impl Fn() -> String, variable: &str, values: Values) {
        #[cfg(feature = "tracing")]
        traced::end(&self.traced, &container, variable, values);
        let Some(at) = self.at else { return };
        // Called without the lock, since a listener may drop itself.
        let listeners: Vec<Listener> = {
            let listeners = LISTENERS.read().unwrap_or_else(PoisonError::into_inner);
            listeners.iter().map(|(_, listener)| Arc::clone(listener)).collect()
        };
        let name = container();
        let span = Span { kind, container: &name, variable, duration: at.elapsed(), values };
        for listener in listeners {
            listener(&span);
        }
    }
}

#[cfg(feature = "tracing")]
mod traced {
    use tracing::field::Empty;
    use tracing::span::EnteredSpan;

    use super::{SpanKind, Values};

    macro_rules! made {
        ($name:literal) => {
            tracing::debug_span!(
                target: "drystone", $name, container = Empty, variable = Empty, wanted_bytes = Empty,
                bytes = Empty, requests = Empty, rounds = Empty, blocks = Empty
            )
        };
    }

    pub(super) fn begin(kind: SpanKind) -> EnteredSpan {
        match kind {
            SpanKind::Read => made!("read"),
            SpanKind::Put => made!("put"),
            SpanKind::Commit => made!("commit"),
            SpanKind::Publish => made!("publish"),
            SpanKind::Recover => made!("recover"),
            SpanKind::Drain => made!("drain"),
            SpanKind::Warm => made!("warm"),
        }
        .entered()
    }

    pub(super) fn end(span: &EnteredSpan, container: &dyn Fn() -> String, variable: &str, values: Values) {
        if span.is_disabled() {
            return;
        }
        span.record("container", container().as_str());
        span.record("variable", variable);
        span.record("wanted_bytes", values.wanted_bytes);
        span.record("bytes", values.bytes);
        span.record("requests", values.requests);
        span.record("rounds", values.rounds);
        span.record("blocks", values.blocks);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn listeners_receive_spans_that_end_while_they_listen() {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let tell = |variable: &str| {
            let values = Values { bytes: 7, ..Values::default() };
            begin(SpanKind::Put).end(SpanKind::Put, || "span.dry".into(), variable, values);
        };
        tell("before");
        let into = Arc::clone(&heard);
        let listening = listen(move |span| {
            if span.container == "span.dry" {
                into.lock().unwrap().push((span.kind, span.variable.to_owned(), span.values.bytes));
            }
        });
        tell("heard");
        drop(listening);
        tell("after");
        assert_eq!(*heard.lock().unwrap(), [(SpanKind::Put, "heard".to_owned(), 7)]);
    }

    #[test]
    fn failed_work_is_not_reported() {
        let heard = Arc::new(AtomicUsize::new(0));
        let into = Arc::clone(&heard);
        let listening = listen(move |span| {
            into.fetch_add(usize::from(span.container == "failed.dry"), Ordering::Relaxed);
        });
        drop(begin(SpanKind::Read));
        drop(listening);
        assert_eq!(heard.load(Ordering::Relaxed), 0);
    }

    #[cfg(feature = "tracing")]
    #[test]
    fn a_subscriber_of_tracing_sees_the_span_with_its_values() {
        use tracing::field::{Field, Visit};
        use tracing::span::{Attributes, Id, Record};
        use tracing::{Event, Metadata, Subscriber};

        #[derive(Default)]
        struct Seen(Mutex<Vec<String>>);
        struct Into<'a>(&'a Seen);
        impl Visit for Into<'_> {
            fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
                self.0.0.lock().unwrap().push(format!("{field}={value:?}"));
            }
        }
        impl Subscriber for Seen {
            fn enabled(&self, metadata: &Metadata<'_>) -> bool {
                metadata.target() == "drystone"
            }
            fn new_span(&self, span: &Attributes<'_>) -> Id {
                self.0.lock().unwrap().push(span.metadata().name().to_owned());
                Id::from_u64(1)
            }
            fn record(&self, _: &Id, values: &Record<'_>) {
                values.record(&mut Into(self));
            }
            fn record_follows_from(&self, _: &Id, _: &Id) {}
            fn event(&self, _: &Event<'_>) {}
            fn enter(&self, _: &Id) {}
            fn exit(&self, _: &Id) {}
        }

        let seen = Arc::new(Seen::default());
        tracing::subscriber::with_default(Arc::clone(&seen), || {
            let values = Values { bytes: 7, rounds: 1, ..Values::default() };
            begin(SpanKind::Read).end(SpanKind::Read, || "traced.dry".into(), "T", values);
        });
        let seen = seen.0.lock().unwrap();
        assert_eq!(seen[0], "read");
        for said in ["container=\"traced.dry\"", "variable=\"T\"", "bytes=7", "rounds=1", "blocks=0"] {
            assert!(seen.iter().any(|one| one == said), "{said} in {seen:?}");
        }
    }
}
