//! `check` and `fmt`: texts of the dataset language on disk.

use std::fs;
use std::process::{Command, Output};

use tempfile::TempDir;

const SOUND: &str = "dataset { var u[4] float32 }\nfragment part(r) { var u[i:2] = u[i + 2*r] }\n";
const WRONG: &str = "dataset { var u[4] flaot32; var v[2, 2] int8 dims(x) }\n";

fn run(folder: &TempDir, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_drystone")).current_dir(folder.path()).args(args).output().unwrap()
}

fn folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("sound.drepl"), SOUND).unwrap();
    fs::write(folder.path().join("wrong.drepl"), WRONG).unwrap();
    folder
}

#[test]
fn check_lists_the_declarations_of_a_valid_text_and_the_positions_of_mistakes() {
    let folder = folder();
    let ran = run(&folder, &["check", "sound.drepl"]);
    assert_eq!(ran.status.code(), Some(0));
    assert_eq!(String::from_utf8(ran.stdout).unwrap(), "sound.drepl: 1 variable, 1 fragment\n");
    let ran = run(&folder, &["check", "wrong.drepl", "sound.drepl"]);
    assert_eq!(ran.status.code(), Some(2));
    let said = String::from_utf8(ran.stderr).unwrap();
    for part in
        ["wrong.drepl has 2 mistakes", "wrong.drepl:1:20", "did you mean `float32`?", "expected 2 names"]
    {
        assert!(said.contains(part), "{part:?} is missing in\n{said}");
    }
    assert!(!said.contains('\u{1b}'), "no colours where nobody looks");
    assert!(String::from_utf8(ran.stdout).unwrap().contains("sound.drepl: 1 variable"));
}

#[test]
fn check_reports_to_programs() {
    let ran = run(&folder(), &["check", "wrong.drepl", "--json"]);
    assert_eq!(ran.status.code(), Some(2));
    let report: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(report[0]["sound"], false);
    assert_eq!(report[0]["mistakes"][0]["message"], "unknown type `flaot32`");
    assert_eq!(report[0]["mistakes"][0]["start"], 19);
}

#[test]
fn fmt_changes_the_layout_once_and_leaves_wrong_texts_alone() {
    let folder = folder();
    let loose = "dataset {var   u[ 4 ]  float32}\n";
    fs::write(folder.path().join("loose.drepl"), loose).unwrap();
    let text = || fs::read_to_string(folder.path().join("loose.drepl")).unwrap();
    let ran = run(&folder, &["fmt", "--check", "loose.drepl", "sound.drepl"]);
    assert_eq!((ran.status.code(), &ran.stdout[..]), (Some(1), &b"loose.drepl\n"[..]));
    assert_eq!(text(), loose);
    assert_eq!(run(&folder, &["fmt", "loose.drepl"]).status.code(), Some(0));
    assert_eq!(text(), "dataset { var u[4] float32 }\n");
    assert_eq!(run(&folder, &["fmt", "--check", "loose.drepl"]).status.code(), Some(0));
    let broken = "dataset { var u[4 float32 }\n";
    fs::write(folder.path().join("broken.drepl"), broken).unwrap();
    assert_eq!(run(&folder, &["fmt", "broken.drepl"]).status.code(), Some(2));
    assert_eq!(fs::read_to_string(folder.path().join("broken.drepl")).unwrap(), broken);
}

#[test]
fn files_that_are_not_texts_are_refused() {
    let folder = folder();
    assert_eq!(run(&folder, &["check", "absent.drepl"]).status.code(), Some(3));
    fs::write(folder.path().join("binary"), [0x64, 0xff, 0xfe]).unwrap();
    let ran = run(&folder, &["check", "binary"]);
    assert_eq!(ran.status.code(), Some(2));
    assert!(String::from_utf8(ran.stderr).unwrap().contains("byte 1 is not UTF-8"));
}
