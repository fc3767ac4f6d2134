//! A mix of reads as a text: `plane:x 90%, box:64 10%`.
//!
//! Entries are separated by commas: a kind, an argument, a weight. Kinds: `plane:AXIS` (across the axis; without one, across each
//! equally), `pencil:AXIS` (along the axis; likewise), `box:64` or `box:8x64x64`, `point`, `all`. An axis is a name or a number.
//! Without weights all entries occur equally often; with them, one that has none occurs as often as the others leave.

use super::Pattern;

/// A read of a mix, before it is known of which array.
#[derive(Debug, Clone, PartialEq)]
struct Entry {
    kind: Kind,
    weight: Option<f64>,
}

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    Plane(Option<String>),
    Pencil(Option<String>),
    Box(Vec<u64>),
    Point,
    All,
}

/// A mix of reads as it was written.
#[derive(Debug, Clone, PartialEq)]
pub struct Mix {
    entries: Vec<Entry>,
}

impl Mix {
    /// Reads a text; the error says what is wrong with which entry.
    pub fn parse(text: &str) -> Result<Mix, String> {
        let entries: Vec<Entry> =
            text.split(',').map(|entry| Self::entry(entry.trim())).collect::<Result<_, _>>()?;
        let given: f64 = entries.iter().filter_map(|e| e.weight).sum();
        if given > 100.0 + 1e-9 && entries.iter().any(|e| e.weight.is_none()) {
            return Err(format!(
                "the weights in \"{text}\" add up to more than 100 % and leave none for the others"
            ));
        }
        Ok(Mix { entries })
    }

    fn entry(entry: &str) -> Result<Entry, String> {
        let mut words = entry.split_whitespace();
        let kind = words
            .next()
            .ok_or("an access mix has an empty entry; write it as \"plane:x 90%, box:64 10%\"")?;
        let weight = words.next().map(|word| {
            let number = word.strip_suffix('%').unwrap_or(word).parse::<f64>().ok();
            number
                .filter(|w| w.is_finite() && (0.0..=1e6).contains(w) && *w > 0.0)
                .ok_or_else(|| format!("\"{word}\" in \"{entry}\" is no weight; write it as 90%"))
        });
        if words.next().is_some() {
            return Err(format!("\"{entry}\" has too many words; entries are separated by commas"));
        }
        let (name, argument) = kind.split_once(':').map_or((kind, None), |(name, arg)| (name, Some(arg)));
        let axis = argument.map(str::to_owned);
        let kind = match (name, argument) {
            ("plane", _) => Kind::Plane(axis),
            ("pencil", _) => Kind::Pencil(axis),
            ("box", Some(edges)) => {
                let edges: Option<Vec<u64>> =
                    edges.split('x').map(|e| e.parse().ok().filter(|n| *n > 0)).collect();
                Kind::Box(edges.ok_or_else(|| format!("\"{kind}\" is no box; write box:64 or box:8x64x64"))?)
            }
            ("point", None) => Kind::Point,
            ("all", None) => Kind::All,
            _ => {
                return Err(format!(
                    "\"{kind}\" is no read; known are plane:AXIS, pencil:AXIS, box:64, point, all"
                ));
            }
        };
        Ok(Entry { kind, weight: weight.transpose()? })
    }

    /// The reads in an array of this shape, whose axes have these names (or numbers, where they have none).
    ///
    /// The error names an axis that the array has not.
    pub fn of(&self, shape: &[u64], dims: &[String]) -> Result<Vec<Pattern>, String> {
        let given: f64 = self.entries.iter().filter_map(|e| e.weight).sum();
        let silent = self.entries.iter().filter(|e| e.weight.is_none()).count();
        let rest = if given > 0.0 { (100.0 - given).max(0.0) / silent.max(1) as f64 } else { 1.0 };
        let mut out = Vec::new();
        for entry in &self.entries {
            let weight = entry.weight.unwrap_or(rest);
            let mut push =
                |name: String, count: Vec<u64>, weight: f64| out.push(Pattern { name, weight, count });
            match &entry.kind {
                Kind::Plane(axis) | Kind::Pencil(axis) => {
                    let axes = match axis {
                        Some(axis) => vec![find(axis, shape, dims)?],
                        None => (0..shape.len()).collect(),
                    };
                    let plane = matches!(entry.kind, Kind::Plane(_));
                    for &axis in &axes {
                        let name = dims.get(axis).cloned().unwrap_or_else(|| axis.to_string());
                        let count =
                            shape.iter().enumerate().map(|(a, &n)| if (a == axis) == plane { 1 } else { n });
                        let what = if plane { "plane across" } else { "pencil along" };
                        push(format!("{what} {name}"), count.collect(), weight / axes.len() as f64);
                    }
                }
                Kind::Box(edges) => {
                    if edges.len() != 1 && edges.len() != shape.len() {
                        return Err(format!(
                            "a box of {} extents in an array of {} axes",
                            edges.len(),
                            shape.len()
                        ));
                    }
                    let edge = |axis: usize| edges.get(axis).or(edges.first()).copied().unwrap_or(1);
                    let count: Vec<u64> =
                        shape.iter().enumerate().map(|(a, &n)| edge(a).min(n.max(1))).collect();
                    push(format!("box of {}", super::extents(&count)), count, weight);
                }
                Kind::Point => push("point".into(), vec![1; shape.len()], weight),
                Kind::All => push("all".into(), shape.to_vec(), weight),
            }
        }
        Ok(out)
    }
}

fn find(axis: &str, shape: &[u64], dims: &[String]) -> Result<usize, String> {
    let named = dims.iter().position(|name| name == axis);
    let numbered = || axis.parse::<usize>().ok().filter(|&n| n < shape.len());
    named.or_else(numbered).ok_or_else(|| {
        let known = if dims.is_empty() { format!("numbers below {}", shape.len()) } else { dims.join(", ") };
        format!("there is no axis \"{axis}\"; there are {known}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_is_read_with_its_weights_and_axes() {
        let dims = ["z", "y", "x"].map(String::from);
        let mix = Mix::parse("plane:x 80%, box:8x64x999, pencil:0 10%").unwrap();
        let patterns = mix.of(&[100, 200, 300], &dims).unwrap();
        let found: Vec<(&str, f64, &[u64])> =
            patterns.iter().map(|p| (&*p.name, p.weight, &p.count[..])).collect();
        assert_eq!(
            found,
            [
                ("plane across x", 80.0, &[100, 200, 1][..]),
                ("box of 8x64x300", 10.0, &[8, 64, 300]),
                ("pencil along z", 10.0, &[100, 1, 1]),
            ]
        );
        let all = Mix::parse("plane, point, all").unwrap().of(&[5, 6], &[]).unwrap();
        assert_eq!(all.len(), 4);
        assert_eq!(all.iter().map(|p| p.weight).sum::<f64>(), 3.0);
    }

    #[test]
    fn what_is_no_mix_is_refused_with_its_entry() {
        for (text, part) in [
            ("", "empty entry"),
            ("plane:x 90%,", "empty entry"),
            ("plan:x", "\"plan:x\" is no read"),
            ("box", "is no read"),
            ("box:0", "is no box"),
            ("plane:x -3", "is no weight"),
            ("plane:x NaN", "is no weight"),
            ("plane:x 1 2", "too many words"),
            ("plane:x 200%, point", "more than 100 %"),
        ] {
            let message = Mix::parse(text).unwrap_err();
            assert!(message.contains(part), "{text}: {message}");
        }
        let mix = Mix::parse("plane:w").unwrap();
        assert!(mix.of(&[3, 3], &["y".into(), "x".into()]).unwrap_err().contains("there are y, x"));
        assert!(Mix::parse("box:2x2").unwrap().of(&[3], &[]).is_err());
    }
}
