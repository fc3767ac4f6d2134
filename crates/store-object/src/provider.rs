//! A client for one bucket: that of the `object_store` crate, configured so that it makes no decisions of its own.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzure, MicrosoftAzureBuilder};
use object_store::gcp::{GcpCredential, GoogleCloudStorage, GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::{HttpBuilder, HttpStore};
use object_store::list::PaginatedListStore;
use object_store::multipart::MultipartStore;
use object_store::{
    BackoffConfig, ClientConfigKey, ClientOptions, ObjectStore, RetryConfig, StaticCredentialProvider,
};

use crate::connect::Redirections;
use crate::credentials::ProcessCredentials;
use crate::gate::Gate;
use crate::hedge::Hedge;
use crate::options::Resolved;
use crate::supplied::SuppliedCredentials;
use crate::wire::Connector;
use crate::{InvalidAddress, Scheme};
use drystone_runtime::Order;

/// The four kinds of clients.
pub(crate) enum Provider {
    S3(AmazonS3),
    Gs(GoogleCloudStorage),
    Az(MicrosoftAzure),
    Http(HttpStore),
}

/// A client, and what is known about its server.
pub(crate) struct Client {
    pub(crate) provider: Provider,
    pub(crate) gate: Arc<Gate>,
    pub(crate) hedge: Mutex<Hedge>,
    pub(crate) order: Order,
    pub(crate) deadline: Duration,
    pub(crate) bucket: String,
    pub(crate) region: String,
    /// Whether the server has answered this process at least once.
    pub(crate) has_answered: AtomicBool,
    /// Whether the server is a web server that sends only whole files.
    pub(crate) ignores_ranges: AtomicBool,
    /// When the last attempt at a removal ended without an answer.
    pub(crate) doubtful_removal: Mutex<Option<Instant>>,
}

impl std::fmt::Debug for Client {
    /// Prints no options, since some are secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} client for {:?}", self.name(), self.bucket)
    }
}

impl Client {
    pub(crate) fn new(resolved: &Resolved, bucket: &str) -> Result<Client, InvalidAddress> {
        let provider = provider(resolved, bucket).map_err(|error| {
            InvalidAddress::new(format!("cannot make a client for {bucket:?}: {}", innermost(&error)))
        })?;
        Ok(Client {
            provider,
            gate: Gate::new(resolved.max_requests),
            hedge: Mutex::default(),
            order: Order::default(),
            deadline: resolved.deadline,
            bucket: bucket.to_owned(),
            region: resolved.value("aws_region").unwrap_or("us-east-1").to_owned(),
            has_answered: AtomicBool::new(false),
            ignores_ranges: AtomicBool::new(false),
            doubtful_removal: Mutex::default(),
        })
    }

    /// The provider's name in messages.
    pub(crate) fn name(&self) -> &'static str {
        match self.provider {
            Provider::S3(_) => "S3",
            Provider::Gs(_) => "Google Cloud Storage",
            Provider::Az(_) => "Azure Blob Storage",
            Provider::Http(_) => "the web server",
        }
    }

    pub(crate) fn objects(&self) -> &dyn ObjectStore {
        match &self.provider {
            Provider::S3(store) => store,
            Provider::Gs(store) => store,
            Provider::Az(store) => store,
            Provider::Http(store) => store,
        }
    }

    pub(crate) fn uploads(&self) -> Option<&dyn MultipartStore> {
        match &self.provider {
            Provider::S3(store) => Some(store),
            Provider::Gs(store) => Some(store),
            Provider::Az(store) => Some(store),
            Provider::Http(_) => None,
        }
    }

    pub(crate) fn lists(&self) -> Option<&dyn PaginatedListStore> {
        match &self.provider {
            Provider::S3(store) => Some(store),
            Provider::Gs(store) => Some(store),
            Provider::Az(store) => Some(store),
            Provider::Http(_) => None,
        }
    }
}

/// The crate makes each request once, and has no time limit of its own except for connecting.
fn client_options(resolved: &Resolved) -> ClientOptions {
    let mut options =
        ClientOptions::new().with_timeout_disabled().with_connect_timeout(Duration::from_secs(5));
    let plain = resolved.endpoint().is_some_and(|endpoint| endpoint.starts_with("http://"));
    if plain {
        // Loading certificates that are not used takes longer than a request.
        options = options.with_no_system_certificates(true);
    }
    options
}

fn retry() -> RetryConfig {
    RetryConfig { backoff: BackoffConfig::default(), max_retries: 0, retry_timeout: Duration::from_secs(1) }
}

fn provider(resolved: &Resolved, bucket: &str) -> object_store::Result<Provider> {
    let values = || resolved.values.iter();
    match resolved.scheme {
        Scheme::S3 => {
            let mut builder = AmazonS3Builder::new()
                .with_client_options(client_options(resolved))
                // One request per object: bulk deletes need rights and checksums that many servers do not support.
                .with_disable_bulk_delete(true);
            for (name, value) in values() {
                builder = builder.with_config(name.parse::<AmazonS3ConfigKey>()?, value);
            }
            if let Some(process) = &resolved.profile.process {
                builder = builder.with_credentials(Arc::new(ProcessCredentials::new(process.clone())));
            }
            if let Some(source) = &resolved.source {
                builder = builder.with_credentials(SuppliedCredentials::new(source.clone()));
            }
            let builder = builder
                .with_bucket_name(bucket)
                .with_retry(retry())
                .with_http_connector(Connector::for_s3(Redirections::Refuse));
            Ok(Provider::S3(builder.build()?))
        }
        Scheme::Gs => {
            let mut builder = GoogleCloudStorageBuilder::new().with_client_options(client_options(resolved));
            for (name, value) in values() {
                builder = builder.with_config(name.parse::<GoogleConfigKey>()?, value);
            }
            if let Some(source) = &resolved.source {
                builder = builder.with_credentials(SuppliedCredentials::new(source.clone()));
            } else if resolved.is_anonymous() {
                // The crate sends reads without a token, and would still look for one for writes.
                let nobody = GcpCredential { bearer: String::new() };
                builder = builder.with_credentials(Arc::new(StaticCredentialProvider::new(nobody)));
            }
            let builder = builder
                .with_bucket_name(bucket)
                .with_retry(retry())
                .with_http_connector(Connector::new(Redirections::Refuse));
            Ok(Provider::Gs(builder.build()?))
        }
        Scheme::Az => {
            let mut builder = MicrosoftAzureBuilder::new().with_client_options(client_options(resolved));
            for (name, value) in values() {
                builder = builder.with_config(name.parse::<AzureConfigKey>()?, value);
            }
            if let Some(source) = &resolved.source {
                builder = builder.with_credentials(SuppliedCredentials::new(source.clone()));
            }
            let builder = builder
                .with_container_name(bucket)
                .with_retry(retry())
                .with_http_connector(Connector::new(Redirections::Refuse));
            Ok(Provider::Az(builder.build()?))
        }
        Scheme::Http => {
            // A user who opens `http://` accepts that others on the network may read the data.
            let mut options = client_options(resolved).with_allow_http(bucket.starts_with("http://"));
            for (name, value) in values() {
                options = options.with_config(name.parse::<ClientConfigKey>()?, value);
            }
            let builder = HttpBuilder::new()
                .with_client_options(options)
                .with_url(format!("{bucket}/"))
                .with_retry(retry());
            Ok(Provider::Http(builder.with_http_connector(Connector::new(Redirections::Follow)).build()?))
        }
    }
}

fn innermost(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), innermost)
}
