//! Compiles and runs programs against the library that was just built, as against an installed one.
#![allow(dead_code, reason = "each test uses a part")]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A language a program can be in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    /// C99.
    C,
    /// C++17.
    Cpp,
    /// C++17 by clang, which gives other warnings.
    Clang,
    /// Fortran 2018.
    Fortran,
}

/// This crate's folder.
pub(crate) fn crate_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder where cargo put the library.
fn built() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let found = here.ancestors().map(|folder| folder.join("libdrystone_capi.so")).find(|file| file.exists());
    found.expect("cargo builds the library before its tests")
}

/// The shared library in `folder`, under the names that programs look up.
fn stage(folder: &Path) {
    for name in ["libdrystone.so", "libdrystone.so.0"] {
        let link = folder.join(name);
        if !link.exists() {
            std::os::unix::fs::symlink(built(), link).unwrap();
        }
    }
}

/// Whether a program of that name exists.
pub(crate) fn exists(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|out| out.status.success())
}

/// C++ by each available compiler.
pub(crate) fn cpp() -> Vec<Language> {
    let known = [("c++", Language::Cpp), ("clang++", Language::Clang)];
    let found: Vec<_> =
        known.into_iter().filter(|(name, _)| exists(name)).map(|(_, language)| language).collect();
    if found.is_empty() {
        eprintln!("not tried: there is no C++ compiler");
    }
    found
}

fn compiler(language: Language) -> Command {
    let (name, standard) = match language {
        Language::C => ("cc", "-std=c99"),
        Language::Cpp => ("c++", "-std=c++17"),
        Language::Clang => ("clang++", "-std=c++17"),
        Language::Fortran => ("gfortran", "-std=f2018"),
    };
    let mut command = Command::new(name);
    command.args([standard, "-g", "-Wall", "-Wextra", "-Werror", "-pedantic"]);
    command.arg("-I").arg(crate_folder().join("include"));
    command
}

/// Whether a source compiles.
pub(crate) fn compiles(language: Language, source: &Path, folder: &Path) -> bool {
    let mut command = compiler(language);
    command.arg("-c").arg(source).arg("-o").arg(folder.join("never.o")).current_dir(folder);
    command.output().unwrap().status.success()
}

/// Compiles sources into a program in `folder`.
pub(crate) fn program(language: Language, sources: &[&Path], folder: &Path, flags: &[&str]) -> Command {
    stage(folder);
    let name = sources.last().unwrap().file_stem().unwrap();
    let out = folder.join(format!("{}-{language:?}", name.to_string_lossy()));
    let mut command = compiler(language);
    if language == Language::C {
        command.arg("-D_POSIX_C_SOURCE=200809L");
    }
    command
        .args(flags)
        .args(sources)
        .arg("-o")
        .arg(&out)
        .arg("-L")
        .arg(folder)
        .args(["-ldrystone", "-lm"])
        .arg("-pthread");
    command.arg(format!("-Wl,-rpath,{}", folder.display())).current_dir(folder);
    succeeded(&mut command);
    let mut run = Command::new(out);
    run.current_dir(folder);
    run
}

/// Runs a command that must succeed; its output.
pub(crate) fn succeeded(command: &mut Command) -> Output {
    let out = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(
        out.status.success(),
        "{command:?}: {}\n{}{}",
        out.status,
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    );
    out
}

/// Runs the same program under valgrind, which must find neither errors nor leaks.
pub(crate) fn under_valgrind(program: &Command) -> Command {
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--error-exitcode=99", "--leak-check=full", "--errors-for-leak-kinds=definite"]);
    command.arg(program.get_program()).args(program.get_args().map(OsStr::to_os_string));
    command.current_dir(program.get_current_dir().unwrap());
    command.env("DRYSTONE_THREADS", "2");
    command
}
