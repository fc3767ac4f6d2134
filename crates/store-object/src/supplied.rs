//! Credentials that the calling program supplies. They are requested by one task at a time, and kept until they are
//! about to expire.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use drystone_store::Credentials;
use object_store::CredentialProvider;
use object_store::aws::AwsCredential;
use object_store::azure::{AzureAccessKey, AzureCredential};
use object_store::gcp::GcpCredential;

use crate::credentials::EARLY;

/// A program's callback. Two sources are equal if they are the same callback.
#[derive(Clone)]
pub(crate) struct Source(pub(crate) Arc<dyn Credentials>);

impl PartialEq for Source {
    fn eq(&self, other: &Self) -> bool {
        self.0.id() == other.0.id()
    }
}

impl Eq for Source {}

impl Hash for Source {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.id().hash(state);
    }
}

/// The last credentials, if they are kept.
type Kept<T> = Option<(Arc<T>, Option<Instant>)>;

/// Gets credentials of one provider from a source.
pub(crate) struct SuppliedCredentials<T> {
    source: Source,
    kept: tokio::sync::Mutex<Kept<T>>,
}

impl<T> SuppliedCredentials<T> {
    pub(crate) fn new(source: Source) -> Arc<Self> {
        Arc::new(SuppliedCredentials { source, kept: tokio::sync::Mutex::new(None) })
    }
}

impl<T> std::fmt::Debug for SuppliedCredentials<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SuppliedCredentials")
    }
}

/// Converts names and values into a provider's credentials.
pub(crate) trait FromValues: Sized {
    fn from_values(values: &Values) -> Result<Self, String>;
}

/// Values by name, in lower case and without the provider's prefix.
pub(crate) struct Values(BTreeMap<String, String>);

impl Values {
    fn new(values: Vec<(String, String)>) -> Self {
        let bare = |name: String| {
            let name = name.to_ascii_lowercase().replace('_', "");
            let prefixes = ["aws", "google", "azurestorage", "azure"];
            prefixes.iter().find_map(|prefix| name.strip_prefix(prefix)).map(str::to_owned).unwrap_or(name)
        };
        Values(values.into_iter().map(|(name, value)| (bare(name), value)).collect())
    }

    fn get(&self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| self.0.get(*name)).filter(|value| !value.is_empty()).cloned()
    }
}

impl FromValues for AwsCredential {
    fn from_values(values: &Values) -> Result<Self, String> {
        let key_id = values.get(&["accesskeyid", "accesskey"]).ok_or("it gave no aws_access_key_id")?;
        let secret_key =
            values.get(&["secretaccesskey", "secretkey"]).ok_or("it gave no aws_secret_access_key")?;
        Ok(AwsCredential { key_id, secret_key, token: values.get(&["sessiontoken", "token"]) })
    }
}

impl FromValues for GcpCredential {
    fn from_values(values: &Values) -> Result<Self, String> {
        Ok(GcpCredential {
            bearer: values.get(&["token", "bearertoken", "accesstoken"]).ok_or("it gave no token")?,
        })
    }
}

impl FromValues for AzureCredential {
    fn from_values(values: &Values) -> Result<Self, String> {
        if let Some(token) = values.get(&["token", "bearertoken", "accesstoken"]) {
            return Ok(AzureCredential::BearerToken(token));
        }
        if let Some(key) = values.get(&["accountkey", "accesskey"]) {
            let key = AzureAccessKey::try_new(&key).map_err(|_| "its account key is not base64")?;
            return Ok(AzureCredential::AccessKey(key));
        }
        let sas =
            values.get(&["saskey", "sastoken"]).ok_or("it gave neither a token, an account key nor a SAS")?;
        let pairs = url::form_urlencoded::parse(sas.trim_start_matches('?').as_bytes());
        Ok(AzureCredential::SASToken(pairs.into_owned().collect()))
    }
}

#[async_trait::async_trait]
impl<T: FromValues + Send + Sync + 'static> CredentialProvider for SuppliedCredentials<T> {
    type Credential = T;

    async fn get_credential(&self) -> object_store::Result<Arc<T>> {
        // The lock is held while the source is called, so that only one of many requests calls it.
        let mut kept = self.kept.lock().await;
        if let Some((credential, until)) = kept.as_ref()
            && until.is_none_or(|until| Instant::now() < until)
        {
            return Ok(Arc::clone(credential));
        }
        let source = self.source.clone();
        let asked = tokio::task::spawn_blocking(move || source.0.supply()).await;
        let made = asked.unwrap_or_else(|_| Err("it did not return".into())).and_then(|supplied| {
            let until = supplied.expires.map(|end| {
                let left = end.duration_since(SystemTime::now()).unwrap_or_default();
                // Credentials with a short life are renewed in the last tenth of it.
                Instant::now() + left.saturating_sub(EARLY.min(left / 10))
            });
            Ok((Arc::new(T::from_values(&Values::new(supplied.values))?), until))
        });
        let fresh = made.map_err(|reason| object_store::Error::Unauthenticated {
            path: String::new(),
            source: format!("the credentials callback failed: {reason}").into(),
        })?;
        *kept = Some(fresh.clone());
        Ok(fresh.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(pairs: &[(&str, &str)]) -> Values {
        Values::new(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn names_are_taken_as_programs_write_them() {
        for pairs in [
            [("aws_access_key_id", "A"), ("aws_secret_access_key", "B"), ("aws_session_token", "C")],
            [("AccessKeyId", "A"), ("SecretAccessKey", "B"), ("SessionToken", "C")],
            [("access_key", "A"), ("secret_key", "B"), ("token", "C")],
        ] {
            let made = AwsCredential::from_values(&values(&pairs)).unwrap();
            assert_eq!(
                (made.key_id.as_str(), made.secret_key.as_str(), made.token.as_deref()),
                ("A", "B", Some("C"))
            );
        }
        assert_eq!(GcpCredential::from_values(&values(&[("token", "T")])).unwrap().bearer, "T");
        for pairs in [("azure_storage_account_key", "AAAA"), ("sas_token", "?sig=a&se=b"), ("token", "T")] {
            assert!(AzureCredential::from_values(&values(&[pairs])).is_ok(), "{}", pairs.0);
        }
    }

    #[test]
    fn missing_values_are_named_and_given_ones_are_not_shown() {
        let reason =
            AwsCredential::from_values(&values(&[("aws_secret_access_key", "hunter2")])).err().unwrap();
        assert!(reason.contains("aws_access_key_id") && !reason.contains("hunter2"), "{reason}");
    }
}
