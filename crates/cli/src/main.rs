//! The `drystone` command; see the library beside it.

use drystone_cli::{Done, run};

fn main() {
    std::process::exit(match run(std::env::args_os().collect(), None) {
        Done::Code(code) => code,
        Done::InPython(_) => {
            eprintln!(
                "drystone: this command runs in Python: pip install drystone, and use the drystone that it installs"
            );
            2
        }
    });
}
