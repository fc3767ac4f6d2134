//! Programs find the result of `make install` by pkg-config or CMake, and can link it statically.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod build;

use std::path::Path;
use std::process::Command;

use build::{crate_folder, exists, succeeded};

const PROGRAM: &str = r#"
#include <drystone.h>
#include <stdio.h>
int main(int argc, char **argv) {
    dry_container *container;
    if (argc != 2 || dry_create(argv[1], NULL, &container) != DRY_OK || dry_container_close(container) != DRY_OK) {
        fprintf(stderr, "%s\n", dry_last_error());
        return 1;
    }
    return dry_check_abi(DRY_ABI);
}
"#;

fn installed(prefix: &Path) {
    let built = std::env::current_exe().unwrap();
    let built = built.ancestors().find(|folder| folder.join("libdrystone_capi.so").exists()).unwrap();
    let script = crate_folder().join("../../tools/install_c.sh");
    succeeded(Command::new("bash").arg(script).arg(built).arg(prefix));
}

#[test]
fn an_installed_library_is_found_by_pkg_config_and_linked_either_way() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("prefix");
    installed(&prefix);
    installed(&prefix); // again over the first
    let source = folder.path().join("program.c");
    std::fs::write(&source, PROGRAM).unwrap();
    if !exists("pkg-config") {
        return eprintln!("not tried: pkg-config is not installed");
    }
    for (name, more) in [("shared", ""), ("static", "--static")] {
        let mut ask = Command::new("pkg-config");
        ask.args(["--cflags", "--libs", "drystone"]).args(more.split_whitespace());
        ask.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
        let flags = String::from_utf8(succeeded(&mut ask).stdout).unwrap();
        // The archive is beside the shared library, which linkers prefer.
        let flags =
            flags.replace("-ldrystone", if more.is_empty() { "-ldrystone" } else { "-l:libdrystone.a" });
        let program = folder.path().join(name);
        succeeded(Command::new("cc").arg(&source).args(flags.split_whitespace()).arg("-o").arg(&program));
        let mut run = Command::new(&program);
        succeeded(
            run.arg(folder.path().join(format!("{name}.dry"))).env("LD_LIBRARY_PATH", prefix.join("lib")),
        );
    }
}

#[test]
fn an_installed_library_is_found_by_cmake() {
    if !exists("cmake") {
        return eprintln!("not tried: cmake is not installed");
    }
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("prefix");
    installed(&prefix);
    std::fs::write(folder.path().join("program.c"), PROGRAM).unwrap();
    let project = "cmake_minimum_required(VERSION 3.13)\nproject(program C)\n\
                   find_package(drystone 0.1 REQUIRED)\nadd_executable(program program.c)\n\
                   target_link_libraries(program PRIVATE drystone::drystone)\n";
    std::fs::write(folder.path().join("CMakeLists.txt"), project).unwrap();
    let build = folder.path().join("build");
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(folder.path()).arg("-B").arg(&build);
    succeeded(configure.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display())));
    succeeded(Command::new("cmake").arg("--build").arg(&build));
    succeeded(Command::new(build.join("program")).arg(folder.path().join("cmake.dry")));
}
