//! Limits how much is requested from a server at once: the number of requests under way and, if the server refuses
//! because of their rate, the rate. Pure; time is a number.
//!
//! With each window of replies, the number under way doubles, later grows by one, as long as throughput grows with it;
//! it is halved if many requests are lost. The rate is unlimited until requests are refused as too many. Then it is the
//! accepted rate, and grows while no request is refused. A few refusals that do not depend on the rate change nothing.

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// There was an answer, of whatever kind.
    Answered,
    /// The server refused it because there are too many: 503, 429.
    Throttled,
    /// There was no answer in time.
    Lost,
}

/// Requests under way at the beginning.
const FIRST: usize = 64;
/// A request costs about as much as this many bytes.
const REQUEST_COST: f64 = 65_536.0;
/// Length of the intervals in which refusals are counted, in seconds.
const TICK: f64 = 0.25;
/// The least number of requests in an interval that is evaluated, unless the interval lasts eight times as long.
const ENOUGH: u32 = 12;
/// Share of refusals in an interval above which the rate is too high.
const TOO_MANY: f64 = 0.25;
/// Share of refusals below which the rate may grow: some servers refuse a few requests at any rate.
const FEW: f64 = 0.12;

/// The state of one endpoint.
#[derive(Debug)]
pub(crate) struct Flow {
    limit: usize,
    max: usize,
    doubling: bool,
    window: Window,
    throughput: f64,
    rate: Option<f64>,
    // Whether no rate has been refused since the first one was set.
    guessing: bool,
    tick: Tick,
    // When the next request may begin, if there is a rate.
    next: f64,
}

#[derive(Debug, Default)]
struct Window {
    since: f64,
    done: usize,
    lost: usize,
    work: f64,
    full: bool,
}

#[derive(Debug, Default)]
struct Tick {
    since: f64,
    accepted: u32,
    refused: u32,
}

/// Whether a request may begin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Admit {
    Now,
    /// At this time, if the number under way allows it then.
    At(f64),
    /// When another request has ended.
    WhenOneEnds,
}

impl Flow {
    pub(crate) fn new(max: usize) -> Self {
        Flow {
            limit: FIRST.min(max),
            max,
            doubling: true,
            window: Window::default(),
            throughput: 0.0,
            rate: None,
            guessing: false,
            tick: Tick::default(),
            next: 0.0,
        }
    }

    /// How many requests may be under way.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Asks for one more request beside those under way.
    pub(crate) fn admit(&mut self, under_way: usize, now: f64) -> Admit {
        if under_way >= self.limit {
            self.window.full = true;
            return Admit::WhenOneEnds;
        }
        let Some(rate) = self.rate else { return Admit::Now };
        // Unused rate may be used later, but only that of a twentieth of a second.
        self.next = self.next.max(now - 0.05);
        if self.next > now {
            return Admit::At(self.next);
        }
        self.next += 1.0 / rate;
        Admit::Now
    }

    /// Records a request that ended.
    pub(crate) fn ended(&mut self, outcome: Outcome, bytes: u64, now: f64) {
        match outcome {
            Outcome::Throttled => self.tick.refused += 1,
            _ => self.tick.accepted += 1,
        }
        self.pace(outcome, now);
        self.window.done += 1;
        self.window.lost += usize::from(outcome == Outcome::Lost);
        self.window.work += bytes as f64 + REQUEST_COST;
        if self.window.done >= self.limit.max(8) {
            self.widen(now);
        }
    }

    fn widen(&mut self, now: f64) {
        let window = std::mem::take(&mut self.window);
        self.window.since = now;
        if window.lost * 5 > window.done {
            self.limit = (self.limit / 2).max(1);
            self.doubling = false;
            self.throughput = 0.0;
            return;
        }
        // If the caller made fewer requests than allowed, the throughput says nothing about the server.
        if !window.full {
            return;
        }
        let throughput = window.work / (now - window.since).max(1e-6);
        if throughput > self.throughput * 1.03 {
            self.limit = if self.doubling { self.limit * 2 } else { self.limit + 1 }.min(self.max);
        } else {
            self.doubling = false;
        }
        // The maximum decays slowly, so that a server that became faster is noticed.
        self.throughput = throughput.max(self.throughput * 0.95);
    }

    fn pace(&mut self, outcome: Outcome, now: f64) {
        let length = now - self.tick.since;
        // The first refusal takes effect at once: without a rate, nothing limits a fast client.
        let all = self.tick.accepted + self.tick.refused;
        let first = self.rate.is_none() && outcome == Outcome::Throttled && self.tick.refused * 4 > all;
        if (length < TICK && !first) || (all < ENOUGH && length < 8.0 * TICK) {
            return;
        }
        let tick = std::mem::take(&mut self.tick);
        self.tick.since = now;
        let all = f64::from(tick.accepted + tick.refused);
        let share = f64::from(tick.refused) / all.max(1.0);
        // A long pause before the interval's first reply does not count as part of it.
        let length = length.clamp(0.01, 8.0 * TICK);
        if share > TOO_MANY {
            let accepted = f64::from(tick.accepted) / length;
            let before = self.rate.unwrap_or(f64::INFINITY);
            // Never less than half of the previous rate: one bad interval is weak evidence.
            let floor = if before.is_finite() { before / 2.0 } else { 100.0 };
            self.guessing = self.rate.is_none();
            self.rate = Some(accepted.max(floor).max(5.0));
            self.next = self.next.max(now);
        } else if share < FEW
            && let Some(rate) = self.rate
        {
            // The first rate was measured over a short time, and is usually too low.
            let raised = if self.guessing { rate * 2.0 } else { rate * 1.1 };
            // A limit far above the demand is removed.
            self.rate = (raised < 20.0 * all / length || raised < 2000.0).then_some(raised);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates a server that accepts `rate` requests per second and answers after `latency`, and a client that always
    /// has more to request.
    fn against(rate: f64, latency: f64, seconds: f64, random_refusals: f64) -> (f64, f64) {
        let mut flow = Flow::new(128);
        let (mut now, mut room, mut sent, mut accepted) = (0.0_f64, rate / 10.0, 0_u32, 0_u32);
        let mut under_way: Vec<(f64, bool)> = Vec::new();
        let mut state = 1_u64;
        while now < seconds {
            while flow.admit(under_way.len(), now) == Admit::Now {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let unlucky = ((state >> 33) as f64 / (1_u64 << 31) as f64) < random_refusals;
                let taken = room >= 1.0 && !unlucky;
                room -= f64::from(u8::from(taken));
                sent += 1;
                accepted += u32::from(taken);
                under_way.push((now + latency, taken));
            }
            now += 0.000_5;
            room = (room + rate * 0.000_5).min(rate / 10.0);
            under_way.retain(|&(end, taken)| {
                if end <= now {
                    flow.ended(if taken { Outcome::Answered } else { Outcome::Throttled }, 0, now);
                }
                end > now
            });
        }
        (f64::from(sent) / seconds, f64::from(accepted) / seconds)
    }

    #[test]
    fn a_limited_rate_is_used_and_not_exceeded_by_much() {
        for (rate, latency) in [(200.0, 0.002), (200.0, 0.03), (1000.0, 0.01)] {
            let (sent, accepted) = against(rate, latency, 20.0, 0.0);
            assert!(accepted >= 0.85 * rate, "{accepted} of {rate} at {latency}");
            assert!(sent <= 2.0 * rate, "{sent} for {rate} at {latency}");
        }
    }

    #[test]
    fn refusals_by_chance_do_not_slow_everything_down() {
        let (sent, _) = against(1e9, 0.01, 5.0, 0.1);
        assert!(sent > 1000.0, "{sent}");
    }

    #[test]
    fn more_are_under_way_while_that_brings_more() {
        // With latency alone, throughput grows with the number under way.
        let mut flow = Flow::new(128);
        let mut now = 0.0;
        for _ in 0..20 {
            let limit = flow.limit();
            assert_eq!(flow.admit(limit, now), Admit::WhenOneEnds);
            now += 0.03;
            (0..limit).for_each(|_| flow.ended(Outcome::Answered, 4096, now));
        }
        assert_eq!(flow.limit(), 128);
        // On a full link, the flow tries once whether a larger window gives more throughput.
        let mut flow = Flow::new(512);
        let mut now = 0.0;
        for _ in 0..200 {
            flow.admit(flow.limit(), now);
            now += 0.008;
            flow.ended(Outcome::Answered, 1 << 20, now);
        }
        assert!(flow.limit() <= 140, "{}", flow.limit());
    }

    #[test]
    fn many_losses_halve_it() {
        let mut flow = Flow::new(128);
        (0..64).for_each(|n| flow.ended(Outcome::Lost, 0, f64::from(n)));
        assert_eq!(flow.limit(), 32);
    }
}
