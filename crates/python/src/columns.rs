//! Tables in memory as Arrow lays them out, and the Python object that hands them over.
//!
//! Worked example: the text column `["a", "bc"]` is the bytes `abc` with the offsets 0, 1, 3; the
//! numbers `[1.5, none]` are the values 1.5 and 0 with the validity bits `01`, lowest bit first.
//! Buffers are shared, never copied, with the consumer of the table.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};

use crate::arrow;

/// One bit a row, lowest first.
#[derive(Debug, Default)]
pub(crate) struct Bits {
    pub bytes: Vec<u8>,
    pub zeros: usize,
    len: usize,
}

impl Bits {
    fn push(&mut self, bit: bool) {
        if self.len.is_multiple_of(8) {
            self.bytes.push(0);
        }
        if bit {
            self.bytes[self.len / 8] |= 1 << (self.len % 8);
        } else {
            self.zeros += 1;
        }
        self.len += 1;
    }

    fn get(&self, row: usize) -> bool {
        self.bytes[row / 8] >> (row % 8) & 1 == 1
    }
}

/// The values of a column.
#[derive(Debug)]
pub(crate) enum Values {
    /// UTF-8 with 64-bit offsets, one more than rows.
    Text { offsets: Vec<i64>, bytes: Vec<u8> },
    /// 64-bit floats.
    Float(Vec<f64>),
    /// 64-bit integers.
    Integer(Vec<i64>),
    /// One bit each.
    Boolean(Bits),
}

/// A column: values, and which rows have one.
#[derive(Debug)]
pub(crate) struct Column {
    pub values: Values,
    pub valid: Bits,
}

impl Column {
    /// Text; every row has one.
    pub(crate) fn text(rows: impl Iterator<Item = String>) -> Column {
        let (mut offsets, mut bytes, mut valid) = (vec![0], Vec::new(), Bits::default());
        for row in rows {
            bytes.extend(row.into_bytes());
            offsets.push(bytes.len() as i64);
            valid.push(true);
        }
        let values = Values::Text { offsets, bytes };
        Column { values, valid }
    }

    /// Floats.
    pub(crate) fn float(rows: impl Iterator<Item = Option<f64>>) -> Column {
        let (values, valid) = optional(rows);
        let values = Values::Float(values);
        Column { values, valid }
    }

    /// Integers.
    pub(crate) fn integer(rows: impl Iterator<Item = Option<i64>>) -> Column {
        let (values, valid) = optional(rows);
        let values = Values::Integer(values);
        Column { values, valid }
    }

    /// Truth values.
    pub(crate) fn boolean(rows: impl Iterator<Item = Option<bool>>) -> Column {
        let (mut bits, mut valid) = (Bits::default(), Bits::default());
        for row in rows {
            bits.push(row.unwrap_or_default());
            valid.push(row.is_some());
        }
        let values = Values::Boolean(bits);
        Column { values, valid }
    }

    fn value(&self, py: Python<'_>, row: usize) -> PyResult<Py<PyAny>> {
        if !self.valid.get(row) {
            return Ok(py.None());
        }
        Ok(match &self.values {
            Values::Text { offsets, bytes } => {
                let text = &bytes[offsets[row] as usize..offsets[row + 1] as usize];
                let text = String::from_utf8_lossy(text);
                text.into_pyobject(py)?.into_any().unbind()
            }
            Values::Float(values) => values[row].into_pyobject(py)?.into_any().unbind(),
            Values::Integer(values) => values[row].into_pyobject(py)?.into_any().unbind(),
            Values::Boolean(bits) => {
                let value = bits.get(row).into_pyobject(py)?;
                value.to_owned().into_any().unbind()
            }
        })
    }
}

fn optional<T: Default>(rows: impl Iterator<Item = Option<T>>) -> (Vec<T>, Bits) {
    let (mut values, mut valid) = (Vec::new(), Bits::default());
    for row in rows {
        valid.push(row.is_some());
        values.push(row.unwrap_or_default());
    }
    (values, valid)
}

/// Named columns of one length.
#[derive(Debug)]
pub(crate) struct Columns {
    pub columns: Vec<(String, Column)>,
    pub rows: usize,
}

/// A table that every library with the Arrow PyCapsule interface takes without a copy:
/// `polars.DataFrame(table)`, `pandas.DataFrame.from_arrow(table)`, `pyarrow.table(table)`,
/// `duckdb.sql("from table")`.
#[pyclass(frozen, module = "schedcast._native")]
pub(crate) struct Table {
    columns: Arc<Columns>,
}

impl Table {
    /// A table of columns of the same length.
    pub(crate) fn new<N: Into<String>>(columns: Vec<(N, Column)>) -> Table {
        let columns: Vec<(String, Column)> = columns
            .into_iter()
            .map(|(name, column)| (name.into(), column))
            .collect();
        let rows = columns.first().map_or(0, |(_, column)| column.valid.len);
        debug_assert!(columns.iter().all(|(_, column)| column.valid.len == rows));
        Table {
            columns: Arc::new(Columns { columns, rows }),
        }
    }
}

#[pymethods]
impl Table {
    /// The Arrow stream of the table: one record batch. A requested schema is not followed, as the
    /// interface allows.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let stream = arrow::Stream::new(Arc::clone(&self.columns));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// The Arrow schema of the table.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = arrow::Schema::of(&self.columns);
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// Names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        let columns = self.columns.columns.iter();
        columns.map(|(name, _)| name.clone()).collect()
    }

    /// Number of rows.
    fn __len__(&self) -> usize {
        self.columns.rows
    }

    /// The table as a dict of lists, for those who have no library for tables. Copies.
    fn to_pydict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, column) in &self.columns.columns {
            let list = PyList::empty(py);
            for row in 0..self.columns.rows {
                list.append(column.value(py, row)?)?;
            }
            dict.set_item(name, list)?;
        }
        Ok(dict)
    }
}
