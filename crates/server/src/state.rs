//! The state that all requests of a server share: configuration, rights, stores, limits, counters.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use serde_json::json;
use tokio_rustls::TlsAcceptor;

use crate::admission::Admission;
use crate::arenas::Arenas;
use crate::buffers::Buffers;
use crate::face::Page;
use crate::idempotence::Idempotence;
use crate::metrics::Metrics;
use crate::open::Stores;
use crate::processes::Processes;
use crate::quick::Quick;
use crate::regions::AllRegions;
use crate::token::Known;
use crate::{Config, InvalidConfig, Tokens, log, tls};

pub(crate) struct State {
    pub(crate) config: Config,
    pub(crate) stores: Stores,
    pub(crate) admission: Admission,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) idempotence: Idempotence,
    pub(crate) regions: AllRegions,
    pub(crate) arenas: Arc<Arenas>,
    pub(crate) page: Option<Arc<dyn Page>>,
    pub(crate) buffers: Arc<Buffers>,
    pub(crate) quick: Quick,
    pub(crate) processes: Arc<Processes>,
    tokens: RwLock<Arc<Tokens>>,
    acceptor: RwLock<Option<TlsAcceptor>>,
    /// The last changes of the files of tokens and certificates.
    seen: Mutex<Vec<Option<SystemTime>>>,
}

impl State {
    pub(crate) fn new(config: Config, page: Option<Arc<dyn Page>>) -> Result<State, InvalidConfig> {
        let tokens = match &config.tokens {
            Some(path) => Tokens::read(path)?,
            None => Tokens::default(),
        };
        let acceptor = config.tls.as_ref().map(tls::acceptor).transpose()?;
        let state = State {
            stores: Stores::default(),
            admission: Admission::new(&config.limits),
            metrics: Arc::default(),
            idempotence: Idempotence::default(),
            regions: AllRegions::new(&config)?,
            arenas: Arc::default(),
            page,
            buffers: Arc::default(),
            quick: Quick::default(),
            processes: Arc::default(),
            tokens: RwLock::new(Arc::new(tokens)),
            acceptor: RwLock::new(acceptor),
            seen: Mutex::default(),
            config,
        };
        *state.seen.lock().unwrap_or_else(PoisonError::into_inner) = state.changed_at();
        Ok(state)
    }

    /// The token with this text, if it has not expired. If it is unknown, the file is read again if it has changed.
    pub(crate) fn token(&self, word: &str) -> Option<Known> {
        let live = |tokens: &Tokens| {
            tokens.find(word).filter(|known| !known.has_expired(SystemTime::now())).cloned()
        };
        let tokens = Arc::clone(&self.tokens.read().unwrap_or_else(PoisonError::into_inner));
        if let Some(known) = live(&tokens) {
            return Some(known);
        }
        // This request or another one may have read the file again, so the token is looked up once more.
        self.reload();
        let tokens = Arc::clone(&self.tokens.read().unwrap_or_else(PoisonError::into_inner));
        live(&tokens)
    }

    /// The current TLS acceptor; `None` without TLS.
    pub(crate) fn acceptor(&self) -> Option<TlsAcceptor> {
        self.acceptor.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads tokens and certificates again if their files have changed. Returns whether new ones are in use. Invalid
    /// files change nothing.
    pub(crate) fn reload(&self) -> bool {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.changed_at();
        if *seen == now {
            return false;
        }
        let tokens = self.config.tokens.as_deref().map(Tokens::read).transpose();
        let acceptor = self.config.tls.as_ref().map(tls::acceptor).transpose();
        match (tokens, acceptor) {
            (Ok(tokens), Ok(acceptor)) => {
                *self.tokens.write().unwrap_or_else(PoisonError::into_inner) =
                    Arc::new(tokens.unwrap_or_default());
                *self.acceptor.write().unwrap_or_else(PoisonError::into_inner) = acceptor;
                *seen = now;
                log::line("reloaded", &[]);
                true
            }
            (Err(error), _) | (_, Err(error)) => {
                log::line("reload-failed", &[("reason", json!(error.to_string()))]);
                *seen = now;
                false
            }
        }
    }

    fn changed_at(&self) -> Vec<Option<SystemTime>> {
        let time = |path: &Path| path.metadata().and_then(|found| found.modified()).ok();
        let tls = self
            .config
            .tls
            .iter()
            .flat_map(|tls| [Some(&tls.certificate), Some(&tls.key), tls.clients.as_ref()]);
        self.config.tokens.iter().chain(tls.flatten()).map(|path| time(path)).collect()
    }

    /// Whether a client is connected. A client on this machine is connected while it has a container open.
    pub(crate) fn is_used(&self) -> bool {
        self.metrics.connections.load(std::sync::atomic::Ordering::Relaxed) > 0 || self.arenas.count() > 0
    }

    /// The longest time for which a request waits for its turn.
    pub(crate) fn patience(&self) -> Duration {
        Duration::from_secs(10)
    }
}
