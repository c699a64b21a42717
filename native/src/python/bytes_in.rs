//! The bytes of a Python object, without a copy.
//!
//! The exception to "no unsafe code": Python's buffer protocol is C, and PyO3 offers it only from Python 3.11 on, where
//! it became part of the stable ABI. The two functions and the structure have been the same in every Python since 3.0,
//! so this file declares them for 3.10, too.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};
use std::ptr::{null, null_mut};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

#[repr(C)]
struct View {
    buf: *const u8,
    obj: *mut pyo3::ffi::PyObject,
    len: isize,
    itemsize: isize,
    readonly: c_int,
    ndim: c_int,
    format: *mut c_char,
    shape: *mut isize,
    strides: *mut isize,
    suboffsets: *mut isize,
    internal: *mut c_void,
}

const PLAIN: c_int = 0;

extern "C" {
    fn PyObject_GetBuffer(object: *mut pyo3::ffi::PyObject, view: *mut View, flags: c_int) -> c_int;
    fn PyBuffer_Release(view: *mut View);
}

/// The bytes of an object with a contiguous buffer. While this value lives, the object cannot be resized, and no code
/// may write into it.
pub struct Bytes {
    view: Box<View>,
}

// SAFETY: the memory is only read; extract() and drop() run with the interpreter's lock
unsafe impl Send for Bytes {}
unsafe impl Sync for Bytes {}

impl Bytes {
    pub fn as_slice(&self) -> &[u8] {
        match usize::try_from(self.view.len) {
            // SAFETY: the exporter promised this many readable bytes until the view is released; see drop()
            Ok(len @ 1..) if !self.view.buf.is_null() => unsafe { std::slice::from_raw_parts(self.view.buf, len) },
            _ => &[],
        }
    }

    pub fn len(&self) -> usize {
        self.as_slice().len()
    }
}

impl<'py> FromPyObject<'_, 'py> for Bytes {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Bytes> {
        let mut view = Box::new(View {
            buf: null(),
            obj: null_mut(),
            len: 0,
            itemsize: 0,
            readonly: 0,
            ndim: 0,
            format: null_mut(),
            shape: null_mut(),
            strides: null_mut(),
            suboffsets: null_mut(),
            internal: null_mut(),
        });
        // SAFETY: the object is alive, the interpreter's lock is held, the view is zeroed memory of the right layout
        if unsafe { PyObject_GetBuffer(object.as_ptr(), &raw mut *view, PLAIN) } != 0 {
            return Err(PyErr::take(object.py()).unwrap_or_else(|| PyTypeError::new_err("bytes are wanted")));
        }
        Ok(Bytes { view })
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        // SAFETY: taken by extract(), released once, and with the interpreter's lock
        Python::attach(|_| unsafe { PyBuffer_Release(&raw mut *self.view) });
    }
}
