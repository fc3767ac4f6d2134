//! Writes the vectors of the format: `cargo run -p drystone-format --example make_vectors -- tests/vectors`.
//!
//! A vector is written once: an existing file is left unchanged. If its bytes would differ today, a line reports that.

mod cases;
mod container;
mod describe;
mod json;

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use json::Json;

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> Outcome {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "tests/vectors".into());
    let folder = Path::new(&folder);
    for (name, structure, bytes) in cases::cases() {
        let value = describe::describe(structure, &bytes)?;
        let text = Json::object([("structure", Json::Text(structure.into())), ("value", value)]).pretty();
        put(&folder.join(format!("v1_{name}.bin")), &bytes)?;
        put(&folder.join(format!("v1_{name}.json")), text.as_bytes())?;
    }
    let (files, expected) = container::container()?;
    for (key, bytes) in files {
        put(&folder.join("v1_container").join(key), &bytes)?;
    }
    put(&folder.join("v1_container.json"), expected.pretty().as_bytes())
}

fn put(path: &Path, bytes: &[u8]) -> Outcome {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    match fs::File::create_new(path) {
        Ok(mut file) => std::io::Write::write_all(&mut file, bytes)?,
        Err(e) if e.kind() == ErrorKind::AlreadyExists && fs::read(path)? == bytes => {}
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            println!("{}: there, and kept, though today's bytes would differ", path.display());
        }
        Err(e) => return Err(e.into()),
    }
    Ok(())
}
