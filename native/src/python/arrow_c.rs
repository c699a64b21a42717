//! Arrow's C data interface: two structures that any Arrow library takes over without a copy.
//!
//! The exception to "no unsafe code": the interface is C, with pointers and a function that frees. `Field` and `Array`
//! describe the exported data, and are safe to make: a buffer is immutable memory, and it holds its owner.
//!
//! Source: <https://arrow.apache.org/docs/format/CDataInterface.html>
#![allow(unsafe_code)]

use std::any::Any;
use std::ffi::{c_char, c_void, CString};
use std::ptr::null_mut;
use std::sync::Arc;

const NULLABLE: i64 = 2;

/// A column's name and type; children of nested types, the values of a dictionary.
pub struct Field {
    pub name: CString,
    pub format: CString,
    pub is_nullable: bool,
    pub children: Vec<Field>,
    pub dictionary: Option<Box<Field>>,
}

/// A column's values: `length` of them from `offset` on.
#[derive(Default)]
pub struct Array {
    pub length: usize,
    pub nulls: usize,
    pub offset: usize,
    pub buffers: Vec<Option<Buffer>>,
    pub children: Vec<Array>,
    pub dictionary: Option<Box<Array>>,
}

/// Memory, and its owner.
pub struct Buffer {
    start: *const c_void,
    owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: the memory belongs to the owner, which may be sent and shared, and is only read
unsafe impl Send for Buffer {}

impl Buffer {
    /// Return a part of the owner's memory as a buffer.
    pub fn of<T: Send + Sync + 'static, U>(owner: &Arc<T>, part: impl Fn(&T) -> &[U]) -> Buffer {
        Buffer { start: part(owner).as_ptr().cast(), owner: owner.clone() }
    }

    /// Return a buffer that owns these numbers.
    pub fn new<U: Send + Sync + 'static>(numbers: Vec<U>) -> Buffer {
        Buffer::of(&Arc::new(numbers), |numbers| numbers.as_slice())
    }
}

#[repr(C)]
pub struct ArrowSchema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut ArrowSchema,
    dictionary: *mut ArrowSchema,
    release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    private_data: *mut c_void,
}

#[repr(C)]
pub struct ArrowArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *const *const c_void,
    children: *mut *mut ArrowArray,
    dictionary: *mut ArrowArray,
    release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    private_data: *mut c_void,
}

// SAFETY: the memory behind their pointers belongs to them alone, or is shared and only read
unsafe impl Send for ArrowSchema {}
unsafe impl Send for ArrowArray {}

struct SchemaParts {
    name: CString,
    format: CString,
    children: Vec<*mut ArrowSchema>,
    dictionary: *mut ArrowSchema,
}

struct ArrayParts {
    buffers: Vec<*const c_void>,
    _owners: Vec<Arc<dyn Any + Send + Sync>>,
    children: Vec<*mut ArrowArray>,
    dictionary: *mut ArrowArray,
}

impl From<Field> for ArrowSchema {
    fn from(field: Field) -> ArrowSchema {
        let mut parts = Box::new(SchemaParts {
            name: field.name,
            format: field.format,
            children: field.children.into_iter().map(|child| Box::into_raw(Box::new(child.into()))).collect(),
            dictionary: field.dictionary.map_or(null_mut(), |values| Box::into_raw(Box::new((*values).into()))),
        });
        ArrowSchema {
            format: parts.format.as_ptr(),
            name: parts.name.as_ptr(),
            metadata: std::ptr::null(),
            flags: if field.is_nullable { NULLABLE } else { 0 },
            n_children: parts.children.len() as i64,
            children: parts.children.as_mut_ptr(),
            dictionary: parts.dictionary,
            release: Some(release_schema),
            private_data: Box::into_raw(parts).cast(),
        }
    }
}

impl From<Array> for ArrowArray {
    fn from(array: Array) -> ArrowArray {
        let start = |buffer: &Option<Buffer>| buffer.as_ref().map_or(std::ptr::null(), |buffer| buffer.start);
        let mut parts = Box::new(ArrayParts {
            buffers: array.buffers.iter().map(start).collect(),
            _owners: array.buffers.into_iter().flatten().map(|buffer| buffer.owner).collect(),
            children: array.children.into_iter().map(|child| Box::into_raw(Box::new(child.into()))).collect(),
            dictionary: array.dictionary.map_or(null_mut(), |values| Box::into_raw(Box::new((*values).into()))),
        });
        ArrowArray {
            length: array.length as i64,
            null_count: array.nulls as i64,
            offset: array.offset as i64,
            n_buffers: parts.buffers.len() as i64,
            n_children: parts.children.len() as i64,
            buffers: parts.buffers.as_ptr(),
            children: parts.children.as_mut_ptr(),
            dictionary: parts.dictionary,
            release: Some(release_array),
            private_data: Box::into_raw(parts).cast(),
        }
    }
}

/// SAFETY, both: called once, by the consumer or by drop(), with what From made. A consumer that moved a child away has
/// marked it as released; its box is ours.
unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    let parts: Box<SchemaParts> = Box::from_raw((*schema).private_data.cast());
    (*schema).release = None;
    for &child in parts.children.iter().chain((!parts.dictionary.is_null()).then_some(&parts.dictionary)) {
        drop(Box::from_raw(child));
    }
}

unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    let parts: Box<ArrayParts> = Box::from_raw((*array).private_data.cast());
    (*array).release = None;
    for &child in parts.children.iter().chain((!parts.dictionary.is_null()).then_some(&parts.dictionary)) {
        drop(Box::from_raw(child));
    }
}

impl Drop for ArrowSchema {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: no consumer has taken it over, or release would be None
            unsafe { release(self) }
        }
    }
}

impl Drop for ArrowArray {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: as above
            unsafe { release(self) }
        }
    }
}
