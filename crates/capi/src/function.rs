//! Registered functions.

use std::ffi::c_char;

use drystone_function::{Declared, Described, Function, Functions};

use crate::argument::text;
use crate::failure::{Failure, Status, guard};
use crate::region::seconds;

impl From<drystone_function::Error> for Failure {
    fn from(error: drystone_function::Error) -> Self {
        drystone::Error::from(error).into()
    }
}

/// Gives a function a name in this process.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_register_function(
    name: *const c_char,
    function: *const Described,
    deadline: f64,
    memory: u64,
) -> Status {
    guard(|| {
        // SAFETY: pointers are as drystone.h specifies: a text, and a description of a function or NULL.
        let (name, function) = unsafe { (text(name, "the name")?, function.as_ref()) };
        let function = function.ok_or_else(|| Failure::invalid("the function is NULL"))?;
        let deadline = if deadline == 0.0 { Declared::DEADLINE } else { seconds(deadline)? };
        let memory = if memory == 0 { Declared::MEMORY } else { memory };
        // SAFETY: the caller keeps the function and its state, as drystone.h requires.
        let function = unsafe { Function::described(name, function, deadline, memory) }?;
        Functions::of_process().insert(function);
        Ok(())
    })
}
