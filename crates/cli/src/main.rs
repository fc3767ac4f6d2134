//! The `drystone` command; see the library beside it.

fn main() {
    std::process::exit(drystone_cli::run(std::env::args_os().collect()));
}
