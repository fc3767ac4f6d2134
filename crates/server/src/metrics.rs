//! Counters of the server, and the requests under way with their ages, in the format of Prometheus.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Upper ends of the classes of durations, in seconds.
const CLASSES: [f64; 8] = [0.0005, 0.002, 0.01, 0.05, 0.2, 1.0, 5.0, 30.0];
/// A request is listed from this age on.
const LONG: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct Metrics {
    /// Number of requests, by route and status.
    requests: Mutex<BTreeMap<(&'static str, u16), u64>>,
    durations: Mutex<BTreeMap<&'static str, ([u64; CLASSES.len() + 1], f64)>>,
    under_way: Mutex<HashMap<u64, UnderWay>>,
    next: AtomicU64,
    pub(crate) bytes_in: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
    pub(crate) programs: AtomicU64,
    pub(crate) refused_programs: AtomicU64,
    pub(crate) connections: AtomicU64,
    pub(crate) refused_connections: AtomicU64,
}

struct UnderWay {
    route: &'static str,
    container: String,
    client: String,
    since: Instant,
}

/// A request under way. It ends when this value is dropped.
pub(crate) struct Started {
    metrics: Arc<Metrics>,
    number: u64,
    route: &'static str,
    since: Instant,
    pub(crate) status: u16,
}

impl Metrics {
    pub(crate) fn start(self: &Arc<Self>, route: &'static str, container: &str, client: &str) -> Started {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let since = Instant::now();
        let entry = UnderWay { route, container: container.to_owned(), client: client.to_owned(), since };
        lock(&self.under_way).insert(number, entry);
        Started { metrics: Arc::clone(self), number, route, since, status: 0 }
    }

    /// Number of requests under way.
    pub(crate) fn under_way(&self) -> usize {
        lock(&self.under_way).len()
    }

    /// The page for Prometheus. `gauges` are the name, the help text and the value of further gauges.
    pub(crate) fn page(&self, gauges: &[(&str, &str, u64)]) -> String {
        let mut out = String::new();
        let head = |out: &mut String, name: &str, kind: &str, help: &str| {
            let _ = writeln!(out, "# HELP drystone_{name} {help}\n# TYPE drystone_{name} {kind}");
        };
        head(&mut out, "requests_total", "counter", "Requests that have ended, by route and HTTP status.");
        for ((route, status), count) in lock(&self.requests).iter() {
            let _ = writeln!(out, "drystone_requests_total{{route=\"{route}\",status=\"{status}\"}} {count}");
        }
        head(&mut out, "request_seconds", "histogram", "Time from a request to the end of its reply.");
        for (route, (classes, sum)) in lock(&self.durations).iter() {
            let mut count = 0;
            for (n, class) in classes.iter().enumerate() {
                count += class;
                let end = CLASSES.get(n).map_or("+Inf".to_owned(), f64::to_string);
                let _ = writeln!(
                    out,
                    "drystone_request_seconds_bucket{{route=\"{route}\",le=\"{end}\"}} {count}"
                );
            }
            let _ = writeln!(out, "drystone_request_seconds_sum{{route=\"{route}\"}} {sum}");
            let _ = writeln!(out, "drystone_request_seconds_count{{route=\"{route}\"}} {count}");
        }
        let load = |of: &AtomicU64| of.load(Ordering::Relaxed);
        for (name, kind, help, value) in [
            ("received_bytes_total", "counter", "Bytes of bodies of requests.", load(&self.bytes_in)),
            ("sent_bytes_total", "counter", "Bytes of bodies of replies.", load(&self.bytes_out)),
            ("programs_total", "counter", "Read programs that were answered.", load(&self.programs)),
            (
                "refused_programs_total",
                "counter",
                "Read programs that were refused, wholly or in part.",
                load(&self.refused_programs),
            ),
            ("connections", "gauge", "Connections that are open.", load(&self.connections)),
            (
                "refused_connections_total",
                "counter",
                "Connections beyond the limit.",
                load(&self.refused_connections),
            ),
            ("requests_under_way", "gauge", "Requests that have not ended.", self.under_way() as u64),
        ] {
            head(&mut out, name, kind, help);
            let _ = writeln!(out, "drystone_{name} {value}");
        }
        for (name, help, value) in gauges {
            head(&mut out, name, "gauge", help);
            let _ = writeln!(out, "drystone_{name} {value}");
        }
        head(
            &mut out,
            "request_age_seconds",
            "gauge",
            "Requests that have been under way for more than a second.",
        );
        for (number, entry) in lock(&self.under_way).iter().filter(|(_, entry)| entry.since.elapsed() > LONG)
        {
            let _ = writeln!(
                out,
                "drystone_request_age_seconds{{route=\"{}\",container=\"{}\",client=\"{}\",number=\"{number}\"}} {:.3}",
                entry.route,
                entry.container,
                entry.client,
                entry.since.elapsed().as_secs_f64()
            );
        }
        out
    }
}

impl Started {
    pub(crate) fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let metrics = &self.metrics;
        lock(&metrics.under_way).remove(&self.number);
        *lock(&metrics.requests).entry((self.route, self.status)).or_default() += 1;
        let seconds = self.since.elapsed().as_secs_f64();
        let mut durations = lock(&metrics.durations);
        let (classes, sum) = durations.entry(self.route).or_default();
        let class = CLASSES.iter().position(|end| seconds <= *end).unwrap_or(CLASSES.len());
        if let Some(count) = classes.get_mut(class) {
            *count += 1;
        }
        *sum += seconds;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
