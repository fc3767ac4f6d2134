//! `drystone serve`: serves containers to clients until it is interrupted.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use drystone_server::{Config, Page, serve_node, serve_until_signal};

use crate::args::Serve;
use crate::failure::{Failure, IO, NOT_FOUND, OK, Result};

pub(super) fn run(serve: &Serve, page: Option<Arc<dyn Page>>) -> Result<i32> {
    if let Some(container) = &serve.container {
        let told = |url: &str| {
            let mut out = std::io::stdout().lock();
            let _ = writeln!(out, "{url}");
            let _ = out.flush();
        };
        let idle = std::time::Duration::from_secs(serve.idle);
        return match serve_node(&container.to_string_lossy(), idle, page, told) {
            Ok(()) => Ok(OK),
            Err(error) => Err(Failure::new(IO, error.to_string())),
        };
    }
    let configuration = serve.configuration.as_deref().unwrap_or(Path::new(""));
    if !configuration.exists() {
        return Err(Failure::new(
            NOT_FOUND,
            format!("there is no configuration {}", configuration.display()),
        ));
    }
    let config = Config::read(configuration).map_err(|error| Failure::usage(error.to_string()))?;
    let told = |addresses: &[String]| {
        let mut out = std::io::stdout().lock();
        for address in addresses {
            let _ = writeln!(out, "listening on {address}");
        }
        let _ = out.flush();
    };
    serve_until_signal(config, page, told).map_err(|error| Failure::new(IO, error.to_string()))?;
    Ok(OK)
}
