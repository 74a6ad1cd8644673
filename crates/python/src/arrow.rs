//! The Arrow C data and stream interfaces, for the four column types of [`crate::columns`].
//!
//! Three C structs are handed over, each with a `release` that frees what it points to:
//!
//! ```text
//! Stream ──get_schema──► Schema "+s" ── children: "U" text, "g" float, "l" integer, "b" boolean
//!        └─get_next────► Array (one batch, then the end) ── children: validity bits and values
//! ```
//!
//! Every `Array` holds a reference to the columns its buffers belong to, so they live as long as
//! anyone looks at them, and nothing is copied. A consumer that takes a struct moves it out of its
//! place and sets `release` to null there, as the interface asks; dropping the place then frees
//! nothing.
#![allow(unsafe_code)] // three structs of raw pointers, by definition of the interface

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::Arc;

use crate::columns::{Column, Columns, Values};

/// Flag of a schema: the column may have rows without a value.
const NULLABLE: i64 = 2;

/// `struct ArrowSchema`
#[repr(C)]
pub(crate) struct Schema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut Schema,
    dictionary: *mut Schema,
    release: Option<unsafe extern "C" fn(*mut Schema)>,
    private_data: *mut c_void,
}

/// Memory that a [`Schema`] points to.
struct SchemaOwned {
    format: CString,
    name: CString,
    children: Vec<*mut Schema>,
}

/// `struct ArrowArray`
#[repr(C)]
pub(crate) struct Array {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut Array,
    dictionary: *mut Array,
    release: Option<unsafe extern "C" fn(*mut Array)>,
    private_data: *mut c_void,
}

/// Memory that an [`Array`] points to.
struct ArrayOwned {
    /// Keeps the buffers alive.
    _columns: Arc<Columns>,
    buffers: Vec<*const c_void>,
    children: Vec<*mut Array>,
}

/// `struct ArrowArrayStream`
#[repr(C)]
pub(crate) struct Stream {
    get_schema: unsafe extern "C" fn(*mut Stream, *mut Schema) -> c_int,
    get_next: unsafe extern "C" fn(*mut Stream, *mut Array) -> c_int,
    get_last_error: unsafe extern "C" fn(*mut Stream) -> *const c_char,
    release: Option<unsafe extern "C" fn(*mut Stream)>,
    private_data: *mut c_void,
}

/// Memory that a [`Stream`] points to.
struct StreamOwned {
    columns: Arc<Columns>,
    ended: bool,
}

// SAFETY: the pointers of all three own what they point to and share nothing but the `Arc`.
unsafe impl Send for Schema {}
// SAFETY: as above.
unsafe impl Send for Stream {}

impl Schema {
    /// The schema of a table: a struct with one child for each column.
    pub(crate) fn of(columns: &Columns) -> Schema {
        let children = columns.columns.iter().map(|(name, column)| {
            let format = match column.values {
                Values::Text { .. } => "U",
                Values::Float(_) => "g",
                Values::Integer(_) => "l",
                Values::Boolean(_) => "b",
            };
            Box::into_raw(Box::new(Schema::new(format, name, NULLABLE, Vec::new())))
        });
        Schema::new("+s", "", 0, children.collect())
    }

    fn new(format: &str, name: &str, flags: i64, children: Vec<*mut Schema>) -> Schema {
        // A name of a column with a zero byte cannot be: names are keys and metrics.
        let text = |text: &str| CString::new(text.replace('\0', "")).unwrap_or_default();
        let mut owned = Box::new(SchemaOwned {
            format: text(format),
            name: text(name),
            children,
        });
        Schema {
            format: owned.format.as_ptr(),
            name: owned.name.as_ptr(),
            metadata: null(),
            flags,
            n_children: owned.children.len() as i64,
            children: owned.children.as_mut_ptr(),
            dictionary: null_mut(),
            release: Some(release_schema),
            private_data: Box::into_raw(owned).cast(),
        }
    }
}

impl Array {
    /// The whole table as one batch.
    fn of(columns: &Arc<Columns>) -> Array {
        let children = columns.columns.iter().map(|(_, column)| {
            let (buffers, nulls) = buffers(column);
            let child = Array::new(columns, buffers, Vec::new(), nulls);
            Box::into_raw(Box::new(child))
        });
        Array::new(columns, vec![null()], children.collect(), 0)
    }

    fn new(
        columns: &Arc<Columns>,
        buffers: Vec<*const c_void>,
        children: Vec<*mut Array>,
        nulls: usize,
    ) -> Array {
        let mut owned = Box::new(ArrayOwned {
            _columns: Arc::clone(columns),
            buffers,
            children,
        });
        Array {
            length: columns.rows as i64,
            null_count: nulls as i64,
            offset: 0,
            n_buffers: owned.buffers.len() as i64,
            n_children: owned.children.len() as i64,
            buffers: owned.buffers.as_mut_ptr(),
            children: owned.children.as_mut_ptr(),
            dictionary: null_mut(),
            release: Some(release_array),
            private_data: Box::into_raw(owned).cast(),
        }
    }
}

/// The buffers of a column, validity first, and the number of rows without a value.
fn buffers(column: &Column) -> (Vec<*const c_void>, usize) {
    // Without missing rows the validity buffer may be left out.
    let validity = match column.valid.zeros {
        0 => null(),
        _ => column.valid.bytes.as_ptr().cast(),
    };
    let mut buffers: Vec<*const c_void> = vec![validity];
    match &column.values {
        Values::Text { offsets, bytes } => {
            buffers.push(offsets.as_ptr().cast());
            buffers.push(bytes.as_ptr().cast());
        }
        Values::Float(values) => buffers.push(values.as_ptr().cast()),
        Values::Integer(values) => buffers.push(values.as_ptr().cast()),
        Values::Boolean(bits) => buffers.push(bits.bytes.as_ptr().cast()),
    }
    (buffers, column.valid.zeros)
}

impl Stream {
    /// A stream of one batch.
    pub(crate) fn new(columns: Arc<Columns>) -> Stream {
        let ended = false;
        Stream {
            get_schema,
            get_next,
            get_last_error,
            release: Some(release_stream),
            private_data: Box::into_raw(Box::new(StreamOwned { columns, ended })).cast(),
        }
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: a release that is still there has not been called, and `self` is its struct.
            unsafe { release(self) }
        }
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: as for `Schema`.
            unsafe { release(self) }
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: as for `Schema`.
            unsafe { release(self) }
        }
    }
}

unsafe extern "C" fn release_schema(schema: *mut Schema) {
    // SAFETY: the caller passes a struct that `Schema::new` filled and that has not been released.
    // Children are boxes; one that a consumer moved out has a null release and drops as an empty
    // shell.
    unsafe {
        let owned = Box::from_raw((*schema).private_data.cast::<SchemaOwned>());
        (*schema).release = None;
        for child in owned.children {
            drop(Box::from_raw(child));
        }
    }
}

unsafe extern "C" fn release_array(array: *mut Array) {
    // SAFETY: as for `release_schema`.
    unsafe {
        let owned = Box::from_raw((*array).private_data.cast::<ArrayOwned>());
        (*array).release = None;
        for &child in &owned.children {
            drop(Box::from_raw(child));
        }
    }
}

unsafe extern "C" fn release_stream(stream: *mut Stream) {
    // SAFETY: as for `release_schema`.
    unsafe {
        drop(Box::from_raw((*stream).private_data.cast::<StreamOwned>()));
        (*stream).release = None;
    }
}

unsafe extern "C" fn get_schema(stream: *mut Stream, out: *mut Schema) -> c_int {
    // SAFETY: the caller passes a live stream and a place for a struct, whose old bytes mean
    // nothing.
    unsafe {
        let owned = &*(*stream).private_data.cast::<StreamOwned>();
        out.write(Schema::of(&owned.columns));
    }
    0
}

unsafe extern "C" fn get_next(stream: *mut Stream, out: *mut Array) -> c_int {
    // SAFETY: as for `get_schema`. The end of a stream is a struct without a release.
    unsafe {
        let owned = &mut *(*stream).private_data.cast::<StreamOwned>();
        match std::mem::replace(&mut owned.ended, true) {
            true => out.write_bytes(0, 1),
            false => out.write(Array::of(&owned.columns)),
        }
    }
    0
}

/// Nothing in here fails.
unsafe extern "C" fn get_last_error(_stream: *mut Stream) -> *const c_char {
    null()
}
