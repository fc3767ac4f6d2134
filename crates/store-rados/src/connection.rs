//! A cluster handle and an I/O context of this process.
//!
//! librados has threads, which a fork does not copy: a child makes a connection of its own, and leaves the parent's
//! alone.

use std::ffi::{CStr, CString, c_int};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use drystone_store::process_id;

use crate::completion::UnderWay;
use crate::library::{Api, Handle, api};
use crate::order::Queue;
use crate::{Address, Options};

/// What a pool is reached by. Both handles may be used by any number of threads.
pub(crate) struct Connection {
    pub(crate) api: &'static Api,
    pub(crate) cluster: Handle,
    pub(crate) io: Handle,
    process: u32,
    pub(crate) fsid: String,
    pub(crate) under_way: UnderWay,
    pub(crate) queue: Queue,
}

// SAFETY: librados documents cluster handles and I/O contexts as usable by several threads at once; what is set on the
// context, its namespace, is set before it is shared.
unsafe impl Send for Connection {}
// SAFETY: as above.
unsafe impl Sync for Connection {}

/// Why a pool cannot be reached.
#[derive(Clone, Debug)]
pub(crate) enum Unreachable {
    /// The library is not there.
    Library(String),
    /// What was attempted, and the error number.
    Failed(String, c_int),
}

impl Connection {
    fn new(address: &Address, options: &Options) -> Result<Connection, Unreachable> {
        let api = api().map_err(Unreachable::Library)?;
        let text = |value: &str| {
            CString::new(value)
                .map_err(|_| Unreachable::Failed("use an option with a zero byte in it".into(), -22))
        };
        let check = |what: &str, code: c_int| match code {
            0.. => Ok(()),
            _ => Err(Unreachable::Failed(what.to_owned(), code)),
        };
        let user = options.user.as_deref().map(text).transpose()?;
        let conf = options.conf.as_deref().map(text).transpose()?;
        let pointer = |text: &Option<CString>| text.as_ref().map_or(std::ptr::null(), |text| text.as_ptr());
        let mut cluster = std::ptr::null_mut();
        // SAFETY: the place for the handle is ours; the name is null or ends with a zero.
        check("make a client", unsafe { (api.rados_create)(&mut cluster, pointer(&user)) })?;
        let (io, process) = (std::ptr::null_mut(), process_id());
        // From here on dropping it shuts the handle down.
        let mut made = Connection {
            api,
            cluster,
            io,
            process,
            fsid: String::new(),
            under_way: UnderWay::default(),
            queue: Queue::default(),
        };
        // SAFETY: the handle was made above; the file's name is null or ends with a zero.
        let read = unsafe { (api.rados_conf_read_file)(cluster, pointer(&conf)) };
        let has_mon = options.settings.iter().any(|(name, _)| name == "mon_host");
        if conf.is_some() || !has_mon {
            let named = options.conf.clone().or_else(|| std::env::var("CEPH_CONF").ok());
            let named = named.unwrap_or_else(|| "/etc/ceph/ceph.conf".into());
            check(&format!("read the configuration {named}"), read)?;
        }
        // SAFETY: as above; a null name is CEPH_ARGS.
        check("read CEPH_ARGS", unsafe { (api.rados_conf_parse_env)(cluster, std::ptr::null()) })?;
        let timeout = options.timeout.to_string();
        let timeouts = ["rados_osd_op_timeout", "rados_mon_op_timeout", "client_mount_timeout"];
        // Several clients of one process have no socket for administrators.
        let own = timeouts.into_iter().map(|name| (name, timeout.as_str())).chain([("admin_socket", "")]);
        let said = options.settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in own.chain(said) {
            let (name_text, value) = (text(name)?, text(value)?);
            // SAFETY: both texts end with a zero.
            let set = unsafe { (api.rados_conf_set)(cluster, name_text.as_ptr(), value.as_ptr()) };
            check(&format!("set {name}"), set)?;
        }
        // SAFETY: the handle is configured and not yet connected.
        check("connect to the cluster", unsafe { (api.rados_connect)(cluster) })?;
        let mut fsid = [0u8; 64];
        // SAFETY: the buffer is as long as is said.
        let len = unsafe { (api.rados_cluster_fsid)(cluster, fsid.as_mut_ptr().cast(), fsid.len()) };
        check("ask for the cluster's id", len)?;
        made.fsid = CStr::from_bytes_until_nul(&fsid)
            .map_or_else(|_| String::new(), |id| id.to_string_lossy().into_owned());
        let (pool, namespace) = (text(address.pool())?, text(address.namespace())?);
        // SAFETY: connected; the place for the handle is ours and the name ends with a zero.
        let opened = unsafe { (api.rados_ioctx_create)(cluster, pool.as_ptr(), &mut made.io) };
        check(&format!("open the pool {:?}", address.pool()), opened)?;
        // SAFETY: the context was made above and is not yet shared.
        unsafe { (api.rados_ioctx_set_namespace)(made.io, namespace.as_ptr()) };
        Ok(made)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The threads of a parent's handle are not here.
        if self.process != process_id() {
            return;
        }
        self.under_way.settle();
        // SAFETY: the handles are this process's, and nothing else uses them any more.
        unsafe {
            if !self.io.is_null() {
                (self.api.rados_ioctx_destroy)(self.io);
            }
            (self.api.rados_shutdown)(self.cluster);
        }
    }
}

/// The connections of one store, one for each process that used it; without a lock, which a fork could find held.
pub(crate) struct Connections {
    newest: AtomicPtr<Node>,
}

struct Node {
    process: u32,
    connection: Arc<Connection>,
    next: *mut Node,
}

impl Connections {
    pub(crate) fn new() -> Self {
        Connections { newest: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// That of this process, made if there is none.
    pub(crate) fn get(&self, address: &Address, options: &Options) -> Result<Arc<Connection>, Unreachable> {
        let process = process_id();
        let mut at = self.newest.load(Ordering::Acquire);
        // SAFETY: nodes are freed only with the store, and are not changed once they are in the list.
        while let Some(node) = unsafe { at.as_ref() } {
            if node.process == process {
                return Ok(node.connection.clone());
            }
            at = node.next;
        }
        let connection = Arc::new(Connection::new(address, options)?);
        let node = Box::into_raw(Box::new(Node {
            process,
            connection: connection.clone(),
            next: std::ptr::null_mut(),
        }));
        let mut newest = self.newest.load(Ordering::Acquire);
        loop {
            // SAFETY: the node is ours alone until it is in the list.
            unsafe { (*node).next = newest };
            match self.newest.compare_exchange_weak(newest, node, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Ok(connection),
                Err(found) => newest = found,
            }
        }
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        let mut at = *self.newest.get_mut();
        while !at.is_null() {
            // SAFETY: the list is ours alone now, and each node is in it once.
            let node = unsafe { Box::from_raw(at) };
            at = node.next;
            if node.process != process_id() {
                std::mem::forget(node.connection);
            }
        }
    }
}
