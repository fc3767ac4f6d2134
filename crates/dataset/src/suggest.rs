//! "Did you mean": the known name that is nearest to an unknown one.

/// Names looked at for one suggestion; a text with more still gets its error in bounded time.
const MAX_CANDIDATES: usize = 4096;

/// A sentence that offers the nearest of `known`, if one is near enough to be a slip of the pen.
pub(crate) fn did_you_mean<'n>(word: &str, known: impl IntoIterator<Item = &'n str>) -> Option<String> {
    nearest(word, known).map(|name| format!("did you mean `{name}`?"))
}

/// The nearest of `known` within a third of the word's length; the first of several.
fn nearest<'n>(word: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let word: Vec<char> = word.chars().collect();
    if word.len() > 40 {
        return None;
    }
    let allowed = (word.len() / 3).clamp(1, 4);
    known
        .into_iter()
        .take(MAX_CANDIDATES)
        .filter(|name| name.len().abs_diff(word.len()) <= allowed * 4 && name.len() <= 160)
        .filter_map(|name| {
            let chars: Vec<char> = name.chars().collect();
            if chars.len().abs_diff(word.len()) > allowed || (word.len() == 1 && chars.len() == 1) {
                let same = chars.len() == word.len() && chars[0].eq_ignore_ascii_case(&word[0]);
                return same.then_some((1, name));
            }
            let distance = distance(&word, &chars);
            (distance <= allowed).then_some((distance, name))
        })
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, name)| name)
}

/// Edits (insert, delete, replace, swap of neighbours) between two words; a change of case is free of
/// charge within a word of equal letters.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, &x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &y) in b.iter().enumerate() {
            let replace = last[j] + usize::from(!x.eq_ignore_ascii_case(&y));
            let mut best = replace.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && x == b[j - 1] && a[i - 1] == y {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_pen_is_recognised() {
        let known = ["float64", "float32", "fragment", "N"];
        assert_eq!(nearest("flaot64", known), Some("float64"));
        assert_eq!(nearest("fragmnet", known), Some("fragment"));
        assert_eq!(nearest("Float64", known), Some("float64"));
        assert_eq!(nearest("n", known), Some("N"));
    }

    #[test]
    fn a_different_word_gets_no_suggestion() {
        assert_eq!(nearest("pressure", ["float64", "x"]), None);
        assert_eq!(nearest("k", ["i", "j"]), None);
    }
}
