//! Sets the name (soname) under which linked programs look for the shared library.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libdrystone.so.0");
}
