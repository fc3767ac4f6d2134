//! Connections to object stores, made as `object_store` makes them, except that redirections are returned as answers
//! and not followed.
//!
//! A client that follows a redirection sends the request's headers to the new address, and some of these are secrets:
//! session tokens, and keys by which objects are encrypted. Only Authorization is left out for another host. A signed
//! request is useless elsewhere in any case.

use std::time::Duration;

use object_store::client::{HttpClient, HttpConnector, ReqwestConnector};
use object_store::{ClientConfigKey as Key, ClientOptions};
use reqwest::redirect::Policy;
use reqwest::tls::Certificate;
use reqwest::{ClientBuilder, NoProxy, Proxy};

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// How redirections are handled.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Redirections {
    /// Returned like other answers: for stores whose requests are signed.
    Refuse,
    /// Followed: for web servers, where they are usual.
    Follow,
}

impl HttpConnector for Redirections {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        match self {
            Redirections::Follow => ReqwestConnector::default().connect(options),
            Redirections::Refuse => client(options)
                .map(HttpClient::new)
                .map_err(|source| object_store::Error::Generic { store: "connections", source }),
        }
    }
}

fn client(options: &ClientOptions) -> Result<reqwest::Client, Failed> {
    let given = |key: Key| options.get_config_value(&key);
    let is_set = |key: Key| given(key).is_some_and(|value| value == "true");
    let time = |key: Key| given(key).map(|text| duration(&text)).transpose();
    let mut builder = ClientBuilder::new().redirect(Policy::none()).https_only(!is_set(Key::AllowHttp));
    builder = builder.user_agent(given(Key::UserAgent).unwrap_or_else(agent));
    if let Some(url) = given(Key::ProxyUrl) {
        if let Some(pem) = given(Key::ProxyCaCertificate) {
            builder = builder.tls_certs_merge([Certificate::from_pem(pem.as_bytes())?]);
        }
        let excluded = given(Key::ProxyExcludes).and_then(|names| NoProxy::from_string(&names));
        builder = builder.proxy(Proxy::all(url)?.no_proxy(excluded));
    }
    if is_set(Key::NoSystemCertificates) {
        builder = builder.tls_certs_only([]);
    }
    if let Some(limit) = time(Key::Timeout)? {
        builder = builder.timeout(limit);
    }
    if let Some(limit) = time(Key::ConnectTimeout)? {
        builder = builder.connect_timeout(limit);
    }
    if let Some(limit) = time(Key::ReadTimeout)? {
        builder = builder.read_timeout(limit);
    }
    if let Some(limit) = time(Key::PoolIdleTimeout)? {
        builder = builder.pool_idle_timeout(limit);
    }
    if let Some(most) = given(Key::PoolMaxIdlePerHost) {
        builder = builder.pool_max_idle_per_host(most.parse()?);
    }
    if let Some(interval) = time(Key::Http2KeepAliveInterval)? {
        builder = builder.http2_keep_alive_interval(interval);
    }
    if let Some(limit) = time(Key::Http2KeepAliveTimeout)? {
        builder = builder.http2_keep_alive_timeout(limit);
    }
    if is_set(Key::Http2KeepAliveWhileIdle) {
        builder = builder.http2_keep_alive_while_idle(true);
    }
    if let Some(most) = given(Key::Http2MaxFrameSize) {
        builder = builder.http2_max_frame_size(Some(most.parse()?));
    }
    if is_set(Key::Http1Only) {
        builder = builder.http1_only();
    }
    if is_set(Key::Http2Only) {
        builder = builder.http2_prior_knowledge();
    }
    if is_set(Key::AllowInvalidCertificates) {
        builder = builder.danger_accept_invalid_certs(true);
    }
    if is_set(Key::RandomizeAddresses) {
        builder = builder.dns_resolver(Shuffled);
    }
    Ok(builder.build()?)
}

fn agent() -> String {
    format!("drystone/{}", env!("CARGO_PKG_VERSION"))
}

/// Parses a duration as options print it: `30s`, `1m 500ms`.
fn duration(text: &str) -> Result<Duration, Failed> {
    let parts = text.split_whitespace().map(crate::options::seconds);
    let sum = parts.sum::<Option<Duration>>().filter(|_| !text.trim().is_empty());
    sum.ok_or_else(|| format!("{text:?} is no time; write for example \"30s\"").into())
}

/// Resolves a name to its addresses in random order, so that connections spread over its servers.
struct Shuffled;

impl reqwest::dns::Resolve for Shuffled {
    fn resolve(&self, name: reqwest::dns::Name) -> reqwest::dns::Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let mut addresses: Vec<_> = found.map(|address| (crate::random::chance(), address)).collect();
            addresses.sort_by(|a, b| a.0.total_cmp(&b.0));
            let addresses: reqwest::dns::Addrs = Box::new(addresses.into_iter().map(|(_, address)| address));
            Ok(addresses)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_they_are_shown() {
        assert_eq!(duration("1m 30s").unwrap(), Duration::from_secs(90));
        assert_eq!(duration("500ms").unwrap(), Duration::from_millis(500));
        for text in ["", "soon", "5 parsecs"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn settings_reach_the_client_or_are_refused() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let with = |key: Key, value: &str| client(&ClientOptions::new().with_config(key, value));
        for (key, value) in [
            (Key::ConnectTimeout, "3s"),
            (Key::PoolIdleTimeout, "1m"),
            (Key::PoolMaxIdlePerHost, "4"),
            (Key::ProxyUrl, "http://127.0.0.1:3128"),
            (Key::UserAgent, "mine/1"),
            (Key::Http2Only, "true"),
        ] {
            assert!(with(key, value).is_ok(), "{key:?}");
        }
        assert!(with(Key::PoolMaxIdlePerHost, "many").is_err());
    }
}
