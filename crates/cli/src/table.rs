//! Tables for people: no borders, numbers right-aligned.

use comfy_table::{CellAlignment, Table, presets};

use crate::plain::plain;

/// A column's heading and whether its cells are numbers.
pub(crate) type Column = (&'static str, bool);

/// The text of a table, without trailing spaces in its lines; ends with a line feed.
pub(crate) fn table(columns: &[Column], rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(columns.iter().map(|(name, _)| *name));
    for row in rows {
        table.add_row(row.iter().map(|cell| plain(cell)));
    }
    for (i, (_, number)) in columns.iter().enumerate() {
        if let Some(column) = table.column_mut(i) {
            column.set_padding((0, 2));
            if *number {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
    }
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Lines of "name  value", with the values aligned.
pub(crate) fn pairs(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    rows.iter().map(|(name, value)| format!("  {name:width$}  {}\n", plain(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_stand_below_their_headings() {
        let rows = [vec!["t".to_string(), "12".into()], vec!["velocity".into(), "3".into()]];
        assert_eq!(
            table(&[("name", false), ("n", true)], &rows),
            "name       n\nt         12\nvelocity   3\n"
        );
    }
}
