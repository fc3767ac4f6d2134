//! The header and the library agree: each has the functions and structures of the other, with the same types.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod build;

use std::collections::BTreeSet;
use std::fmt::Write;

use build::{Language, crate_folder, program};

/// All sources of the crate, concatenated.
fn sources() -> String {
    let mut files: Vec<_> =
        std::fs::read_dir(crate_folder().join("src")).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect()
}

fn header(name: &str) -> String {
    std::fs::read_to_string(crate_folder().join("include").join(name)).unwrap()
}

/// A type of an `extern "C"` function or `repr(C)` structure as C writes it.
fn c_type(rust: &str) -> String {
    let opaque = |name: &str| sources().contains(&format!("struct {name} {{\n    _private"));
    match rust {
        "Status" => "dry_status".into(),
        "Type" => "dry_type".into(),
        "Described" => "struct drystone_function".into(), // of drystone_function.h
        "i32" => "int32_t".into(),
        "u32" => "uint32_t".into(),
        "i64" => "int64_t".into(),
        "u64" => "uint64_t".into(),
        "f64" => "double".into(),
        "usize" => "size_t".into(),
        "c_char" => "char".into(),
        "u8" | "c_void" => "void".into(), // bytes of the caller
        name if name.starts_with("dry_") => name.into(),
        pointer => match (pointer.strip_prefix("*mut "), pointer.strip_prefix("*const ")) {
            (Some(inner), _) => format!("{} *", c_type(inner)),
            (_, Some(inner)) if opaque(inner) => format!("{inner} *"), // a handle's const means nothing
            (_, Some(inner)) if inner.starts_with('*') => format!("{}const *", c_type(inner)),
            (_, Some(inner)) => format!("const {} *", c_type(inner)),
            _ => panic!("no C type is known for {rust}"),
        },
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Names with types.
type Names = Vec<(String, String)>;

/// (name, arguments with types, result) of every exported function.
fn functions(sources: &str) -> Vec<(String, Names, String)> {
    let mut out = Vec::new();
    for item in sources.split("#[unsafe(no_mangle)]").skip(1) {
        let signature = one_line(&item[item.find("fn ").unwrap() + 3..item.find(" {").unwrap()]);
        let (name, rest) = signature.split_once('(').unwrap();
        let (arguments, result) = rest.rsplit_once(") -> ").unwrap();
        let arguments = arguments.split(',').map(str::trim).filter(|a| !a.is_empty()).map(|argument| {
            let (name, rust) = argument.split_once(": ").unwrap();
            (name.to_string(), rust.to_string())
        });
        out.push((name.to_string(), arguments.collect(), result.to_string()));
    }
    out
}

/// (name, fields with types) of every structure whose fields C sees.
fn structures(sources: &str) -> Vec<(String, Names)> {
    let mut out = Vec::new();
    for item in sources.split("#[repr(C)]").skip(1) {
        let begin = item.find("struct ").unwrap() + 7;
        let end = item.find("\n}").unwrap();
        let (name, fields) = item[begin..end].split_once(" {").unwrap();
        let fields: Vec<(String, String)> = fields
            .lines()
            .filter_map(|line| line.trim().trim_end_matches(',').split_once(": "))
            .map(|(name, rust)| (name.trim_end_matches('_').to_string(), rust.to_string()))
            .collect();
        if fields[0].0 != "_private" {
            out.push((name.to_string(), fields));
        }
    }
    out
}

/// The header, followed by the same declarations generated from the Rust sources: a compiler refuses differences.
fn mirror() -> String {
    let sources = sources();
    let mut out = String::from("#include \"drystone.h\"\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n");
    for (name, arguments, result) in functions(&sources) {
        let arguments: Vec<String> =
            arguments.iter().map(|(name, rust)| format!("{} {name}", c_type(rust))).collect();
        let arguments = if arguments.is_empty() { "void".into() } else { arguments.join(", ") };
        writeln!(out, "{} {name}({arguments});", c_type(&result)).unwrap();
    }
    for (name, fields) in structures(&sources) {
        writeln!(out, "struct mirror_{name} {{").unwrap();
        for (field, rust) in &fields {
            match rust.strip_prefix('[').and_then(|r| r.strip_suffix(']')).and_then(|r| r.split_once("; ")) {
                Some(("u8", n)) => writeln!(out, "    uint8_t {field}[{n}];").unwrap(),
                Some((of, n)) => writeln!(out, "    {} {field}[{n}];", c_type(of)).unwrap(),
                None => writeln!(out, "    {} {field};", c_type(rust)).unwrap(),
            }
        }
        writeln!(out, "}};").unwrap();
        writeln!(
            out,
            "typedef char size_of_{name}[sizeof({name}) == sizeof(struct mirror_{name}) ? 1 : -1];"
        )
        .unwrap();
        for (field, _) in &fields {
            writeln!(
                out,
                "typedef char place_of_{name}_{field}[offsetof({name}, {field}) == offsetof(struct mirror_{name}, {field}) \
                 && sizeof((({name} *)0)->{field}) == sizeof(((struct mirror_{name} *)0)->{field}) ? 1 : -1];"
            )
            .unwrap();
        }
    }
    out.push_str("#ifdef __cplusplus\n}\n#endif\nint main(void) { return dry_check_abi(DRY_ABI); }\n");
    out
}

#[test]
fn functions_and_structures_of_the_header_are_those_of_the_library() {
    let folder = tempfile::tempdir().unwrap();
    let cpp = build::cpp().into_iter().map(|language| (language, "mirror.cpp"));
    for (language, name) in std::iter::once((Language::C, "mirror.c")).chain(cpp) {
        let source = folder.path().join(name);
        std::fs::write(&source, mirror()).unwrap();
        assert!(program(language, &[&source], folder.path(), &[]).status().unwrap().success());
    }
}

#[test]
fn the_header_declares_nothing_that_the_library_lacks() {
    let sources = sources();
    let there: BTreeSet<String> = functions(&sources).into_iter().map(|(name, _, _)| name).collect();
    assert!(there.len() > 50);
    let header = header("drystone.h");
    let declared: BTreeSet<String> = header
        .split(|c: char| !c.is_alphanumeric() && c != '_' && c != '(')
        .filter_map(|word| word.split_once('('))
        .map(|(name, _)| name.to_string())
        .filter(|name| name.starts_with("dry_") && *name != "dry_record_new")
        .collect();
    let called: BTreeSet<String> = ["dry_check_abi"].map(String::from).into();
    assert_eq!(&declared | &called, there);
    for (name, _) in structures(&sources) {
        assert!(
            header.contains(&format!("}} {name};")) || header.contains(&format!("struct {name} {{")),
            "{name}"
        );
    }
}

#[test]
fn a_difference_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("mirror.c");
    for (from, to) in
        [("uint64_t snapshot", "uint32_t snapshot"), ("dry_status dry_flush(", "void dry_flush(")]
    {
        let text = mirror();
        assert!(text.contains(from));
        std::fs::write(&source, text.replace(from, to)).unwrap();
        assert!(!build::compiles(Language::C, &source, folder.path()), "{to}");
    }
}
