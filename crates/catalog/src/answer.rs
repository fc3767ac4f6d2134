//! Evaluates a question on the columns of a page: which containers answer it. Reads nothing from the store.
//!
//! Conditions are three-valued, like conditions on cells: for a container without the attribute, or with one of another
//! type, a comparison is unknown, and such a container is no answer. A list attribute has several values; one match is
//! enough for every comparison but `!=`, which is the complement of `==`.

use std::sync::Arc;

use crate::bits::Bits;
use crate::column::Column;
use crate::facts::Key;
use crate::question::{Comparison, NamedKeys, Question, Step};
use crate::value::{Borrowed, Class, Value};

/// The containers for which a condition holds, and those for which it does not. For all others it is unknown.
#[derive(Debug, Clone)]
struct Verdict {
    yes: Bits,
    no: Bits,
}

impl Verdict {
    fn not(self) -> Verdict {
        Verdict { yes: self.no, no: self.yes }
    }
}

/// The containers, of a page with this many, that answer the question. `column` returns the column of a key if the page
/// has it.
pub(crate) fn answer<E>(
    question: &Question,
    containers: u32,
    mut column: impl FnMut(&Key) -> Result<Option<Arc<Column>>, E>,
) -> Result<Bits, E> {
    let n = containers as usize;
    let mut verdicts: Vec<Verdict> = Vec::with_capacity(question.steps.len());
    for step in &question.steps {
        let of = |i: &usize| {
            verdicts.get(*i).cloned().unwrap_or(Verdict { yes: Bits::none(n), no: Bits::none(n) })
        };
        let verdict = match step {
            Step::Constant(true) => Verdict { yes: Bits::all(n), no: Bits::none(n) },
            Step::Constant(false) => Verdict { yes: Bits::none(n), no: Bits::all(n) },
            Step::Truth(asked) => over(asked, n, &mut column, &|column| {
                compared(column, n, Comparison::Eq, &Value::Bool(true))
            })?,
            Step::Compare(asked, op, value) => {
                over(asked, n, &mut column, &|column| compared(column, n, *op, value))?
            }
            Step::And(a, b) => {
                let (a, b) = (of(a), of(b));
                Verdict { yes: a.yes.and(&b.yes), no: a.no.or(&b.no) }
            }
            Step::Or(a, b) => {
                let (a, b) = (of(a), of(b));
                Verdict { yes: a.yes.or(&b.yes), no: a.no.and(&b.no) }
            }
            Step::Xor(a, b) => {
                let (a, b) = (of(a), of(b));
                Verdict {
                    yes: a.yes.clone().and(&b.no).or(&a.no.clone().and(&b.yes)),
                    no: a.yes.and(&b.yes).or(&a.no.and(&b.no)),
                }
            }
            Step::Not(a) => of(a).not(),
        };
        verdicts.push(verdict);
    }
    Ok(verdicts.pop().map_or_else(|| Bits::none(n), |verdict| verdict.yes))
}

/// Applies a test to every key that a name may refer to.
fn over<E>(
    asked: &NamedKeys,
    n: usize,
    column: &mut impl FnMut(&Key) -> Result<Option<Arc<Column>>, E>,
    test: &dyn Fn(&Column) -> Verdict,
) -> Result<Verdict, E> {
    let (mut out, mut has) = (Verdict { yes: Bits::none(n), no: Bits::none(n) }, Bits::none(n));
    for key in &asked.keys {
        if let Some(column) = column(key)? {
            let one = test(&column);
            out = Verdict { yes: out.yes.or(&one.yes), no: out.no.or(&one.no).without(&one.yes) };
            column.containers(0..column.len()).iter().for_each(|&container| has.insert(container));
        }
    }
    if let Some(own) = &asked.own
        && let Some(column) = column(own)?
    {
        let one = test(&column);
        out = Verdict { yes: out.yes.or(&one.yes.without(&has)), no: out.no.or(&one.no.without(&has)) };
    }
    Ok(out)
}

fn compared(column: &Column, n: usize, op: Comparison, value: &Value) -> Verdict {
    let constant = value.borrowed();
    // NaN is a number for which only `!=` holds.
    let class = if constant.class() == Class::Nan { Class::Number } else { constant.class() };
    let alike = column.class(class);
    let mut known = set(column, n, alike.clone());
    if class == Class::Number {
        known = known.or(&set(column, n, column.class(Class::Nan)));
    }
    let first = column.partition(|v| v.class() < class || v.class() == class && v.compare(constant).is_lt());
    let beyond = column.partition(|v| v.class() < class || v.class() == class && v.compare(constant).is_le());
    let hits = match (op, value) {
        _ if constant.class() == Class::Nan => Bits::none(n),
        (Comparison::Eq | Comparison::Ne, Value::Text(pattern)) if pattern.contains('*') => {
            matching(column, n, alike, &Pattern::parse(pattern))
        }
        (Comparison::Eq | Comparison::Ne, _) => set(column, n, first..beyond),
        (Comparison::Lt, _) => set(column, n, alike.start..first),
        (Comparison::Le, _) => set(column, n, alike.start..beyond),
        (Comparison::Gt, _) => set(column, n, beyond..alike.end),
        (Comparison::Ge, _) => set(column, n, first..alike.end),
    };
    let others = known.without(&hits);
    match op {
        Comparison::Ne => Verdict { yes: others, no: hits },
        _ => Verdict { yes: hits, no: others },
    }
}

/// The containers of a run of values.
fn set(column: &Column, n: usize, values: std::ops::Range<usize>) -> Bits {
    let mut out = Bits::none(n);
    if values.start < values.end {
        column.containers(values).iter().for_each(|&container| out.insert(container));
    }
    out
}

/// The containers of texts that match a pattern. Texts with a common prefix are adjacent.
fn matching(column: &Column, n: usize, texts: std::ops::Range<usize>, pattern: &Pattern) -> Bits {
    let prefix = pattern.prefix.as_bytes();
    let begins = |v: Borrowed<'_>| match v {
        Borrowed::Text(text) => {
            text.as_bytes().get(..prefix.len().min(text.len())).unwrap_or_default() <= prefix
        }
        _ => true,
    };
    let before = |v: Borrowed<'_>| match v {
        Borrowed::Text(text) => text.as_bytes() < prefix,
        _ => true,
    };
    let run = column.partition(before).max(texts.start)..column.partition(begins).min(texts.end);
    let mut out = Bits::none(n);
    for at in run {
        if let Some(Borrowed::Text(text)) = column.value(at)
            && pattern.fits(text)
        {
            column.containers(at..at + 1).iter().for_each(|&container| out.insert(container));
        }
    }
    out
}

/// A text in which `*` stands for any characters, and `\*` for an asterisk.
struct Pattern {
    prefix: String,
    middle: Vec<String>,
    suffix: String,
}

impl Pattern {
    fn parse(text: &str) -> Pattern {
        let mut parts = vec![String::new()];
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            let literal = c == '\\' && chars.peek() == Some(&'*');
            let c = if literal { chars.next().unwrap_or(c) } else { c };
            match parts.last_mut() {
                Some(last) if c != '*' || literal => last.push(c),
                _ => parts.push(String::new()),
            }
        }
        let prefix = parts.remove(0);
        // Without `*` the whole text must match.
        let suffix = parts.pop().unwrap_or_default();
        Pattern { prefix, middle: parts, suffix }
    }

    fn fits(&self, text: &str) -> bool {
        let Some(rest) = text.strip_prefix(self.prefix.as_str()) else { return false };
        let Some(mut rest) = rest.strip_suffix(self.suffix.as_str()) else { return false };
        for part in &self.middle {
            let Some(at) = rest.find(part.as_str()) else { return false };
            rest = rest.get(at + part.len()..).unwrap_or_default();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn a_star_stands_for_any_characters() {
        let fits = |pattern: &str, text: &str| Pattern::parse(pattern).fits(text);
        assert!(fits("ab*", "ab") && fits("ab*", "abc") && !fits("ab*", "xab"));
        assert!(fits("*ab", "xab") && !fits("*ab", "abx"));
        assert!(fits("*ab*", "xabx") && fits("a*b*c", "axxbyc") && !fits("a*b*c", "acb"));
        assert!(!fits("aa*aa", "aaa"), "beginning and end do not overlap");
        assert!(fits(r"a\**", "a*b") && !fits(r"a\**", "ab"));
    }
}
