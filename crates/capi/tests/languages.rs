//! C++ and Fortran on top of the C library: their own tests, and the tours, of which each reads what every other wrote.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod build;

use std::path::{Path, PathBuf};
use std::process::Command;

use build::{Language, crate_folder, exists, program, succeeded};

const NO_FORTRAN: &str = "not tried: gfortran is not installed";
const NO_CPP: &str = "not tried: there is no C++ compiler";

fn tour(name: &str) -> PathBuf {
    crate_folder().join("../../examples/native").join(name)
}

/// A Fortran program with the module and what the module needs from C.
fn fortran(source: &Path, folder: &Path) -> Command {
    let parts = crate_folder().join("fortran");
    let mut shim = Command::new("cc");
    shim.args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-c", "-o"]);
    shim.arg(folder.join("shim.o")).arg(parts.join("drystone_fortran.c"));
    succeeded(shim.arg("-I").arg(crate_folder().join("include")));
    // Values come back bit for bit, so they are compared for equality. What gfortran 12 says of uninitialised descriptors is wrong
    // for every allocatable of deferred length.
    let modules = [parts.join("drystone_bindings.f90"), parts.join("drystone.f90")];
    let sources = [&*modules[0], &*modules[1], &*folder.join("shim.o"), source];
    program(Language::Fortran, &sources, folder, &["-Wno-compare-reals", "-Wno-uninitialized"])
}

#[test]
fn cpp_objects_close_themselves_and_fail_by_exception() {
    if !exists("c++") {
        return eprintln!("{NO_CPP}");
    }
    let folder = tempfile::tempdir().unwrap();
    let source = crate_folder().join("tests/cpp/objects.cpp");
    let checked = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    let mut run = program(Language::Cpp, &[&source], folder.path(), &checked);
    succeeded(&mut run);
}

#[test]
fn fortran_arrays_of_any_type_rank_and_layout_come_back() {
    if !exists("gfortran") {
        return eprintln!("{NO_FORTRAN}");
    }
    let folder = tempfile::tempdir().unwrap();
    let mut run = fortran(&crate_folder().join("tests/fortran/arrays.F90"), folder.path());
    succeeded(&mut run);
}

#[test]
fn each_tour_reads_what_every_other_wrote() {
    let folder = tempfile::tempdir().unwrap();
    let mut tours = vec![program(Language::C, &[&tour("tour.c")], folder.path(), &[])];
    if exists("c++") {
        tours.push(program(Language::Cpp, &[&tour("tour.cpp")], folder.path(), &[]));
    } else {
        eprintln!("{NO_CPP}");
    }
    if exists("gfortran") {
        tours.push(fortran(&tour("tour.f90"), folder.path()));
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
    let mut wrong = Command::new(tours[0].get_program());
    assert_eq!(wrong.arg("nonsense").output().unwrap().status.code(), Some(2));
}
