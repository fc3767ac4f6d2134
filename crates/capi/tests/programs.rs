//! C programs that use every part of the library, and misuse it. Two run again under valgrind, if installed;
//! with DRYSTONE_LONG=1, all do.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod build;

use build::{Language, crate_folder, exists, program, succeeded, under_valgrind};

fn runs(name: &str) {
    let folder = tempfile::tempdir().unwrap();
    let source = crate_folder().join("tests/c").join(name);
    let mut run = program(Language::C, &[&source], folder.path(), &[]);
    succeeded(&mut run);
    let short = matches!(name, "types.c" | "misuse.c"); // the others under valgrind take most of a minute
    if !short && std::env::var_os("DRYSTONE_LONG").is_none() {
        return;
    }
    if exists("valgrind") {
        for entry in std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().path()) {
            if entry.extension().is_some_and(|e| e == "dry") {
                std::fs::remove_dir_all(entry).unwrap();
            }
        }
        succeeded(&mut under_valgrind(&run));
    } else {
        eprintln!("not run under valgrind, which is not installed");
    }
}

#[test]
fn values_of_every_type_come_back_from_any_memory() {
    runs("types.c");
}

#[test]
fn schema_attributes_and_snapshots_are_as_requested() {
    runs("schema.c");
}

#[test]
fn ranks_steps_and_recovery_keep_their_promises() {
    runs("steps.c");
}

#[test]
fn an_own_commit_takes_older_values_of_its_step() {
    runs("order.c");
}

#[test]
fn steps_climb_through_levels_in_tiers() {
    runs("tiers.c");
}

#[test]
fn fragments_and_rules_convert_between_layouts() {
    runs("fragments.c");
}

#[test]
fn points_searches_precision_and_publishing_do_what_they_say() {
    runs("searching.c");
}

/// Variables `u` and `v` at some steps, and derived ones by their names and definitions, of each kind: `NAME_KIND`.
fn define_derived(path: &std::path::Path, name: &str, text: &str, steps: u32) {
    use drystone::format::dtype::{DType, Scalar};
    use drystone::{Container, CreateOptions, Definition, NewVariable, SchemaOp, WriterOptions};

    let c = Container::create(path, CreateOptions::default()).unwrap();
    let f4 = DType::Scalar(Scalar::F32);
    let input = || NewVariable {
        dtype: f4.clone(),
        shape: vec![Some(6), Some(8)],
        dims: Vec::new(),
        steps: true,
        local: false,
        transform: String::new(),
        chunks: None,
        access: String::new(),
        meaning: None,
        fill: None,
        attrs: Default::default(),
    };
    let mut operations: Vec<SchemaOp> =
        ["u", "v"].map(|name| SchemaOp::CreateVariable(name.into(), Box::new(input()))).into();
    for kind in ["virtual", "bounds", "stored"] {
        let (text, edge) = (text.into(), "one_sided".into());
        let definition = Definition { text, kind: kind.into(), edge, attrs: Default::default() };
        operations.push(SchemaOp::Derive(format!("{name}_{kind}"), Box::new(definition)));
    }
    c.apply(operations).unwrap();
    for step in 0..steps {
        let w = c.writer(WriterOptions::default()).unwrap();
        w.begin_step(Some(step.into()), false).unwrap();
        for (n, name) in [(1, "u"), (2, "v")] {
            let whole = |i: u32| (((i * 37 * n + step) % 19) as f32).to_le_bytes();
            let values: Vec<u8> = (0..48u32).flat_map(whole).collect();
            let source = drystone::array::Source::dense(&values, &[6, 8], 4).unwrap();
            w.put(name, &f4, &source, None, None).unwrap();
        }
        w.end_step().unwrap();
        w.close().unwrap();
        c.commit().unwrap();
    }
}

#[test]
fn derived_variables_of_every_kind_are_read_as_any_variable() {
    let folder = tempfile::tempdir().unwrap();
    define_derived(&folder.path().join("derived.dry"), "speed", "sqrt(u*u + v*v)", 2);
    let source = crate_folder().join("tests/c/derived.c");
    succeeded(&mut program(Language::C, &[&source], folder.path(), &[]));
}

#[test]
fn a_registered_function_is_called_by_the_commits_of_its_process() {
    let folder = tempfile::tempdir().unwrap();
    define_derived(&folder.path().join("functions.dry"), "row3", "apply(row3, u, f8, 0, 1)", 1);
    let source = crate_folder().join("tests/c/functions.c");
    succeeded(&mut program(Language::C, &[&source], folder.path(), &[]));
}

#[test]
fn a_team_may_have_one_rank_and_a_communicator_of_its_own() {
    runs("team.c");
}

#[test]
fn random_puts_and_reads_are_those_of_arrays_in_memory() {
    runs("random.c");
}

#[test]
fn misuse_is_an_error_with_a_message() {
    runs("misuse.c");
}

/// The program in C, and the same source as a program in C++.
fn regions(folder: &std::path::Path) -> Vec<std::process::Command> {
    let c = crate_folder().join("tests/c/regions.c");
    let cpp = folder.join("regions.cpp");
    std::fs::copy(&c, &cpp).unwrap();
    std::fs::copy(crate_folder().join("tests/c/check.h"), folder.join("check.h")).unwrap();
    let languages = [(Language::C, &c)].into_iter().chain(build::cpp().into_iter().map(|one| (one, &cpp)));
    languages.map(|(language, source)| program(language, &[source], folder, &[])).collect()
}

#[test]
fn regions_are_mapped_locked_and_released_in_a_folder_and_on_a_server() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("data")).unwrap();
    let text = "listen = [\"unix:server.sock\"]\n[roots]\nscratch = \"data\"\n";
    let config = drystone_server::Config::parse(text, folder.path()).unwrap();
    let server = drystone_server::Server::start(config).unwrap();
    let socket = folder.path().join("server.sock");
    for (n, run) in regions(folder.path()).into_iter().enumerate() {
        let url = format!("drys+unix://{}:/scratch/{n}.dry", socket.display());
        for place in [format!("{n}.dry"), url] {
            let mut args = std::process::Command::new(run.get_program());
            succeeded(args.arg(place).current_dir(folder.path()));
        }
    }
    assert!(server.stop(std::time::Duration::from_secs(10)));
}

#[test]
fn containers_in_object_stores_are_named_by_urls() {
    let rig = drystone_s3_rig::Rig::start(drystone_s3_rig::Config::default()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let source = crate_folder().join("tests/c/urls.c");
    let mut run = program(Language::C, &[&source], folder.path(), &[]);
    run.env("AWS_ENDPOINT_URL", rig.endpoint())
        .env("AWS_ACCESS_KEY_ID", "k")
        .env("AWS_SECRET_ACCESS_KEY", "s");
    succeeded(&mut run);
}

#[test]
fn the_program_of_the_guide_prints_what_it_says() {
    let guide = std::fs::read_to_string(crate_folder().join("../../docs/guide/c.md")).unwrap();
    let code = guide.split("```c\n").nth(1).unwrap().split("```").next().unwrap();
    let said = code.split("/* ").find(|part| part.starts_with(char::is_numeric)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("guide.c");
    std::fs::write(&source, code).unwrap();
    let out = succeeded(&mut program(Language::C, &[&source], folder.path(), &[]));
    assert_eq!(String::from_utf8(out.stdout).unwrap().trim(), said.split(" */").next().unwrap());
}

#[test]
fn two_programs_with_one_container_do_not_hurt_each_other() {
    runs("two_programs.c");
}

/// Structures only grow, at their ends. A program compiled with another header gets errors for what this
/// library cannot do, and the rest works.
#[test]
fn a_program_compiled_with_another_header_works_or_gets_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let header = std::fs::read_to_string(crate_folder().join("include/drystone.h")).unwrap();
    let newer = header.replace("#define DRY_ABI 1u", "#define DRY_ABI 2u").replace(
        "} dry_create_options;",
        "    uint32_t tomorrow;\n    uint32_t more;\n} dry_create_options;",
    );
    assert!(newer.contains("DRY_ABI 2u") && newer.contains("tomorrow"));
    std::fs::write(folder.path().join("drystone.h"), newer).unwrap();
    std::fs::copy(crate_folder().join("tests/c/check.h"), folder.path().join("check.h")).unwrap();
    let source = folder.path().join("newer.c");
    let program_text = r#"
#include "check.h"
int main(void) {
    dry_create_options options = dry_create_options_new();
    dry_container *c;
    FAILS(DRY_UNSUPPORTED, "compile and run with one version", dry_check_abi(DRY_ABI));
    options.durability = DRY_MEMORY;
    options.tomorrow = 1;
    FAILS(DRY_UNSUPPORTED, "newer header", dry_create("newer.dry", &options, &c));
    options.tomorrow = 0; /* it asks for nothing that this library does not know */
    OK(dry_create("newer.dry", &options, &c));
    OK(dry_container_close(c));
    return 0;
}
"#;
    std::fs::write(&source, program_text).unwrap();
    // The program's folder is searched before the crate's.
    let mut run = program(Language::C, &[&source], folder.path(), &[]);
    succeeded(&mut run);
}

#[test]
fn any_number_of_threads_may_call() {
    runs("threads.c");
}

#[test]
fn threads_that_write_read_change_the_schema_and_close_see_whole_steps() {
    runs("crowd.c");
}
