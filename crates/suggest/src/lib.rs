//! "Did you mean": the known name that is nearest to an unknown one.

/// Most names that are compared for one suggestion, so that an error takes bounded time.
const MAX_CANDIDATES: usize = 4096;

/// A sentence that suggests the nearest of `known`, if it is so near that the word may be a typing error.
pub fn did_you_mean<'n>(word: &str, known: impl IntoIterator<Item = &'n str>) -> Option<String> {
    nearest(word, known).map(|name| format!("did you mean `{name}`?"))
}

/// The nearest of `known` within a third of the word's length; of equally near ones, the first.
pub fn nearest<'n>(word: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let word: Vec<char> = word.chars().collect();
    if word.len() > 40 {
        return None;
    }
    // In half edits. Words of one or two letters are too near to any other word.
    let allowed = if word.len() < 3 { 0 } else { 2 * (word.len() / 3).clamp(1, 4) };
    known
        .into_iter()
        .take(MAX_CANDIDATES)
        .filter(|name| !name.is_empty() && name.len().abs_diff(word.len()) <= allowed)
        .filter_map(|name| {
            let chars: Vec<char> = name.chars().collect();
            let distance = distance(&word, &chars);
            (distance <= allowed).then_some((distance, name))
        })
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, name)| name)
}

/// The distance between two words in half edits: two for inserting, deleting or replacing a letter, one for swapping
/// adjacent letters, which is the most frequent typing error, and none for a change of case.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).map(|n| 2 * n).collect();
    for (i, &x) in a.iter().enumerate() {
        let mut row = vec![2 * (i + 1)];
        for (j, &y) in b.iter().enumerate() {
            let replace = last[j] + 2 * usize::from(!x.eq_ignore_ascii_case(&y));
            let mut best = replace.min(last[j + 1] + 2).min(row[j] + 2);
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
    fn a_typing_error_is_recognised() {
        let known = ["float64", "float32", "fragment", "N"];
        assert_eq!(nearest("flaot64", known), Some("float64"));
        assert_eq!(nearest("fragmnet", known), Some("fragment"));
        assert_eq!(nearest("Float64", known), Some("float64"));
        assert_eq!(nearest("n", known), Some("N"));
        assert_eq!(nearest("int46", ["int16", "int64"]), Some("int64"));
    }

    #[test]
    fn a_different_word_gets_no_suggestion() {
        assert_eq!(nearest("pressure", ["float64", "x"]), None);
        assert_eq!(nearest("k", ["i", "j"]), None);
    }
}
