//! C++ and Fortran on top of the C library: their own tests, and the tours; each tour reads what every other wrote.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod build;

use std::path::{Path, PathBuf};
use std::process::Command;

use build::{Language, cpp, crate_folder, exists, program, succeeded, under_valgrind};

const NO_FORTRAN: &str = "not tried: gfortran is not installed";
/// These options end a program at the first invalid access, leak or undefined behaviour.
const SANITIZED: [&str; 2] = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];

/// The sanitizers of clang are a separate package.
fn flags(language: Language) -> &'static [&'static str] {
    if language == Language::Clang { &[] } else { &SANITIZED }
}

fn tour(name: &str) -> PathBuf {
    crate_folder().join("../../examples/native").join(name)
}

/// A Fortran program, with the module and its C part.
fn fortran(source: &Path, folder: &Path, flags: &[&str]) -> Command {
    let parts = crate_folder().join("fortran");
    let mut shim = Command::new("cc");
    shim.args(["-std=c99", "-g", "-Wall", "-Wextra", "-Werror", "-pedantic"]).args(flags).args(["-c", "-o"]);
    shim.arg(folder.join("shim.o")).arg(parts.join("drystone_fortran.c"));
    succeeded(shim.arg("-I").arg(crate_folder().join("include")));
    // Values come back bit for bit, so equality is tested. gfortran 12 warns wrongly about uninitialised
    // descriptors of allocatables with deferred length.
    let sources = [&*parts.join("drystone.f90"), &*folder.join("shim.o"), source];
    let mut all = vec!["-Wno-compare-reals", "-Wno-uninitialized"];
    all.extend(flags);
    program(Language::Fortran, &sources, folder, &all)
}

#[test]
fn cpp_objects_close_themselves_and_fail_by_exception() {
    let source = crate_folder().join("tests/cpp/objects.cpp");
    for language in cpp() {
        let folder = tempfile::tempdir().unwrap();
        succeeded(&mut program(language, &[&source], folder.path(), flags(language)));
    }
}

#[test]
fn random_views_and_selections_of_cpp_are_those_of_a_model() {
    let source = crate_folder().join("tests/cpp/random.cpp");
    if let Some(language) = cpp().first() {
        let folder = tempfile::tempdir().unwrap();
        succeeded(&mut program(*language, &[&source], folder.path(), flags(*language)));
    }
}

fn fortran_runs(name: &str) {
    if !exists("gfortran") {
        return eprintln!("{NO_FORTRAN}");
    }
    let folder = tempfile::tempdir().unwrap();
    let mut run = fortran(&crate_folder().join("tests/fortran").join(name), folder.path(), &[]);
    succeeded(&mut run);
}

#[test]
fn fortran_arrays_of_any_type_rank_and_layout_come_back() {
    fortran_runs("arrays.F90");
}

#[test]
fn random_sections_of_fortran_are_what_fortran_makes_of_them() {
    fortran_runs("random.F90");
}

fn subfolder(folder: &Path) -> PathBuf {
    let below = folder.join("plain");
    std::fs::create_dir(&below).unwrap();
    below
}

#[test]
fn each_tour_reads_what_every_other_wrote() {
    let folder = tempfile::tempdir().unwrap();
    let mut tours = vec![program(Language::C, &[&tour("tour.c")], folder.path(), &SANITIZED)];
    for language in cpp() {
        tours.push(program(language, &[&tour("tour.cpp")], folder.path(), flags(language)));
    }
    if exists("gfortran") {
        tours.push(fortran(&tour("tour.f90"), folder.path(), &SANITIZED));
    } else {
        eprintln!("{NO_FORTRAN}");
    }
    let run = |tour: &Command, act: &str, container: &str| {
        let mut run = Command::new(tour.get_program());
        succeeded(run.args([act, container]).current_dir(folder.path()));
    };
    for (i, writer) in tours.iter().enumerate() {
        let container = format!("{i}.dry");
        run(writer, "write", &container);
        tours.iter().for_each(|reader| run(reader, "read", &container));
    }
    if exists("valgrind") {
        let plain = program(Language::C, &[&tour("tour.c")], &subfolder(folder.path()), &[]);
        let mut run = under_valgrind(&plain);
        succeeded(run.args(["read", "../0.dry"]));
    } else {
        eprintln!("not run under valgrind, which is not installed");
    }
    let mut wrong = Command::new(tours[0].get_program());
    assert_eq!(wrong.arg("nonsense").output().unwrap().status.code(), Some(2));
}
