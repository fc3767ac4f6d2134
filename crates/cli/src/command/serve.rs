//! `drystone serve`: containers for clients, until it is told to stop.

use std::io::Write;

use drystone_server::{Config, serve_until_signal};

use crate::args::Serve;
use crate::failure::{Failure, IO, NOT_FOUND, OK, Result};

pub(super) fn run(serve: &Serve) -> Result<i32> {
    if !serve.configuration.exists() {
        return Err(Failure::new(
            NOT_FOUND,
            format!("there is no configuration {}", serve.configuration.display()),
        ));
    }
    let config = Config::read(&serve.configuration).map_err(|error| Failure::usage(error.to_string()))?;
    let told = |addresses: &[String]| {
        let mut out = std::io::stdout().lock();
        for address in addresses {
            let _ = writeln!(out, "listening on {address}");
        }
        let _ = out.flush();
    };
    serve_until_signal(config, told).map_err(|error| Failure::new(IO, error.to_string()))?;
    Ok(OK)
}
