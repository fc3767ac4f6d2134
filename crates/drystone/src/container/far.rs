//! Containers at URLs: which store a URL denotes, and which operations it permits.
//!
//! The stores are behind the features `object` and `rados`, so programs on local files need not compile them. Without
//! the features, this module refuses every URL with the same message.

use std::sync::Arc;

use drystone_format::keys;
use drystone_store::{Credentials, LocalStore, Reply, Request, Store, StoreExt};

use super::Container;
use super::cache::{self, CacheFolder};
use super::location::is_url;
use super::options::{Mode, StoreOptions};
use super::targets;
use crate::{Error, Result};

pub(super) use found::{Presence, presence};

/// The URL scheme of Ceph.
const RADOS: &str = "rados";

/// The store at a path or URL, without any wrapper. For programs that pass its objects on, such as a server.
pub fn open_store(place: &str, options: &[(String, String)]) -> Result<Arc<dyn Store>> {
    if is_url(place) {
        let (_, options) = CacheFolder::take(options, true)?;
        return found::store(place, &options, None);
    }
    let (store, _) = targets::with_targets(LocalStore::open(place, false)?)?;
    Ok(Arc::new(store))
}

/// The holder of each object of the container at a path or URL, by key: the folder of a storage target, or a storage
/// daemon of Ceph (`osd.3`). `None` for an object that lies where the container does, or that no daemon serves now.
///
/// Errors: `Unsupported` if the store does not report holders; `InvalidArgument` if the container has no targets.
pub fn holders(place: &str, options: &[(String, String)], keys: &[String]) -> Result<Vec<Option<String>>> {
    if !is_url(place) {
        return targets::holders(place.as_ref(), keys);
    }
    match place.split_once("://") {
        Some((RADOS, _)) => {
            let (_, options) = CacheFolder::take(options, true)?;
            in_ceph::holders(place, &options, keys)
        }
        _ => Err(Error::unsupported(format!(
            "{place}: only Ceph and folders with storage targets report the holder of an object"
        ))),
    }
}

/// The options of a far store that are not secret. They may be stored, to open it again elsewhere.
pub fn public_options(options: &[(String, String)]) -> Vec<(String, String)> {
    let (cache, rest): (Vec<_>, Vec<_>) =
        options.iter().cloned().partition(|(name, _)| cache::is_option(name));
    let mut public = found::public(&rest);
    public.extend(cache);
    public
}

/// The store at a URL.
pub(super) fn store(
    url: &str,
    values: &[(String, String)],
    credentials: Option<Arc<dyn Credentials>>,
) -> Result<Arc<dyn Store>> {
    found::store(url, values, credentials)
}

/// Refuses writing to a store that is read-only.
pub(super) fn check(url: &str, store: &dyn Store, mode: Mode) -> Result<()> {
    if mode != Mode::Read && found::is_read_only(url) {
        return Err(Error::unsupported(format!(
            "{} is behind a web server, which is read only; open it with mode \"r\"",
            store.describe()
        )));
    }
    Ok(())
}

impl Container {
    /// Removes the container at a URL, and nothing else below the URL. Succeeds if there is none.
    ///
    /// Errors: `Conflict` if objects have names of a container's parts but belong to no container.
    pub fn remove_url(url: &str, options: &StoreOptions) -> Result<()> {
        const FOLDERS: [&str; 7] =
            ["log/", "index/", "manifest/", "publish/", "zarr/", "netcdf/", keys::STAGED];
        let (_, values) = options.parted(true)?;
        let store = found::store(url, &values, options.credentials.clone())?;
        if !store.exists(keys::IDENTITY)? {
            let left = store.together(FOLDERS.map(|prefix| Request::List { prefix: prefix.into() }).into());
            for listed in left {
                if let Reply::Listed { entries } = listed?
                    && let Some(entry) = entries.first()
                {
                    return Err(Error::conflict(format!(
                        "{} is not a container, but has {}: overwriting replaces containers only",
                        store.describe(),
                        entry.key
                    )));
                }
            }
            return Ok(());
        }
        // Without its identity it is no longer a container, even if a later deletion fails.
        store.delete(keys::IDENTITY)?;
        for prefix in FOLDERS.into_iter().chain([keys::PARITY, keys::FILES]) {
            let mut found = store.list(prefix)?;
            // Other programs may have objects below these prefixes.
            found.retain(|entry| match prefix {
                keys::STAGED => keys::parse_staged(&entry.key).is_some(),
                keys::PARITY => keys::parse_group(&entry.key).is_some(),
                keys::FILES => keys::parse_files(&entry.key).is_some(),
                _ => true,
            });
            let found: Vec<String> = found.into_iter().map(|entry| entry.key).collect();
            store.delete_all(&found)?;
        }
        // A removal whose connection broke may be executed late. Then it would remove an object of the next container.
        if let Some(time) = store.features().far.and_then(|far| far.unsettled) {
            std::thread::sleep(time);
        }
        Ok(())
    }
}

#[cfg(feature = "object")]
mod found {
    use std::sync::Arc;

    use drystone_client::ServerStore;
    use drystone_store::{Credentials, Store};
    use drystone_store_object::{Address, FarStore, Options, SCHEMES, Scheme};

    use crate::{Error, Result};

    pub(super) fn store(
        url: &str,
        options: &[(String, String)],
        who: Option<Arc<dyn Credentials>>,
    ) -> Result<Arc<dyn Store>> {
        let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
        if scheme == super::RADOS {
            return super::in_ceph::store(url, options);
        }
        if drystone_client::SCHEMES.contains(&scheme) {
            if who.is_some() {
                return Err(Error::invalid("a Drystone server takes a token, not a credentials callback"));
            }
            let options = drystone_client::Options::new(options.iter().cloned());
            let opened =
                ServerStore::open(url, &options).map_err(|error| Error::invalid(error.to_string()))?;
            return Ok(Arc::new(opened));
        }
        let options = Options::new(options.iter().cloned());
        let options = match who {
            Some(who) => options.with_credentials(who),
            None => options,
        };
        match FarStore::open(url, &options) {
            Ok(store) => Ok(Arc::new(store)),
            Err(error) if !SCHEMES.contains(&scheme) && Address::parse(url).is_err() => {
                Err(Error::unsupported(format!("{error}, {}", drystone_client::SCHEMES.join(", "))))
            }
            Err(error) => Err(Error::invalid(error.to_string())),
        }
    }

    /// Signals to the server of a container that the container is open.
    pub(in crate::container) type Presence = drystone_client::Presence;

    pub(in crate::container) fn presence(place: &str) -> Option<Presence> {
        Presence::of(place)
    }

    pub(super) fn is_read_only(url: &str) -> bool {
        Address::parse(url).is_ok_and(|address| address.scheme() == Scheme::Http)
    }

    pub(super) fn public(options: &[(String, String)]) -> Vec<(String, String)> {
        let ceph: Vec<_> =
            options.iter().filter(|(name, _)| super::in_ceph::is_public(name)).cloned().collect();
        let of_servers = drystone_client::Options::new(options.iter().cloned());
        let options = Options::new(options.iter().cloned());
        let mut public: Vec<_> = options
            .public()
            .chain(of_servers.public())
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        public.extend(ceph);
        public.sort();
        public.dedup();
        public
    }
}

#[cfg(not(feature = "object"))]
mod found {
    use std::sync::Arc;

    use drystone_store::{Credentials, Store};

    use crate::{Error, Result};

    pub(super) fn store(
        url: &str,
        options: &[(String, String)],
        _who: Option<Arc<dyn Credentials>>,
    ) -> Result<Arc<dyn Store>> {
        let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
        if scheme == super::RADOS {
            return super::in_ceph::store(url, options);
        }
        Err(Error::unsupported(format!(
            "{scheme}:// is not built in: this build stores in local directories only; use one with the feature \"object\""
        )))
    }

    pub(in crate::container) type Presence = std::convert::Infallible;

    pub(in crate::container) fn presence(_place: &str) -> Option<Presence> {
        None
    }

    pub(super) fn is_read_only(_url: &str) -> bool {
        false
    }

    pub(super) fn public(options: &[(String, String)]) -> Vec<(String, String)> {
        options.iter().filter(|(name, _)| super::in_ceph::is_public(name)).cloned().collect()
    }
}

#[cfg(feature = "rados")]
mod in_ceph {
    use std::sync::Arc;

    use drystone_store::Store;
    use drystone_store_rados::{Options, RadosStore};

    use crate::{Error, Result};

    fn opened(url: &str, options: &[(String, String)]) -> Result<RadosStore> {
        let options = options.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let opened = Options::new(options).and_then(|options| RadosStore::open(url, options));
        opened.map_err(|error| Error::invalid(error.to_string()))
    }

    pub(super) fn store(url: &str, options: &[(String, String)]) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(opened(url, options)?))
    }

    pub(super) fn holders(
        url: &str,
        options: &[(String, String)],
        keys: &[String],
    ) -> Result<Vec<Option<String>>> {
        Ok(opened(url, options)?.holders(keys)?)
    }

    pub(super) fn is_public(option: &str) -> bool {
        Options::is_public(option)
    }
}

#[cfg(not(feature = "rados"))]
mod in_ceph {
    use std::sync::Arc;

    use drystone_store::Store;

    use crate::{Error, Result};

    const NOT_BUILT: &str = "rados:// is not built in: use a build with the feature \"rados\"";

    pub(super) fn store(_url: &str, _options: &[(String, String)]) -> Result<Arc<dyn Store>> {
        Err(Error::unsupported(NOT_BUILT))
    }

    pub(super) fn holders(
        _url: &str,
        _options: &[(String, String)],
        _keys: &[String],
    ) -> Result<Vec<Option<String>>> {
        Err(Error::unsupported(NOT_BUILT))
    }

    pub(super) fn is_public(_option: &str) -> bool {
        false
    }
}
