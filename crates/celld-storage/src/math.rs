//! The mathematical functions of SQL, which the bundled SQLite is built without.
//!
//! As in SQLite, an argument that is not a number, and a result that is none, give NULL.

use std::ffi::{CStr, c_int, c_void};

use rusqlite::ffi;

/// How a function takes its arguments.
#[derive(Clone, Copy)]
enum Shape {
    Constant(f64),
    One(fn(f64) -> f64),
    /// Integers pass through as they are.
    Round(fn(f64) -> f64),
    Two(fn(f64, f64) -> f64),
}

impl Shape {
    fn arguments(self) -> c_int {
        match self {
            Self::Constant(_) => 0,
            Self::One(_) | Self::Round(_) => 1,
            Self::Two(_) => 2,
        }
    }
}

static FUNCTIONS: &[(&CStr, Shape)] = &[
    (c"acos", Shape::One(f64::acos)),
    (c"acosh", Shape::One(f64::acosh)),
    (c"asin", Shape::One(f64::asin)),
    (c"asinh", Shape::One(f64::asinh)),
    (c"atan", Shape::One(f64::atan)),
    (c"atan2", Shape::Two(f64::atan2)),
    (c"atanh", Shape::One(f64::atanh)),
    (c"ceil", Shape::Round(f64::ceil)),
    (c"ceiling", Shape::Round(f64::ceil)),
    (c"cos", Shape::One(f64::cos)),
    (c"cosh", Shape::One(f64::cosh)),
    (c"degrees", Shape::One(f64::to_degrees)),
    (c"exp", Shape::One(f64::exp)),
    (c"floor", Shape::Round(f64::floor)),
    (c"ln", Shape::One(|x| logarithm(x, f64::ln))),
    (c"log", Shape::One(|x| logarithm(x, f64::log10))),
    (
        c"log",
        Shape::Two(|base, x| match logarithm(base, f64::ln) {
            // A base of 1 or less is none.
            divisor if divisor <= 0.0 => f64::NAN,
            divisor => logarithm(x, f64::ln) / divisor,
        }),
    ),
    (c"log10", Shape::One(|x| logarithm(x, f64::log10))),
    (c"log2", Shape::One(|x| logarithm(x, f64::log2))),
    (c"mod", Shape::Two(|x, y| x % y)),
    (c"pi", Shape::Constant(std::f64::consts::PI)),
    (c"pow", Shape::Two(f64::powf)),
    (c"power", Shape::Two(f64::powf)),
    (c"radians", Shape::One(f64::to_radians)),
    (c"sin", Shape::One(f64::sin)),
    (c"sinh", Shape::One(f64::sinh)),
    (c"sqrt", Shape::One(f64::sqrt)),
    (c"tan", Shape::One(f64::tan)),
    (c"tanh", Shape::One(f64::tanh)),
    (c"trunc", Shape::Round(f64::trunc)),
];

/// SQL has NULL where mathematics has minus infinity.
fn logarithm(x: f64, log: fn(f64) -> f64) -> f64 {
    if x > 0.0 { log(x) } else { f64::NAN }
}

/// Adds the functions to a connection.
///
/// # Safety
/// `db` is an open connection, used by this thread only during the call.
pub(crate) unsafe fn register(db: *mut ffi::sqlite3) {
    for (name, shape) in FUNCTIONS {
        let data: *const Shape = shape;
        // SAFETY: the caller's promise; the name is a C string, and the shape is static, so it
        // outlives the connection. `call` only reads it.
        unsafe {
            ffi::sqlite3_create_function_v2(
                db,
                name.as_ptr(),
                shape.arguments(),
                ffi::SQLITE_UTF8 | ffi::SQLITE_DETERMINISTIC | ffi::SQLITE_INNOCUOUS,
                data.cast_mut().cast::<c_void>(),
                Some(call),
                None,
                None,
                None,
            );
        }
    }
}

/// # Safety
/// `values` holds `count` arguments of a function call that SQLite is making.
unsafe fn number(values: *mut *mut ffi::sqlite3_value, index: usize, count: c_int) -> Option<f64> {
    if index >= usize::try_from(count).ok()? {
        return None;
    }
    // SAFETY: the index is in range, and arguments are valid during the call.
    unsafe {
        let value = *values.add(index);
        match ffi::sqlite3_value_numeric_type(value) {
            ffi::SQLITE_INTEGER | ffi::SQLITE_FLOAT => Some(ffi::sqlite3_value_double(value)),
            _ => None,
        }
    }
}

unsafe extern "C" fn call(
    context: *mut ffi::sqlite3_context,
    count: c_int,
    values: *mut *mut ffi::sqlite3_value,
) {
    // SAFETY: SQLite calls this with the data that `register` gave, with as many valid
    // arguments as it says, and with a context that takes one result.
    unsafe {
        let shape = *ffi::sqlite3_user_data(context).cast::<Shape>();
        let first = number(values, 0, count);
        let result = match (shape, first, number(values, 1, count)) {
            (Shape::Constant(value), _, _) => Some(value),
            (Shape::Round(_), Some(_), _)
                if ffi::sqlite3_value_numeric_type(*values) == ffi::SQLITE_INTEGER =>
            {
                ffi::sqlite3_result_int64(context, ffi::sqlite3_value_int64(*values));
                return;
            }
            (Shape::One(f) | Shape::Round(f), Some(x), _) => Some(f(x)),
            (Shape::Two(f), Some(x), Some(y)) => Some(f(x, y)),
            _ => None,
        };
        match result.filter(|value| !value.is_nan()) {
            Some(value) => ffi::sqlite3_result_double(context, value),
            None => ffi::sqlite3_result_null(context),
        }
    }
}
