//! Objects in memory: the reference implementation, and the volatile tier.
//!
//! Each object has its own lock, so that readers of one object do not wait for the writer of another. As with files, a
//! reader that has an object open while it is replaced or deleted keeps the old bytes.
//!
//! At the moment of a fork other threads may hold its locks, so a child process must not use it.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::key::invalid;
use crate::request::end_within;
use crate::{
    Features, ListEntry, LocalFiles, Pending, PutMode, Request, Result, Store, StoreError, Upload,
    validate_key, validate_prefix,
};

type Object = Arc<RwLock<Vec<u8>>>;

/// A store in the memory of this process. Clones share their objects.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    objects: Arc<RwLock<BTreeMap<String, Object>>>,
}

// A panic while a lock is held can only come from a failed allocation, before anything was changed.
fn reading<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn writing<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn object(&self, key: &str) -> Result<Object> {
        validate_key(key)?;
        reading(&self.objects).get(key).cloned().ok_or_else(|| self.not_found(key))
    }

    fn not_found(&self, key: &str) -> StoreError {
        StoreError::NotFound { key: key.to_owned(), store: self.describe() }
    }

    fn already_exists(&self, key: &str) -> StoreError {
        StoreError::AlreadyExists { key: key.to_owned(), store: self.describe() }
    }
}

/// Checks that, as in a file system, no object is also a folder.
fn check_place(objects: &BTreeMap<String, Object>, key: &str) -> Result<()> {
    if key.match_indices('/').any(|(end, _)| objects.contains_key(&key[..end])) {
        return Err(invalid(key, "a part of its path is itself an object"));
    }
    let folder = format!("{key}/");
    match objects.range(folder.clone()..).next() {
        Some((next, _)) if next.starts_with(&folder) => {
            Err(invalid(key, "it is the folder of other objects"))
        }
        _ => Ok(()),
    }
}

impl Store for MemoryStore {
    fn features(&self) -> Features {
        Features {
            append: true,
            write_at: true,
            exec: false,
            sync: false,
            put_is_durable: false,
            uploads: false,
            far: None,
            targets: 0,
        }
    }

    fn describe(&self) -> String {
        "memory store".into()
    }

    fn device(&self) -> Option<String> {
        None
    }

    fn local(&self) -> Option<&dyn LocalFiles> {
        None
    }

    /// No other process can replace this store.
    fn watch(&self, key: &str) -> Result<bool> {
        self.object(key).map(|_| true)
    }

    fn unchanged(&self) -> Result<()> {
        Ok(())
    }

    fn len(&self, key: &str) -> Result<u64> {
        Ok(reading(&*self.object(key)?).len() as u64)
    }

    fn read(&self, key: &str, offset: u64, out: &mut [u8]) -> Result<()> {
        let object = self.object(key)?;
        if out.is_empty() {
            return Ok(());
        }
        let bytes = reading(&object);
        let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)).unwrap_or_default();
        match rest.get(..out.len()) {
            Some(wanted) => {
                out.copy_from_slice(wanted);
                Ok(())
            }
            None => Err(StoreError::ShortRead {
                key: key.to_owned(),
                store: self.describe(),
                offset,
                wanted: out.len() as u64,
                got: rest.len() as u64,
            }),
        }
    }

    fn read_whole(&self, key: &str, limit: u64) -> Result<std::result::Result<Vec<u8>, u64>> {
        let object = self.object(key)?;
        let bytes = reading(&object);
        let len = bytes.len() as u64;
        Ok(if len <= limit { Ok(bytes.clone()) } else { Err(len) })
    }

    fn append(&self, key: &str, at: u64, parts: &[&[u8]]) -> Result<()> {
        validate_key(key)?;
        if at == 0 {
            let mut objects = writing(&self.objects);
            if objects.contains_key(key) {
                return Err(self.already_exists(key));
            }
            check_place(&objects, key)?;
            objects.insert(key.to_owned(), Arc::new(RwLock::new(parts.concat())));
            return Ok(());
        }
        let object = self.object(key)?;
        let mut bytes = writing(&object);
        if bytes.len() as u64 != at {
            let found = bytes.len() as u64;
            return Err(StoreError::Conflict {
                key: key.to_owned(),
                store: self.describe(),
                expected: at,
                found,
            });
        }
        bytes.reserve(parts.iter().map(|part| part.len()).sum());
        for part in parts {
            bytes.extend_from_slice(part);
        }
        Ok(())
    }

    fn write_at(&self, key: &str, parts: &[(u64, &[u8])], len: u64) -> Result<()> {
        validate_key(key)?;
        let object = self.object(key)?;
        let mut bytes = writing(&object);
        let found = bytes.len() as u64;
        if len < found || !end_within(parts, len) {
            let (key, store) = (key.to_owned(), self.describe());
            return Err(StoreError::Conflict { key, store, expected: len, found });
        }
        bytes.resize(len as usize, 0);
        for (at, data) in parts {
            bytes[*at as usize..][..data.len()].copy_from_slice(data);
        }
        Ok(())
    }

    fn put(&self, key: &str, parts: &[&[u8]], mode: PutMode, _sync: bool) -> Result<()> {
        validate_key(key)?;
        let object = Arc::new(RwLock::new(parts.concat()));
        let mut objects = writing(&self.objects);
        if mode == PutMode::IfAbsent && objects.contains_key(key) {
            return Err(self.already_exists(key));
        }
        check_place(&objects, key)?;
        objects.insert(key.to_owned(), object);
        Ok(())
    }

    fn upload(&self, key: &str) -> Result<Box<dyn Upload>> {
        validate_key(key)?;
        Err(StoreError::Unsupported {
            operation: format!("upload in pieces (of '{key}')"),
            store: self.describe(),
        })
    }

    fn list(&self, prefix: &str) -> Result<Vec<ListEntry>> {
        validate_prefix(prefix)?;
        let objects = reading(&self.objects);
        let matching = objects.range(prefix.to_owned()..).take_while(|(key, _)| key.starts_with(prefix));
        Ok(matching
            .map(|(key, object)| ListEntry { key: key.clone(), len: reading(object).len() as u64 })
            .collect())
    }

    fn delete(&self, key: &str) -> Result<()> {
        validate_key(key)?;
        writing(&self.objects).remove(key);
        Ok(())
    }

    fn sweep(&self, prefix: &str, _older: std::time::Duration) -> Result<u64> {
        validate_prefix(prefix)?;
        Ok(0)
    }

    fn sync(&self, keys: &[&str]) -> Result<()> {
        keys.iter().try_for_each(|key| self.object(key).map(drop))
    }

    fn exec(&self, key: &str, method: &str, _input: &[u8]) -> Result<Vec<u8>> {
        validate_key(key)?;
        Err(StoreError::Unsupported { operation: format!("exec of '{method}'"), store: self.describe() })
    }

    fn submit(&self, request: Request) -> Pending {
        Pending::completed(request.execute_on(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_their_objects() {
        let store = MemoryStore::new();
        store.clone().put("k", &[b"v"], PutMode::IfAbsent, false).unwrap();
        assert_eq!(store.len("k").unwrap(), 1);
    }

    #[test]
    fn an_object_cannot_be_a_folder_as_well() {
        let store = MemoryStore::new();
        store.put("a/b", &[b""], PutMode::IfAbsent, false).unwrap();
        for key in ["a", "a/b/c"] {
            let outcome = store.put(key, &[b""], PutMode::Replace, false);
            assert!(matches!(outcome, Err(StoreError::InvalidKey { .. })), "{key}: {outcome:?}");
            assert!(matches!(store.append(key, 0, &[]), Err(StoreError::InvalidKey { .. })), "{key}");
        }
        store.put("a-b", &[b""], PutMode::IfAbsent, false).unwrap();
        store.put("a/bc", &[b""], PutMode::IfAbsent, false).unwrap();
    }
}
