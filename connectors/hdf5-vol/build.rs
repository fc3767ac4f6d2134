//! The plug-in is never unloaded: one of its threads may still run when the library that loaded it closes it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
