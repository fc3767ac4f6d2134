//! Operations under way: waited for, or told to a function when they are complete.

use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::library::{Api, Handle};

/// What an operation gave: a count or a negative error number, and the version of the object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    pub(crate) code: c_int,
    pub(crate) version: u64,
}

type Told = Box<dyn FnOnce(Outcome) + Send>;

/// What a completion carries.
struct Carried {
    api: &'static Api,
    told: Told,
    under_way: UnderWay,
}

/// Counts operations that were started and not told, so that nobody closes a connection under them.
#[derive(Clone, Default)]
pub(crate) struct UnderWay(Arc<(Mutex<usize>, Condvar)>);

impl UnderWay {
    fn count(&self) -> MutexGuard<'_, usize> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begins(&self) {
        *self.count() += 1;
    }

    fn ends(&self) {
        *self.count() -= 1;
        self.0.1.notify_all();
    }

    /// Waits until there are none. Every operation ends: it has a deadline.
    pub(crate) fn settle(&self) {
        let mut count = self.count();
        while *count > 0 {
            count = self.0.1.wait(count).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Starts an operation and waits for it. Buffers that `start` hands to librados need to live no longer than this call.
pub(crate) fn wait(api: &'static Api, start: impl FnOnce(Handle) -> c_int) -> Outcome {
    let mut completion = std::ptr::null_mut();
    // SAFETY: the place for the handle is ours.
    let made = unsafe { (api.rados_aio_create_completion2)(std::ptr::null_mut(), None, &mut completion) };
    if made < 0 {
        return Outcome { code: made, version: 0 };
    }
    let code = start(completion);
    // SAFETY: the completion was made above and is released once. An operation that was not started is not waited for.
    unsafe {
        let outcome = match code {
            0.. => {
                (api.rados_aio_wait_for_complete)(completion);
                let code = (api.rados_aio_get_return_value)(completion);
                Outcome { code, version: (api.rados_aio_get_version)(completion) }
            }
            _ => Outcome { code, version: 0 },
        };
        (api.rados_aio_release)(completion);
        outcome
    }
}

/// Starts an operation; `told` is called with its outcome, in a thread of librados, or here if it could not be started.
/// Buffers that `start` hands to librados must live until then.
pub(crate) fn tell(api: &'static Api, under_way: &UnderWay, start: impl FnOnce(Handle) -> c_int, told: Told) {
    under_way.begins();
    let carried = Box::into_raw(Box::new(Carried { api, told, under_way: under_way.clone() }));
    let mut completion = std::ptr::null_mut();
    // SAFETY: the place for the handle is ours; what is carried lives until `complete` takes it.
    let made = unsafe {
        (api.rados_aio_create_completion2)(carried.cast::<c_void>(), Some(complete), &mut completion)
    };
    let code = if made < 0 { made } else { start(completion) };
    if code < 0 {
        // SAFETY: an operation that was not started calls nothing, so what is carried is still ours alone.
        let carried = unsafe { Box::from_raw(carried) };
        if made >= 0 {
            // SAFETY: made above, released once.
            unsafe { (api.rados_aio_release)(completion) };
        }
        (carried.told)(Outcome { code, version: 0 });
        carried.under_way.ends();
    }
}

/// Called by librados, once for each operation.
unsafe extern "C" fn complete(completion: Handle, carried: *mut c_void) {
    // SAFETY: it is the box that `tell` gave away, and this is the only call for it.
    let Carried { api, told, under_way } = *unsafe { Box::from_raw(carried.cast::<Carried>()) };
    // SAFETY: the completion is complete; librados holds it on its own until this returns.
    let outcome = unsafe {
        let code = (api.rados_aio_get_return_value)(completion);
        let outcome = Outcome { code, version: (api.rados_aio_get_version)(completion) };
        (api.rados_aio_release)(completion);
        outcome
    };
    // A panic must not unwind into librados; whoever waits is told by the dropped completer.
    let _ = catch_unwind(AssertUnwindSafe(move || told(outcome)));
    under_way.ends();
}
