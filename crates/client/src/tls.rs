//! Verifies servers by the certificates of the system's authorities, or by those that the caller names.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio_rustls::TlsConnector;

use crate::InvalidAddress;
use crate::options::Resolved;

/// The TLS configuration of these options.
pub(crate) fn connector(options: &Resolved) -> Result<TlsConnector, InvalidAddress> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let wrong =
        |error: &dyn std::fmt::Display| InvalidAddress(format!("certificates cannot be checked: {error}"));
    // OpenSSL's variable, which the system's verifier also reads.
    let of_system = std::env::var_os("SSL_CERT_FILE").map(std::path::PathBuf::from);
    let named = options.ca_certificate.as_deref();
    let pinned = match (named, &of_system) {
        (Some(path), _) => {
            certificates(path).map_err(|error| wrong(&format!("{}: {error}", path.display())))?
        }
        (None, Some(path)) => certificates(path).unwrap_or_default(),
        (None, None) => Vec::new(),
    };
    let inner: Arc<dyn ServerCertVerifier> = if named.is_some() {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(pinned.iter().cloned());
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .build()
            .map_err(|error| wrong(&error))?
    } else {
        Arc::new(
            rustls_platform_verifier::Verifier::new(Arc::clone(&provider)).map_err(|error| wrong(&error))?,
        )
    };
    let verifier =
        Verifier { inner, pinned, any: options.allow_invalid_certificates, provider: Arc::clone(&provider) };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&error))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, rustls::pki_types::pem::Error> {
    CertificateDer::pem_file_iter(path)?.collect()
}

/// A verifier that also trusts the given certificates directly. It accepts a server's self-signed certificate that is
/// marked as an authority's, as `openssl req -x509` makes it.
#[derive(Debug)]
struct Verifier {
    inner: Arc<dyn ServerCertVerifier>,
    pinned: Vec<CertificateDer<'static>>,
    any: bool,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.any {
            return Ok(ServerCertVerified::assertion());
        }
        let outcome =
            self.inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        let is_of_authority = matches!(
            &outcome,
            Err(Error::InvalidCertificate(
                CertificateError::Other(_)
                    | CertificateError::UnknownIssuer
                    | CertificateError::InvalidPurpose
            ))
        );
        if is_of_authority && self.pinned.contains(end_entity) {
            verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
            return Ok(ServerCertVerified::assertion());
        }
        outcome
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(
            message,
            cert,
            dss,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(
            message,
            cert,
            dss,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
