//! Which faults happen, and when: rules that are applied in order to every request.
//!
//! Random choices come from a generator with a seed, so that a script does the same to the same sequence of requests.

use std::time::Duration;

/// What happens to a request that a rule picks.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// It waits before it is executed.
    DelayBefore(Duration),
    /// It is executed at once, and answered later.
    DelayAfter(Duration),
    /// It is executed. The connection ends after this many bytes of the reply's body; `None`: before the status line.
    Cut(Option<u64>),
    /// A byte of its body is changed when it arrives.
    Garble,
    /// It is not executed, and answered with this status.
    Status(u16),
    /// It is not executed, and answered with this status and this S3 error code. The region, if given, is that of the
    /// bucket.
    Refuse(u16, String, Option<String>),
    /// It is executed. The body of the reply is sent byte by byte, one in each of these intervals.
    Trickle(Duration),
    /// It is executed, and still answered with this status.
    StatusAfterLanding(u16),
    /// The connection ends at once, and the request is executed later.
    Late(Duration),
}

/// A rule, which picks requests.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Kind, as in [`Counts::requests`](crate::Counts::requests); empty for every kind.
    pub kind: String,
    /// A part of the key; empty for every key.
    pub key: String,
    /// How many matching requests are let through first.
    pub skip: u64,
    /// The most requests that are picked.
    pub times: u64,
    /// The share of the remaining requests that is picked.
    pub share: f64,
    /// What happens to them.
    pub action: Action,
}

impl Rule {
    /// A rule for every request.
    pub fn new(action: Action) -> Self {
        Rule { kind: String::new(), key: String::new(), skip: 0, times: u64::MAX, share: 1.0, action }
    }

    /// Restricts the rule to requests of this kind.
    pub fn of_kind(self, kind: impl Into<String>) -> Self {
        Rule { kind: kind.into(), ..self }
    }

    /// Restricts the rule to requests whose key contains this text.
    pub fn with_key(self, key: impl Into<String>) -> Self {
        Rule { key: key.into(), ..self }
    }

    /// Lets this many requests through first.
    pub fn skipping(self, skip: u64) -> Self {
        Rule { skip, ..self }
    }

    /// Picks at most this many requests.
    pub fn times(self, times: u64) -> Self {
        Rule { times, ..self }
    }

    /// Picks this share of the requests, at random.
    pub fn share(self, share: f64) -> Self {
        Rule { share, ..self }
    }
}

/// Rules, and the state of the random generator.
#[derive(Clone, Debug, Default)]
pub struct Script {
    rules: Vec<Rule>,
    state: u64,
}

impl Script {
    /// A script without rules: no faults.
    pub fn new(seed: u64) -> Self {
        Script { rules: Vec::new(), state: seed }
    }

    /// Adds a rule after the others.
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// The action of the first rule that picks this request.
    pub(crate) fn pick(&mut self, kind: &str, key: &str) -> Option<Action> {
        let state = &mut self.state;
        self.rules.iter_mut().find_map(|rule| {
            let fits = (rule.kind.is_empty() || rule.kind == kind) && key.contains(&rule.key);
            if !fits || rule.times == 0 {
                return None;
            }
            if rule.skip > 0 {
                rule.skip -= 1;
                return None;
            }
            if rule.share < 1.0 && chance(state) >= rule.share {
                return None;
            }
            rule.times -= 1;
            Some(rule.action.clone())
        })
    }
}

/// A random number between 0 and 1 (SplitMix64).
fn chance(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_asked_in_order_and_run_out() {
        let mut script = Script::new(1)
            .rule(Rule::new(Action::Status(503)).of_kind("PUT").with_key("manifest/").skipping(1).times(1))
            .rule(Rule::new(Action::Status(500)).of_kind("GET"));
        assert_eq!(script.pick("PUT", "x/manifest/1"), None, "the first is let through");
        assert_eq!(script.pick("PUT", "x/manifest/1"), Some(Action::Status(503)));
        assert_eq!(script.pick("PUT", "x/manifest/1"), None, "once only");
        assert_eq!(script.pick("GET", "y"), Some(Action::Status(500)));
    }

    #[test]
    fn a_share_is_about_kept() {
        let mut script = Script::new(7).rule(Rule::new(Action::Cut(None)).share(0.3));
        let picked = (0..10_000).filter(|_| script.pick("PUT", "k").is_some()).count();
        assert!((2800..3200).contains(&picked), "{picked}");
    }
}
