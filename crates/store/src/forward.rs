//! Macros for wrappers: they forward methods to the inner store.
//!
//! [`Store`](crate::Store) has no default methods, so that no wrapper loses an ability of the inner store by mistake.
//! [`forward!`](crate::forward!) preserves that: a wrapper names each method that it forwards, and a method that is
//! neither named nor written is a compile error.

/// Forwards methods of [`Store`](crate::Store) or [`LocalFiles`](crate::LocalFiles) to a field, inside an `impl` of
/// that trait: `forward!(inner => features, describe);`. The field is written as after `self.`: `inner`, `0`,
/// `shared.home`.
///
/// `forward!(* => ...)` is for pointers, and forwards to what they point to.
#[macro_export]
macro_rules! forward {
    (@to $this:ident [*]) => { (**$this) };
    (@to $this:ident [$($field:tt)+]) => { $this.$($field)+ };
    (@each $to:tt $($method:ident),+ $(,)?) => { $($crate::forward! { @method $method $to })+ };

    (@method features $to:tt) => {
        fn features(&self) -> $crate::Features {
            $crate::forward!(@to self $to).features()
        }
    };
    (@method describe $to:tt) => {
        fn describe(&self) -> String {
            $crate::forward!(@to self $to).describe()
        }
    };
    (@method device $to:tt) => {
        fn device(&self) -> Option<String> {
            $crate::forward!(@to self $to).device()
        }
    };
    (@method local $to:tt) => {
        fn local(&self) -> Option<&dyn $crate::LocalFiles> {
            $crate::forward!(@to self $to).local()
        }
    };
    (@method watch $to:tt) => {
        fn watch(&self, key: &str) -> $crate::Result<bool> {
            $crate::forward!(@to self $to).watch(key)
        }
    };
    (@method unchanged $to:tt) => {
        fn unchanged(&self) -> $crate::Result<()> {
            $crate::forward!(@to self $to).unchanged()
        }
    };
    (@method len $to:tt) => {
        fn len(&self, key: &str) -> $crate::Result<u64> {
            $crate::forward!(@to self $to).len(key)
        }
    };
    (@method read $to:tt) => {
        fn read(&self, key: &str, offset: u64, out: &mut [u8]) -> $crate::Result<()> {
            $crate::forward!(@to self $to).read(key, offset, out)
        }
    };
    (@method read_whole $to:tt) => {
        fn read_whole(
            &self,
            key: &str,
            limit: u64,
        ) -> $crate::Result<::std::result::Result<Vec<u8>, u64>> {
            $crate::forward!(@to self $to).read_whole(key, limit)
        }
    };
    (@method append $to:tt) => {
        fn append(&self, key: &str, at: u64, parts: &[&[u8]]) -> $crate::Result<()> {
            $crate::forward!(@to self $to).append(key, at, parts)
        }
    };
    (@method write_at $to:tt) => {
        fn write_at(&self, key: &str, parts: &[(u64, &[u8])], len: u64) -> $crate::Result<()> {
            $crate::forward!(@to self $to).write_at(key, parts, len)
        }
    };
    (@method put $to:tt) => {
        fn put(
            &self,
            key: &str,
            parts: &[&[u8]],
            mode: $crate::PutMode,
            sync: bool,
        ) -> $crate::Result<()> {
            $crate::forward!(@to self $to).put(key, parts, mode, sync)
        }
    };
    (@method upload $to:tt) => {
        fn upload(&self, key: &str) -> $crate::Result<Box<dyn $crate::Upload>> {
            $crate::forward!(@to self $to).upload(key)
        }
    };
    (@method list $to:tt) => {
        fn list(&self, prefix: &str) -> $crate::Result<Vec<$crate::ListEntry>> {
            $crate::forward!(@to self $to).list(prefix)
        }
    };
    (@method delete $to:tt) => {
        fn delete(&self, key: &str) -> $crate::Result<()> {
            $crate::forward!(@to self $to).delete(key)
        }
    };
    (@method sweep $to:tt) => {
        fn sweep(&self, prefix: &str, older: ::std::time::Duration) -> $crate::Result<u64> {
            $crate::forward!(@to self $to).sweep(prefix, older)
        }
    };
    (@method sync $to:tt) => {
        fn sync(&self, keys: &[&str]) -> $crate::Result<()> {
            $crate::forward!(@to self $to).sync(keys)
        }
    };
    (@method exec $to:tt) => {
        fn exec(&self, key: &str, method: &str, input: &[u8]) -> $crate::Result<Vec<u8>> {
            $crate::forward!(@to self $to).exec(key, method, input)
        }
    };
    (@method submit $to:tt) => {
        fn submit(&self, request: $crate::Request) -> $crate::Pending {
            $crate::forward!(@to self $to).submit(request)
        }
    };

    (@method read_seen $to:tt) => {
        fn read_seen(
            &self,
            key: &str,
            offset: u64,
            out: &mut [u8],
            seen: &mut dyn FnMut(&[u8]),
        ) -> $crate::Result<()> {
            $crate::forward!(@to self $to).read_seen(key, offset, out, seen)
        }
    };
    (@method read_ranges $to:tt) => {
        fn read_ranges(&self, key: &str, ranges: &[(u64, usize)], out: &mut [u8]) -> $crate::Result<()> {
            $crate::forward!(@to self $to).read_ranges(key, ranges, out)
        }
    };
    (@method read_parts $to:tt) => {
        fn read_parts(&self, key: &str, offset: u64, parts: &mut [&mut [u8]]) -> $crate::Result<()> {
            $crate::forward!(@to self $to).read_parts(key, offset, parts)
        }
    };
    (@method prefetch $to:tt) => {
        fn prefetch(&self, key: &str, range: ::std::ops::Range<u64>) {
            $crate::forward!(@to self $to).prefetch(key, range);
        }
    };
    (@method prefetch_shared $to:tt) => {
        fn prefetch_shared(&self, key: &str, range: ::std::ops::Range<u64>) {
            $crate::forward!(@to self $to).prefetch_shared(key, range);
        }
    };
    (@method maps_from $to:tt) => {
        fn maps_from(&self) -> Option<u64> {
            $crate::forward!(@to self $to).maps_from()
        }
    };
    (@method map $to:tt) => {
        fn map(&self, key: &str, ranges: &[::std::ops::Range<u64>]) -> Option<$crate::Mapped> {
            $crate::forward!(@to self $to).map(key, ranges)
        }
    };
    (@method preallocate $to:tt) => {
        fn preallocate(&self, key: &str, at: u64, end: u64) {
            $crate::forward!(@to self $to).preallocate(key, at, end);
        }
    };
    (@method evict $to:tt) => {
        fn evict(&self, key: &str) -> $crate::Result<Option<bool>> {
            $crate::forward!(@to self $to).evict(key)
        }
    };

    (* => $($methods:tt)+) => { $crate::forward! { @each [*] $($methods)+ } };
    ($($field:tt).+ => $($methods:tt)+) => { $crate::forward! { @each [$($field).+] $($methods)+ } };
}

/// Forwards methods of [`LocalFiles`](crate::LocalFiles) to the files that hold an object, inside an `impl` of that
/// trait: `forward_files!(files_of => prefetch, map);`.
///
/// `files_of` is a method of the wrapper that takes a key and returns `Option<&dyn LocalFiles>`. Where it returns
/// `None`, reads go through the wrapper's requests ([`by_requests`](crate::by_requests)), and hints do nothing.
#[macro_export]
macro_rules! forward_files {
    (@method read_seen $files_of:ident) => {
        fn read_seen(
            &self,
            key: &str,
            offset: u64,
            out: &mut [u8],
            seen: &mut dyn FnMut(&[u8]),
        ) -> $crate::Result<()> {
            match self.$files_of(key) {
                Some(files) => files.read_seen(key, offset, out, seen),
                None => $crate::by_requests::read_seen(self, key, offset, out, seen),
            }
        }
    };
    (@method read_ranges $files_of:ident) => {
        fn read_ranges(&self, key: &str, ranges: &[(u64, usize)], out: &mut [u8]) -> $crate::Result<()> {
            match self.$files_of(key) {
                Some(files) => files.read_ranges(key, ranges, out),
                None => $crate::by_requests::read_ranges(self, key, ranges, out),
            }
        }
    };
    (@method read_parts $files_of:ident) => {
        fn read_parts(&self, key: &str, offset: u64, parts: &mut [&mut [u8]]) -> $crate::Result<()> {
            match self.$files_of(key) {
                Some(files) => files.read_parts(key, offset, parts),
                None => $crate::by_requests::read_parts(self, key, offset, parts),
            }
        }
    };
    (@method prefetch $files_of:ident) => {
        fn prefetch(&self, key: &str, range: ::std::ops::Range<u64>) {
            if let Some(files) = self.$files_of(key) {
                files.prefetch(key, range);
            }
        }
    };
    (@method prefetch_shared $files_of:ident) => {
        fn prefetch_shared(&self, key: &str, range: ::std::ops::Range<u64>) {
            if let Some(files) = self.$files_of(key) {
                files.prefetch_shared(key, range);
            }
        }
    };
    (@method map $files_of:ident) => {
        fn map(&self, key: &str, ranges: &[::std::ops::Range<u64>]) -> Option<$crate::Mapped> {
            self.$files_of(key)?.map(key, ranges)
        }
    };
    (@method preallocate $files_of:ident) => {
        fn preallocate(&self, key: &str, at: u64, end: u64) {
            if let Some(files) = self.$files_of(key) {
                files.preallocate(key, at, end);
            }
        }
    };
    (@method evict $files_of:ident) => {
        fn evict(&self, key: &str) -> $crate::Result<Option<bool>> {
            self.$files_of(key).map_or(Ok(None), |files| files.evict(key))
        }
    };

    ($files_of:ident => $($method:ident),+ $(,)?) => {
        $($crate::forward_files! { @method $method $files_of })+
    };
}
