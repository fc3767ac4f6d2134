//! Whatever the input, the command answers with one helpful line and the right exit code.

use crate::sample::{Ran, Sample, command, run};
use std::io::Read;
use std::process::Stdio;

fn one_line(ran: &Ran, code: i32, parts: &[&str]) {
    assert_eq!((ran.code, ran.out.as_str()), (code, ""), "{}", ran.err);
    assert!(ran.err.starts_with("drystone: "), "{}", ran.err);
    assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
    for part in parts {
        assert!(ran.err.contains(part), "{part:?} is missing in {}", ran.err);
    }
}

/// Every command, with its required arguments besides the path.
const COMMANDS: [(&str, &[&str]); 6] = [
    ("info", &[]),
    ("ls", &[]),
    ("dump", &["T"]),
    ("explain", &["T"]),
    ("verify", &[]),
    ("recover", &["--adopt"]),
];

#[test]
fn a_missing_path_and_a_folder_that_is_no_container_are_not_found() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "no container").unwrap();
    for (name, rest) in COMMANDS {
        let call = |path: &str| run(&[&[name, path], rest].concat());
        one_line(&call("/nowhere/at/all.dry"), 3, &["/nowhere/at/all.dry", "check the path"]);
        one_line(&call(folder.path().to_str().unwrap()), 3, &["is not a container", "drystone.json"]);
        one_line(&call(file.to_str().unwrap()), 3, &["is not a container", "a file"]);
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing was created");
}

#[test]
fn a_damaged_identity_is_corrupt_and_a_newer_one_is_refused() {
    let s = Sample::new();
    let identity = s.path().join("drystone.json");
    let good = std::fs::read_to_string(&identity).unwrap();
    std::fs::write(&identity, good.replace("async", "asynx")).unwrap();
    for (name, rest) in COMMANDS {
        one_line(&s.run(name, rest), 4, &["drystone.json"]);
    }
    let mut newer = drystone_format::identity::Identity::decode(good.as_bytes()).unwrap();
    newer.version = 2;
    std::fs::write(&identity, newer.encode()).unwrap();
    for (name, rest) in COMMANDS {
        one_line(&s.run(name, rest), 2, &["format version 2", "use a newer drystone"]);
    }
}

#[test]
fn unknown_names_come_with_suggestions() {
    let s = Sample::new();
    one_line(&s.run("dump", &["wavf"]), 3, &["did you mean \"wave\"?"]);
    one_line(&s.run("explain", &["fields/temprature"]), 3, &["did you mean \"fields/temperature\"?"]);
    one_line(&s.run("ls", &["zzzzzzzz"]), 3, &["there is no group or variable \"zzzzzzzz\"; there are: "]);
    one_line(&s.run("dump", &["particles", "--field", "mass"]), 3, &["no member \"mass\"", "id, weight"]);
    one_line(&s.run("dump", &["fields"]), 3, &["fields"]);
    one_line(&s.run("dump", &["T", "--step", "9"]), 3, &["there is no step 9; there are: 0..2"]);
    one_line(&s.run("dump", &["a\nb\u{1b}"]), 3, &["a\\nb\\u{1b}"]);
    one_line(&s.run("dump", &["wave", "--step", "0"]), 2, &["has no steps"]);
}

#[test]
fn a_bad_selection_is_shown_with_a_caret() {
    let s = Sample::new();
    for name in ["dump", "explain"] {
        let ran = s.run(name, &["T", "[1, x, :]"]);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""));
        assert_eq!(
            ran.err,
            "drystone: bad selection: expected a number, ':' or '...'\n  [1, x, :]\n      ^\n"
        );
        one_line(&s.run(name, &["T", "[3]"]), 2, &["index 3 is out of bounds for axis 0 with size 3"]);
        one_line(&s.run(name, &["T", "[0, 0, -7]"]), 2, &["(3, 4, 6)", "axis 2"]);
        one_line(&s.run(name, &["T", "0,0,0,0"]), 2, &["too many indices"]);
        one_line(&s.run(name, &["T", "..., ..."]), 2, &["only one ellipsis"]);
    }
}

#[test]
fn a_wrong_command_line_is_one_line_with_the_way_to_help() {
    let s = Sample::new();
    let path = s.path();
    let path = path.to_str().unwrap();
    one_line(&run(&[]), 2, &["a command is missing", "drystone --help"]);
    one_line(&run(&["inof", path]), 2, &["'inof'", "info", "--help"]);
    one_line(&run(&["info"]), 2, &["<CONTAINER>"]);
    one_line(&run(&["info", path, "--jsn"]), 2, &["--jsn", "--json"]);
    one_line(&run(&["dump", path]), 2, &["VARIABLE"]);
    one_line(&run(&["explain", path]), 2, &["<VARIABLE>"]);
    one_line(&run(&["dump", path, "T", "--raw", "--json"]), 2, &["--raw", "--json"]);
    one_line(&run(&["dump", path, "names", "--raw"]), 2, &["strings", "--json"]);
    one_line(&run(&["dump", path, "--header", "--json"]), 2, &["drystone ls -r --json"]);
    one_line(&run(&["recover", path]), 2, &["--adopt", "--discard", "--steps"]);
    one_line(&run(&["recover", path, "--adopt", "--discard"]), 2, &["--adopt", "--discard"]);
    one_line(&run(&["recover", path, "--steps", "1,x"]), 2, &["'x'"]);
    one_line(&run(&["verify", path, "--at", "-1"]), 2, &[]);
    one_line(&run(&["ls", path, "--at", "77"]), 3, &["77"]);
}

#[test]
fn help_and_version_go_to_standard_output() {
    let help = run(&["--help"]);
    assert_eq!((help.code, help.err.as_str()), (0, ""));
    for (name, _) in COMMANDS {
        assert!(help.out.contains(name));
        let own = run(&[name, "--help"]);
        assert_eq!(own.code, 0);
        assert!(
            own.out.contains("--json")
                && own.out.contains("Exit codes: 0 done; 1 damage or difference found"),
            "{}",
            own.out
        );
    }
    assert_eq!(run(&["--version"]).out, format!("drystone {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let s = Sample::new();
    let path = s.path();
    let args = ["dump", path.to_str().unwrap(), "big", "--limit", "0"];
    let mut child = command().args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut some = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut some).unwrap(); // and closes the pipe
    let done = child.wait_with_output().unwrap();
    assert_eq!((done.status.code(), String::from_utf8_lossy(&done.stderr).as_ref()), (Some(0), ""));
}

#[test]
fn a_full_device_is_an_io_error() {
    let Ok(full) = std::fs::File::options().write(true).open("/dev/full") else { return };
    let s = Sample::new();
    let path = s.path();
    let done = command().args(["ls", path.to_str().unwrap()]).stdout(full).output().unwrap();
    assert_eq!(done.status.code(), Some(6));
    assert!(String::from_utf8_lossy(&done.stderr).starts_with("drystone: cannot write standard output"));
}

#[test]
fn a_read_only_container_can_be_looked_at_and_not_recovered() {
    use std::os::unix::fs::PermissionsExt;
    let s = Sample::new();
    let set = |mode| {
        for (file, _) in s.files() {
            let folder = file.parent().unwrap();
            std::fs::set_permissions(folder, std::fs::Permissions::from_mode(mode)).unwrap();
        }
    };
    set(0o555);
    let probe = s.path().join("probe");
    let root = std::fs::write(&probe, "").is_ok();
    let _ = std::fs::remove_file(&probe);
    let seen = s.run("info", &[]);
    let refused = s.run("recover", &["--adopt"]);
    set(0o755);
    assert_eq!(seen.code, 0, "{}", seen.err);
    if !root {
        one_line(&refused, 7, &[]);
    }
}

/// Commands that read the whole container end with a documented code whatever bit is flipped, and explain a failure.
#[test]
fn a_flipped_bit_anywhere_never_makes_a_command_panic() {
    let s = Sample::new();
    s.leave_uncommitted();
    let mut seed = 7u64;
    let files = s.files();
    for round in 0..80 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (path, good) = &files[round % files.len()];
        if good.is_empty() {
            continue;
        }
        let mut bad = good.clone();
        bad[(seed >> 33) as usize % good.len()] ^= 1 << (seed >> 60 & 7);
        std::fs::write(path, &bad).unwrap();
        for (name, rest) in [("info", &[][..]), ("ls", &["-lr"]), ("dump", &["T"]), ("verify", &[])] {
            let ran = s.run(name, rest);
            assert!((0..=6).contains(&ran.code), "{name} with {}: {ran:?}", path.display());
            assert_eq!(ran.code > 1, ran.err.lines().any(|l| !l.contains("warning")), "{name}: {ran:?}");
        }
        std::fs::write(path, good).unwrap();
    }
}
