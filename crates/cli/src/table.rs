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
    name: String,
    width: usize,
    align: fn(&str, usize) -> String,
    style: fn(Painter, String) -> String,
    gap: &'static str,
    /// On a narrow screen, columns with a higher number go first. 0 stays.
    gives_way: u8,
    is_hidden: bool,
}

/// A column whose cells begin at its left edge.
pub(crate) fn left(name: impl Into<String>, width: usize) -> Column {
    let style = |_, text| text;
    Column { name: name.into(), width, align: fit, style, gap: "  ", gives_way: 0, is_hidden: false }
}

/// A column whose cells end at its right edge.
pub(crate) fn right(name: impl Into<String>, width: usize) -> Column {
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

    /// Leaves the column out.
    pub(crate) fn hidden(self) -> Column {
        Column { is_hidden: true, ..self }
    }

    /// Lets the column give way to the last cell on a narrow screen. Columns with a higher number go first.
    pub(crate) fn gives_way(self, order: u8) -> Column {
        Column { gives_way: order, ..self }
    }
}

/// Columns, and how to write a line of them.
pub(crate) struct Table {
    columns: Vec<Column>,
    paint: Painter,
}

impl Table {
    pub(crate) fn new(paint: Painter, columns: impl Into<Vec<Column>>) -> Table {
        Table { columns: columns.into(), paint }
    }

    /// This table without the columns that must give way so that the last cell has `wanted` columns of the screen.
    pub(crate) fn fitting(mut self, screen: usize, wanted: usize) -> Table {
        while self.taken() + wanted > screen {
            let shown = self.columns.iter_mut().filter(|column| !column.is_hidden && column.gives_way > 0);
            match shown.max_by_key(|column| column.gives_way) {
                Some(column) => column.is_hidden = true,
                None => break,
            }
        }
        self
    }

    fn shown(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(|column| !column.is_hidden)
    }

    /// The number of columns of a screen that are left for the last cell.
    pub(crate) fn room(&self, screen: usize) -> usize {
        screen.saturating_sub(self.taken())
    }

    fn taken(&self) -> usize {
        self.shown().map(|column| column.width + column.gap.len()).sum()
    }

    /// Writes the line of names.
    pub(crate) fn header(&self, output: &mut Output, last: &str) -> std::io::Result<()> {
        let names = self.shown().map(|column| (column.align)(&column.name, column.width) + column.gap);
        output.line(self.paint.dim((names.collect::<String>() + last).trim_end()))
    }

    /// A line, given a cell for each column: cells are cut and filled up to the width of their column, the last is taken as it is.
    pub(crate) fn row(&self, cells: impl IntoIterator<Item = impl AsRef<str>>, last: impl Display) -> String {
        let cells = self.columns.iter().zip(cells).filter(|(column, _)| !column.is_hidden);
        let laid_out = cells.map(|(column, cell)| {
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
        let narrow = Table::new(
            Painter { color: false },
            [left("A", 4).gives_way(1), left("B", 4), left("C", 4).gives_way(2)],
        );
        let narrow = narrow.fitting(26, 10);
        assert_eq!(narrow.row(["a", "b", "c"], "rest"), "a     b     rest");
        assert_eq!(narrow.fitting(10, 10).row(["a", "b", "c"], "rest"), "b     rest");
        let painted = Table::new(Painter { color: true }, columns());
        assert_eq!(painted.row(["a", "1", ""], ""), "\u{1b}[36ma  \u{1b}[0m     1    ");
    }
}
