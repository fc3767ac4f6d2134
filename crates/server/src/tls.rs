//! Reads certificates, and makes the TLS acceptor from them.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use crate::InvalidConfig;
use crate::config::TlsFiles;

/// Makes the TLS acceptor from these files.
pub(crate) fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, InvalidConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = certificates(&files.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| {
        InvalidConfig(format!("tls.key: no private key in {}: {error}", files.key.display()))
    })?;
    let wrong = |error: &dyn std::fmt::Display| InvalidConfig(format!("tls: {error}"));
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&error))?;
    let builder = match &files.clients {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| wrong(&error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.map_err(|error| wrong(&error))?)
        }
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|error| wrong(&error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, InvalidConfig> {
    let wrong = |error: &dyn std::fmt::Display| {
        InvalidConfig(format!("tls: no certificates in {}: {error}", path.display()))
    };
    let found: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(path).map_err(|error| wrong(&error))?.collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(wrong(&"it has none")),
        Err(error) => Err(wrong(&error)),
    }
}
