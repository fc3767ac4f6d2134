//! The expected mix of reads: the text after `access`.
//!
//! A text such as `plane:z 60%, box:64` says that 60 % of all reads are planes across z, and the others are boxes of 64
//! cells a side. The layout model chooses the chunks of a published replica by it. This module determines what the
//! words mean for a variable with given axes.
//!
//! Invariant: the shares of an [`Access`] are positive and their sum is 1.

use std::fmt;

use crate::diagnostic::Diagnostic;
use crate::span::Span;
use drystone_suggest::did_you_mean;

/// The most kinds of reads in one mix.
pub const MAX_READS: usize = 32;

/// The axes to which a mix refers, without the steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axes<'a> {
    /// Number of axes.
    pub count: usize,
    /// A name per axis, or fewer names. An axis without a name is named by its number.
    pub names: &'a [&'a str],
    /// Whether there is one such array per output time.
    pub steps: bool,
}

/// A kind of read. If there are steps, every kind except `All` and `Series` reads one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// `plane:z`: one cell along an axis, and all cells along the others.
    Plane(usize),
    /// `line:z`: all cells along an axis, and one cell along the others.
    Line(usize),
    /// `box:64` or `box:1x64x64`: these extents along the first axes, and all cells along the others.
    Box(Vec<u64>),
    /// `cell`: a single cell.
    Cell,
    /// `series`: one cell of all steps.
    Series,
    /// `step`: a whole step.
    Step,
    /// `all`: everything, steps included.
    All,
    /// `standard`: the default mix.
    Standard,
}

const KINDS: [&str; 8] = ["plane", "line", "box", "cell", "series", "step", "all", "standard"];

/// One kind of read of a mix.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    /// The kind of read.
    pub read: Read,
    /// The kind as it was written: `plane:z`.
    pub text: String,
    /// The share of these reads among all reads, above 0 and at most 1.
    pub share: f64,
}

/// A mix of reads. Its text (`Display`) gives the same mix, with every share written.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    /// Kinds in the order of the text; last the kind that takes the remaining share.
    pub reads: Vec<Expected>,
}

impl Access {
    /// Parses `kind [share%] {, kind [share%]}`.
    ///
    /// Kinds without a share divide equally what the others leave. If all have a share and some part remains, that part
    /// is `standard`. The error has its position in `text`.
    pub fn parse(text: &str, axes: &Axes<'_>) -> Result<Self, Diagnostic> {
        let whole = Span::new(0, text.len());
        let mut open = Vec::new();
        let mut reads = Vec::new();
        let mut left = 100.0;
        let mut at = 0;
        for part in text.split(',') {
            let begin = at + (part.len() - part.trim_start().len());
            at += part.len() + 1;
            if reads.len() == MAX_READS {
                return Err(Diagnostic::new(whole, format!("more than {MAX_READS} kinds of reads")));
            }
            let mut words = part.split_whitespace();
            let Some(kind) = words.next() else {
                return Err(Diagnostic::new(
                    Span::new(begin.min(text.len()), begin.min(text.len())),
                    "a kind of read is missing",
                )
                .label(format!("expected one of {}", list(&KINDS)))
                .help("for example \"plane:0 60%, box:64\""));
            };
            let read = read(kind, begin, axes)?;
            // The text after the kind: "60%" or "60 %".
            let rest = part.trim().get(kind.len()..).unwrap_or("").trim();
            let share_at = begin + part.trim().len() - rest.len();
            let share = (!rest.is_empty()).then(|| share(rest, share_at)).transpose()?;
            match share {
                Some(share) if share > left + 1e-9 => {
                    return Err(Diagnostic::new(
                        Span::new(share_at, share_at + rest.len()),
                        "more than 100 % of the reads",
                    )
                    .label(format!("{} % are left here", number(left))));
                }
                Some(share) => left -= share,
                None => open.push(reads.len()),
            }
            reads.push(Expected { read, text: kind.to_owned(), share: share.unwrap_or(0.0) / 100.0 });
        }
        let left = if left > 1e-9 { left / 100.0 } else { 0.0 };
        if left == 0.0
            && let Some(&first) = open.first()
        {
            let kind = reads.get(first).map_or("", |r: &Expected| &r.text);
            return Err(Diagnostic::new(whole, format!("the others leave nothing for `{kind}`"))
                .help("shares sum to 100 % at most; kinds without one divide what is left"));
        }
        for &n in &open {
            if let Some(one) = reads.get_mut(n) {
                one.share = left / open.len() as f64;
            }
        }
        if open.is_empty() && left > 0.0 {
            reads.push(Expected { read: Read::Standard, text: "standard".to_owned(), share: left });
        }
        Ok(Access { reads })
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, one) in self.reads.iter().enumerate() {
            let comma = if n > 0 { ", " } else { "" };
            write!(f, "{comma}{} {}%", one.text, number(one.share * 100.0))?;
        }
        Ok(())
    }
}

/// A percentage with as many digits as needed, at most four.
fn number(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn share(text: &str, at: usize) -> Result<f64, Diagnostic> {
    let digits = text.strip_suffix('%').map(str::trim_end);
    let plain = |s: &&str| s.len() <= 16 && s.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let value = digits.filter(plain).and_then(|s| s.parse::<f64>().ok());
    value.filter(|v| (1e-4..=100.0).contains(v)).ok_or_else(|| {
        Diagnostic::new(Span::new(at, at + text.len()), format!("`{text}` is not a share of the reads"))
            .label("expected a comma, or a percentage from 0.0001% to 100%")
    })
}

fn read(text: &str, at: usize, axes: &Axes<'_>) -> Result<Read, Diagnostic> {
    let span = Span::new(at, at + text.len());
    let (kind, of) = match text.split_once(':') {
        Some((kind, of)) => (kind, Some(of)),
        None => (text, None),
    };
    let behind = Span::new(at + kind.len() + 1, (at + text.len()).max(at + kind.len() + 1));
    let needs_steps = |read: Read| match axes.steps {
        true => Ok(read),
        false => Err(Diagnostic::new(span, "the variable has no steps").help("`all` reads everything")),
    };
    match (kind, of) {
        ("plane", Some(name)) => axis(name, behind, axes).map(Read::Plane),
        ("line", Some(name)) => axis(name, behind, axes).map(Read::Line),
        ("box", Some(extents)) => sides(extents, behind, axes).map(Read::Box),
        ("plane" | "line", None) => Err(Diagnostic::new(span, format!("a {kind} along which axis?"))
            .help(format!("for example `{kind}:{}`", axes.names.first().copied().unwrap_or("0")))),
        ("box", None) => Err(Diagnostic::new(span, "a box of which size?").help("for example `box:64`")),
        ("cell", None) => Ok(Read::Cell),
        ("all", None) => Ok(Read::All),
        ("standard", None) => Ok(Read::Standard),
        ("series", None) => needs_steps(Read::Series),
        ("step", None) => needs_steps(Read::Step),
        (known, Some(_)) if KINDS.contains(&known) => {
            Err(Diagnostic::new(behind, format!("`{known}` stands alone")))
        }
        _ => {
            Err(Diagnostic::new(Span::new(at, at + kind.len()), format!("there is no kind of read `{kind}`"))
                .label(format!("expected one of {}", list(&KINDS)))
                .maybe_help(did_you_mean(kind, KINDS)))
        }
    }
}

/// An axis, given by its name or by its number (counted as in `dims`).
fn axis(name: &str, span: Span, axes: &Axes<'_>) -> Result<usize, Diagnostic> {
    if let Some(n) = axes.names.iter().position(|known| *known == name) {
        return Ok(n);
    }
    let number = if name.len() < 10 { name.parse::<usize>().ok() } else { None };
    number.filter(|n| *n < axes.count).ok_or_else(|| {
        let expected = match (axes.count, axes.names) {
            (0, _) => "the variable has none".to_owned(),
            (_, names @ [_, ..]) => format!("expected {}", list(names)),
            (1, _) => "expected 0".to_owned(),
            (n, _) => format!("expected a number from 0 to {}", n - 1),
        };
        Diagnostic::new(span, format!("there is no axis `{name}`"))
            .label(expected)
            .maybe_help(did_you_mean(name, axes.names.iter().copied()))
    })
}

fn sides(text: &str, span: Span, axes: &Axes<'_>) -> Result<Vec<u64>, Diagnostic> {
    let side = |s: &str| if s.len() < 19 { s.parse::<u64>().ok().filter(|n| *n > 0) } else { None };
    let found: Option<Vec<u64>> = text.split('x').take(axes.count + 1).map(side).collect();
    match found {
        Some(sides) if sides.len() <= axes.count => {
            Ok(if let [side] = sides[..] { vec![side; axes.count] } else { sides })
        }
        Some(_) => Err(Diagnostic::new(span, "a box with more sides than the variable has dimensions")
            .label(format!("expected at most {}", axes.count))),
        None => Err(Diagnostic::new(span, format!("`{text}` is not the size of a box"))
            .label("expected sides in cells, such as `64` or `1x64x64`")),
    }
}

fn list(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().take(16).map(|name| format!("`{name}`")).collect();
    match &quoted[..] {
        [one] => one.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
        [] => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AXES: Axes<'_> = Axes { count: 3, names: &["z", "y", "x"], steps: true };

    fn parse(text: &str) -> Result<Access, Diagnostic> {
        Access::parse(text, &AXES)
    }

    #[test]
    fn every_kind_is_read_and_shown_as_it_was_written() {
        let text = "plane:z 30%, line:2 10%, box:64 10%, box:1x64 5%, cell 5%, series 10%, step 10%, all 10%, \
            standard 10%";
        let access = parse(text).unwrap();
        assert_eq!(access.to_string(), text);
        let reads: Vec<&Read> = access.reads.iter().map(|r| &r.read).collect();
        let sides = [Read::Box(vec![64; 3]), Read::Box(vec![1, 64])];
        assert_eq!(reads[..4], [&Read::Plane(0), &Read::Line(2), &sides[0], &sides[1]]);
        assert_eq!(reads[4..], [&Read::Cell, &Read::Series, &Read::Step, &Read::All, &Read::Standard]);
        assert_eq!(parse(&access.to_string()).unwrap(), access);
    }

    #[test]
    fn shares_always_make_a_whole() {
        for (text, shown) in [
            ("plane:z", "plane:z 100%"),
            ("plane:z,plane:y", "plane:z 50%, plane:y 50%"),
            (" plane:z 60 % , cell,  box:8 ", "plane:z 60%, cell 20%, box:8 20%"),
            ("plane:x 90%", "plane:x 90%, standard 10%"),
            ("plane:x 33.3%, plane:y 66.7%", "plane:x 33.3%, plane:y 66.7%"),
        ] {
            let access = parse(text).unwrap();
            assert_eq!(access.to_string(), shown);
            let sum: f64 = access.reads.iter().map(|r| r.share).sum();
            assert!((sum - 1.0).abs() < 1e-9 && access.reads.iter().all(|r| r.share > 0.0), "{text}");
        }
    }

    #[test]
    fn a_mistake_is_told_with_its_place() {
        for (text, place, message) in [
            ("", "", "a kind of read is missing"),
            ("plane:z,", "", "a kind of read is missing"),
            ("plan:z", "plan", "there is no kind of read `plan`"),
            ("plane", "plane", "a plane along which axis?"),
            ("cell, plane:w 50%", "w", "there is no axis `w`"),
            ("line:3", "3", "there is no axis `3`"),
            ("box:0", "0", "`0` is not the size of a box"),
            ("box:1x2x3x4", "1x2x3x4", "a box with more sides than the variable has dimensions"),
            ("cell:3", "3", "`cell` stands alone"),
            ("cell 0%", "0%", "`0%` is not a share of the reads"),
            ("cell 1e1%", "1e1%", "`1e1%` is not a share of the reads"),
            ("cell box:64", "box:64", "`box:64` is not a share of the reads"),
            ("cell 60%, box:8 60%", "60%", "more than 100 % of the reads"),
            ("cell 100%, box:8", "cell 100%, box:8", "the others leave nothing for `box:8`"),
        ] {
            let found = parse(text).unwrap_err();
            assert_eq!((found.span.of(text), &*found.message), (place, message), "{text}");
        }
        let many = "cell,".repeat(MAX_READS) + "cell";
        assert!(parse(&many).unwrap_err().message.starts_with("more than 32"));
        let bare = Axes { count: 2, names: &[], steps: false };
        assert!(Access::parse("series", &bare).unwrap_err().message.contains("no steps"));
        assert_eq!(Access::parse("plane:1", &bare).unwrap().reads[0].read, Read::Plane(1));
    }
}
