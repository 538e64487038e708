//! Tables without borders: columns of a fixed width, and behind them a last cell that takes the rest of the line.
//!
//! By hand, because `comfy-table` and `tabled` hold all rows back until the last is known, pad the text instead of the
//! painted cell, and wrap or cut a last column only as a whole: here a mark behind a title stays whole and the title
//! gives way.

use std::fmt::Display;

use crate::output::{Output, Painter};
use crate::text::{fit, fit_right};

/// A column of a [`Table`].
pub(crate) struct Column {
    name: &'static str,
    width: usize,
    align: fn(&str, usize) -> String,
    style: fn(Painter, String) -> String,
    gap: &'static str,
}

/// A column whose cells begin at its left edge.
pub(crate) fn left(name: &'static str, width: usize) -> Column {
    Column { name, width, align: fit, style: |_, text| text, gap: "  " }
}

/// A column whose cells end at its right edge.
pub(crate) fn right(name: &'static str, width: usize) -> Column {
    Column { align: fit_right, ..left(name, width) }
}

impl Column {
    /// Sets how cells are painted. The style gets the cell as it is laid out.
    pub(crate) fn style(self, style: fn(Painter, String) -> String) -> Column {
        Column { style, ..self }
    }

    /// The next column follows after one space instead of two.
    pub(crate) fn close(self) -> Column {
        Column { gap: " ", ..self }
    }
}

/// Columns, and how to write a line of them.
pub(crate) struct Table<const N: usize> {
    columns: [Column; N],
    paint: Painter,
}

impl<const N: usize> Table<N> {
    pub(crate) fn new(paint: Painter, columns: [Column; N]) -> Table<N> {
        Table { columns, paint }
    }

    /// The number of columns of a screen that are left for the last cell.
    pub(crate) fn room(&self, screen: usize) -> usize {
        let taken: usize = self.columns.iter().map(|column| column.width + column.gap.len()).sum();
        screen.saturating_sub(taken)
    }

    /// Writes the line of names.
    pub(crate) fn header(&self, output: &mut Output, last: &str) -> std::io::Result<()> {
        let names = self.columns.iter().map(|column| (column.align)(column.name, column.width) + column.gap);
        output.line(self.paint.dim((names.collect::<String>() + last).trim_end()))
    }

    /// A line: cells are cut and filled up to the width of their column, the last is taken as it is.
    pub(crate) fn row(&self, cells: [impl AsRef<str>; N], last: impl Display) -> String {
        let laid_out = self.columns.iter().zip(cells).map(|(column, cell)| {
            (column.style)(self.paint, (column.align)(cell.as_ref(), column.width)) + column.gap
        });
        laid_out.collect::<String>() + &last.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_keep_their_columns_and_the_last_gets_the_rest() {
        let columns = || [left("A", 3).style(Painter::id), right("B", 4).close(), left("C", 1)];
        let plain = Table::new(Painter { color: false }, columns());
        assert_eq!(plain.row(["a", "1", "c"], "rest of it"), "a       1 c  rest of it");
        assert_eq!(plain.row(["long one", "日本語", "c"], "rest"), "lo…   日… c  rest");
        assert_eq!(plain.room(20), 20 - 13);
        assert_eq!(plain.room(10), 0);
        let painted = Table::new(Painter { color: true }, columns());
        assert_eq!(painted.row(["a", "1", ""], ""), "\u{1b}[36ma  \u{1b}[0m     1    ");
    }
}
