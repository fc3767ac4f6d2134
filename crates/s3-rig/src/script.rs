//! What goes wrong, and when: rules that are asked in order for every request.
//!
//! Choices by chance come from a generator with a seed, so that a script does the same to the same order of requests.

use std::time::Duration;

/// What happens to a request that a rule picks.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// It waits before anything is done.
    DelayBefore(Duration),
    /// It is done at once, and answered after a while.
    DelayAfter(Duration),
    /// It is done; the connection ends after so many bytes of the reply's body. `None`: before the status line.
    Cut(Option<u64>),
    /// It is not done, and answered so.
    Status(u16),
    /// It is not done, and answered with this status and S3's word for the reason. A region is that of the bucket.
    Refuse(u16, String, Option<String>),
    /// It is done; the reply's body comes in pieces of one byte, one in so long.
    Trickle(Duration),
    /// It is done, and answered so all the same.
    StatusAfterLanding(u16),
    /// The connection ends now; it is done after a while.
    Late(Duration),
}

/// Picks requests.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Kind as in [`Counts::requests`](crate::Counts::requests); empty: every kind.
    pub kind: String,
    /// A part of the key; empty: every key.
    pub key: String,
    /// How many of the requests that fit are let through first.
    pub skip: u64,
    /// How many are picked at most.
    pub times: u64,
    /// The share of those that remain which is picked.
    pub share: f64,
    /// What happens to them.
    pub action: Action,
}

impl Rule {
    /// Every request.
    pub fn new(action: Action) -> Self {
        Rule { kind: String::new(), key: String::new(), skip: 0, times: u64::MAX, share: 1.0, action }
    }

    /// Only requests of this kind.
    pub fn of_kind(self, kind: impl Into<String>) -> Self {
        Rule { kind: kind.into(), ..self }
    }

    /// Only requests whose key contains this.
    pub fn with_key(self, key: impl Into<String>) -> Self {
        Rule { key: key.into(), ..self }
    }

    /// Lets the first ones through.
    pub fn skipping(self, skip: u64) -> Self {
        Rule { skip, ..self }
    }

    /// Picks so many and no more.
    pub fn times(self, times: u64) -> Self {
        Rule { times, ..self }
    }

    /// Picks by chance.
    pub fn share(self, share: f64) -> Self {
        Rule { share, ..self }
    }
}

/// Rules, and the state of chance.
#[derive(Clone, Debug, Default)]
pub struct Script {
    rules: Vec<Rule>,
    state: u64,
}

impl Script {
    /// No rules: nothing goes wrong.
    pub fn new(seed: u64) -> Self {
        Script { rules: Vec::new(), state: seed }
    }

    /// Adds a rule behind the others.
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// What happens to this request: what the first rule that picks it says.
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

/// Between 0 and 1 (SplitMix64).
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
