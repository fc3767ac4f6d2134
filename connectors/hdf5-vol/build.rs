//! The plug-in stays loaded: a thread of its own may still be running when the library that loaded it lets go.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
