//! Runs every command on a container that has one of everything. Checks the output for people and programs, and
//! that nothing is written.

use crate::sample::Sample;
use serde_json::json;

#[test]
fn info_describes_the_container_and_writes_nothing() {
    let s = Sample::new();
    s.leave_uncommitted();
    let before = s.files();
    let ran = s.run("info", &[]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    for part in [
        "durability  async",
        "3 (0..2)",
        "11, 2 groups, 1 link",
        "title = \"a sample\"",
        "fields/temperature is read by plane:y 100%",
        "step 3..4",
        "step 5 of run",
    ] {
        assert!(ran.out.contains(part), "{part:?} is missing in\n{}", ran.out);
    }
    let info = s.json("info", &[]);
    assert_eq!(info["durability"], "async");
    assert_eq!(info["steps"], json!([0, 1, 2]));
    assert_eq!(info["variables"], 11);
    assert_eq!(info["attributes"], json!({"title": "a sample"}));
    assert_eq!(info["access"], json!({"fields/temperature": "plane:y 100%"}));
    assert_eq!(info["pending"]["steps"], json!([3, 4]));
    assert_eq!(info["pending"]["incomplete"][0]["missing"], json!([1]));
    assert_eq!(info["writers"].as_array().unwrap().len(), 4);
    let on_disk: u64 = before.iter().map(|(_, bytes)| bytes.len() as u64).sum();
    assert_eq!(info["bytes"], on_disk);
    assert_eq!(s.files(), before);
}

#[test]
fn ls_lists_a_group_or_everything_below_it() {
    let s = Sample::new();
    let names = |args: &[&str]| -> Vec<String> {
        let items = s.json("ls", args);
        items.as_array().unwrap().iter().map(|i| i["path"].as_str().unwrap().to_string()).collect()
    };
    assert_eq!(names(&["fields"]), ["fields/deep", "fields/temperature"]);
    assert_eq!(names(&["/fields/"]), ["fields/deep", "fields/temperature"]);
    assert_eq!(names(&["fields", "-r"]), ["fields/deep", "fields/deep/flag", "fields/temperature"]);
    assert_eq!(names(&["wave"]), ["wave"]);
    assert!(names(&[]).contains(&"T".to_string()) && !names(&[]).contains(&"fields/temperature".to_string()));
    let ran = s.run("ls", &["-r"]);
    assert_eq!(ran.code, 0);
    assert!(ran.out.contains("T -> fields/temperature") && ran.out.contains("fields/deep/"), "{}", ran.out);
    let line = ran.out.lines().find(|l| l.starts_with("fields/temperature")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words, ["fields/temperature", "float32", "(4,", "6)", "y,", "x", "yes", "zstd:3", "whole"]);
    assert!(ran.out.lines().next().unwrap().contains("subchunks"), "{}", ran.out);
    assert!(ran.out.contains("(0*, 2)") && ran.out.contains("local"), "{}", ran.out);
}

#[test]
fn ls_long_counts_blocks_and_bytes() {
    let s = Sample::new();
    let items = s.json("ls", &["-l", "-r"]);
    let find = |path: &str| items.as_array().unwrap().iter().find(|i| i["path"] == path).unwrap().clone();
    let t = find("fields/temperature");
    assert_eq!((t["blocks"].as_u64(), t["decoded_bytes"].as_u64()), (Some(6), Some(3 * 24 * 4)));
    assert_eq!(t["steps"], json!([0, 1, 2]));
    assert!(t["stored_bytes"].as_u64().unwrap() > 0);
    assert_eq!(find("particles")["blocks"], 1, "a block of a record counts once");
    assert_eq!(find("particles")["stored_bytes"], 24);
    assert_eq!(find("big")["ratio"], 1.0);
    assert_eq!(find("growing")["ratio"], json!(null));
    let ran = s.run("ls", &["-l"]);
    assert!(ran.out.lines().next().unwrap().trim_end().ends_with("ratio"), "{}", ran.out);
}

#[test]
fn dump_prints_what_numpy_would_select() {
    let s = Sample::new();
    let values = |args: &[&str]| s.json("dump", args)["values"].clone();
    assert_eq!(values(&["T", "[1, 2, :]"]), json!([112.0, 113.0, 114.0, 115.0, 116.0, 117.0]));
    assert_eq!(values(&["T", "-1,::2,5:0:-2"]), json!([[205.0, 203.0, 201.0], [217.0, 215.0, 213.0]]));
    assert_eq!(values(&["T", "[:, 3, 5]"]), json!([23.0, 123.0, 223.0]));
    assert_eq!(values(&["T", "[..., None, 0, 0]"]), json!([[0.0], [100.0], [200.0]]));
    assert_eq!(values(&["T", "[0, 0, 3:3]"]), json!([]));
    assert_eq!(values(&["T", "0, 3:3"]), json!([]));
    assert_eq!(values(&["T", "0, 0:2, 3:3"]), json!([[], []]));
    assert_eq!(values(&["T", "[0]", "--step", "2"]), json!([200.0, 201.0, 202.0, 203.0, 204.0, 205.0]));
    assert_eq!(values(&["T", "0,0", "--step", "-1"]), json!(200.0));
    assert_eq!(values(&["answer"]), json!(42));
    assert_eq!(values(&["fields/deep/flag"]), json!([true, false]));
    assert_eq!(values(&["wave"]), json!([[1.0, -2.5], [0.5, "NaN"]]));
    assert_eq!(values(&["brain"]), json!([1.0, -0.1]));
    assert_eq!(values(&["names"]), json!(["plain", "Größe \"x\"", ""]));
    assert_eq!(values(&["codes"]), json!(["ab", "c\\xffd"]));
    assert_eq!(values(&["particles", "1:"]), json!([{"id": 1, "weight": 0.5}, {"id": 2, "weight": 1.0}]));
    assert_eq!(values(&["particles", "--field", "weight"]), json!([0.0, 0.5, 1.0]));
    let big = s.json("dump", &["big"]);
    assert_eq!((&big["complete"], &big["values"][299][99]), (&json!(true), &json!(29_999)));
}

#[test]
fn dump_prints_brackets_for_people() {
    let s = Sample::new();
    let text = |args: &[&str]| {
        let ran = s.run("dump", args);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{args:?}");
        ran.out
    };
    assert_eq!(
        text(&["T", "[0:2, 0:2, 0:2]"]),
        "T  float32  (2, 2, 2)\n[[[  0.0,   1.0],\n  [  6.0,   7.0]],\n\n [[100.0, 101.0],\n  [106.0, 107.0]]]\n"
    );
    assert_eq!(text(&["answer"]), "answer  int64  ()\n42\n");
    assert_eq!(text(&["wave"]), "wave  complex64  (2,)\n[1.0-2.5j, 0.5+nanj]\n");
    assert_eq!(text(&["names", "[:2]"]), "names  string  (2,)\n[\"plain\", \"Größe \\\"x\\\"\"]\n");
    assert_eq!(text(&["T", "[0, 0, 0:0]"]), "T  float32  (0,)\n[]\n");
    assert!(text(&["particles", "[1]"]).ends_with("\n{id: 1, weight: 0.5}\n"));
}

#[test]
fn dump_prints_a_limited_number_of_cells_and_says_so() {
    let s = Sample::new();
    let ran = s.run("dump", &["big"]);
    assert!(ran.out.ends_with(
        "1000 of 30000 cells are shown: the first (10, 100) of (300, 100); --limit 0 shows all\n"
    ));
    assert!(ran.out.contains("999") && !ran.out.contains("1001"), "{}", ran.out);
    assert!(ran.out.lines().all(|line| line.chars().count() <= 110));
    let all = s.run("dump", &["big", "--limit", "0"]);
    assert!(all.out.contains("29999]]") && !all.out.contains("cells are shown"));
    let json = s.json("dump", &["big", "--limit", "150"]);
    assert_eq!((&json["complete"], &json["shape"]), (&json!(false), &json!([300, 100])));
    assert_eq!(json["values"].as_array().unwrap().len(), 1);
    let exact = s.run("dump", &["big", "[0:10]"]);
    assert!(!exact.out.contains("cells are shown"));
}

#[test]
fn dump_writes_bytes_to_standard_output_or_a_file() {
    let s = Sample::new();
    let expected: Vec<u8> = (0..30_000u16).flat_map(u16::to_le_bytes).collect();
    let ran = s.run("dump", &["big", "--raw"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(ran.bytes == expected);
    let file = s.folder.path().join("big.bin");
    let ran = s.run("dump", &["big", "[:, 99]", "--raw", "-o", file.to_str().unwrap()]);
    assert_eq!((ran.code, ran.out.as_str()), (0, ""));
    let column: Vec<u8> = (0..300u16).flat_map(|i| (100 * i + 99).to_le_bytes()).collect();
    assert_eq!(std::fs::read(&file).unwrap(), column);
    let failed = s.run("dump", &["bug", "--raw", "-o", file.to_str().unwrap()]);
    assert_eq!(failed.code, 3);
    assert_eq!(std::fs::read(&file).unwrap(), column, "a failed command leaves the file as it was");
    let ran = s.run("dump", &["T", "[0, 0, 0:2]", "--json", "-o", file.to_str().unwrap()]);
    assert_eq!(ran.code, 0);
    assert!(std::fs::read_to_string(&file).unwrap().contains("\"values\": [0.0, 1.0]"));
    let nowhere = s.run("dump", &["big", "--raw", "-o", "/nowhere/x.bin"]);
    assert_eq!(nowhere.code, 6, "{}", nowhere.err);
    s.damage();
    let failed = s.run("dump", &["big", "--json", "-o", file.to_str().unwrap()]);
    assert_eq!(failed.code, 4, "{}", failed.err);
    assert!(
        std::fs::read_to_string(&file).unwrap().contains("\"values\": [0.0, 1.0]"),
        "nor does what fails halfway"
    );
}

#[test]
fn dump_prints_the_blocks_of_local_variables() {
    let s = Sample::new();
    let blocks = s.json("dump", &["mine"]);
    assert_eq!(blocks.as_array().unwrap().len(), 2);
    assert_eq!((&blocks[0]["values"], &blocks[1]["values"]), (&json!([7, 8]), &json!([9])));
    let ran = s.run("dump", &["mine", "--block", "1"]);
    assert!(ran.out.starts_with("mine block 1  int32  (1,)") && ran.out.contains("\n[9]\n"), "{}", ran.out);
    assert_eq!(s.run("dump", &["mine", "--block", "0", "--raw"]).bytes, [7, 0, 0, 0, 8, 0, 0, 0]);
    let block = s.json("dump", &["T", "--step", "1", "--block", "1"]);
    assert_eq!((&block[0]["offset"], &block[0]["values"][0][0]), (&json!([2, 0]), &json!(112.0)));
    assert_eq!(s.run("dump", &["mine", "--block", "2"]).code, 3);
    assert_eq!(s.run("dump", &["mine", "[0]"]).code, 2);
    assert_eq!(s.run("dump", &["mine", "--raw"]).code, 2);
}

#[test]
fn the_header_looks_as_ncdump_writes_it() {
    let s = Sample::new();
    let ran = s.run("dump", &["--header"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    for part in [
        "drystone run {\ndimensions:\n\tstep = UNLIMITED ; // 3 currently\n\tx = 6 ;\n\ty = 4 ;\nvariables:\n",
        "\tfloat32 fields/temperature(step, y, x) ;\n\t\tfields/temperature:units = \"K\\u{1b}[31m\" ;\n",
        "\tint64 answer ;\n",
        "// global attributes:\n\t\t:title = \"a sample\" ;\n}\n",
    ] {
        assert!(ran.out.contains(part), "{part:?} is missing in\n{}", ran.out);
    }
    let one = s.run("dump", &["wave", "--header"]);
    assert!(one.out.contains("wave(2)") && !one.out.contains("answer"), "{}", one.out);
}

#[test]
fn explain_shows_the_plan() {
    let s = Sample::new();
    let ran = s.run("explain", &["T", "[1, 0:2, :]"]);
    assert_eq!(ran.code, 0);
    assert!(
        ran.out.starts_with("T [1, 0:2, 0:6]\n1 block, 1 subchunk, 1 request\n48 bytes wanted"),
        "{}",
        ran.out
    );
    let plan = s.json("explain", &["big", "[7]"]);
    assert_eq!(
        (&plan["wanted_bytes"], &plan["blocks"], &plan["shape"]),
        (&json!(200), &json!(1), &json!([100]))
    );
    assert_eq!(plan["data_requests"].as_array().unwrap().len(), 1);
    assert_eq!(s.json("explain", &["T", "--step", "2"])["blocks"], 2);
}

#[test]
fn verify_finds_damage_and_says_where() {
    let s = Sample::new();
    let ran = s.run("verify", &[]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(ran.out.starts_with("sound: "), "{}", ran.out);
    assert_eq!(s.json("verify", &[])["sound"], true);
    s.damage();
    let ran = s.run("verify", &[]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.out.contains(".seg") && ran.out.contains("big") && ran.out.contains("1 place damaged"),
        "{}",
        ran.out
    );
    let report = s.json("verify", &[]);
    assert_eq!((&report["sound"], &report["damage"][0]["variable"]), (&json!(false), &json!("big")));
    let read = s.run("dump", &["big", "--limit", "0"]);
    assert_eq!(read.code, 4);
    assert!(
        read.err.starts_with("drystone: ") && read.err.contains("big") && read.err.contains("byte"),
        "{}",
        read.err
    );
    assert_eq!(s.run("dump", &["T"]).code, 0, "other variables still read");
}

#[test]
fn recover_commits_or_drops_uncommitted_steps() {
    let s = Sample::new();
    s.leave_uncommitted();
    let before = s.files();
    let dry = s.json("recover", &["--dry-run"]);
    assert_eq!(dry["steps"], json!([3, 4]));
    assert!(s.run("recover", &["--dry-run"]).out.contains("step 3..4"));
    assert_eq!(s.files(), before);
    let ran = s.run("recover", &["--adopt"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(
        ran.out.contains("committed   step 3..4\n") && ran.out.contains("next run    1\n"),
        "{}",
        ran.out
    );
    assert_eq!(s.json("info", &[])["steps"], json!([0, 1, 2, 3, 4]));
    assert_eq!(s.json("dump", &["T", "[3, :, 0]"])["values"], json!([3.0, 3.0, 3.0, 3.0]));
    assert!(s.run("recover", &["--dry-run"]).out.contains("nothing"));

    let s = Sample::new();
    s.leave_uncommitted();
    let report = s.json("recover", &["--steps", "3,7", "--yes"]);
    assert_eq!((&report["adopted"], &report["run"]), (&json!([3]), &json!(1)));

    let s = Sample::new();
    s.leave_uncommitted();
    let report = s.json("recover", &["--discard"]);
    assert_eq!((&report["adopted"], &report["discarded"]), (&json!([]), &json!([3, 4])));
    assert_eq!(report["incomplete"][0]["step"], json!(5));
    assert_eq!(s.json("info", &[])["steps"], json!([0, 1, 2]));
}

#[test]
fn earlier_snapshots_can_be_looked_at() {
    let s = Sample::new();
    let snapshots = s.json("info", &[])["snapshots"].clone();
    assert!(snapshots.as_array().unwrap().len() > 2);
    let info = s.json("info", &["--at", "1"]);
    assert_eq!((&info["snapshot"], &info["steps"]), (&json!(1), &json!([])));
    assert_eq!(s.run("info", &["--at", "999"]).code, 3);
    assert_eq!(s.run("dump", &["T", "[0]", "--at", "1"]).code, 2, "no step yet");
}
