//! Profiles of the AWS command line: static keys, and `credential_process`, which includes single sign-on.
//!
//! Credentials that object_store looks up by itself are left to it: web identity, and the roles of containers and
//! instances.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use object_store::CredentialProvider;
use object_store::aws::AwsCredential;

use crate::{InvalidAddress, timestamp};

/// One profile in the files.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Profile {
    /// Its name; empty if there is none.
    pub(crate) name: String,
    /// Names and values of options.
    pub(crate) values: BTreeMap<String, String>,
    /// The program that prints credentials.
    pub(crate) process: Option<String>,
}

/// Reads the profile that the caller or `AWS_PROFILE` names; else `default`, if it exists.
pub(crate) fn profile(
    named: Option<String>,
    environment: &BTreeMap<String, String>,
) -> Result<Profile, InvalidAddress> {
    let given = |name: &str| environment.get(name).filter(|value| !value.is_empty());
    let chosen = named.or_else(|| given("AWS_PROFILE").cloned());
    let name = chosen.clone().unwrap_or_else(|| "default".into());
    let home = given("HOME").map(PathBuf::from);
    let file = |variable: &str, usual: &str| {
        given(variable).map(PathBuf::from).or_else(|| home.as_ref().map(|home| home.join(".aws").join(usual)))
    };
    let mut found = BTreeMap::new();
    let mut there = false;
    let files = [
        (
            file("AWS_CONFIG_FILE", "config"),
            if name == "default" { name.clone() } else { format!("profile {name}") },
        ),
        (file("AWS_SHARED_CREDENTIALS_FILE", "credentials"), name.clone()),
    ];
    for (path, section) in files {
        let Some(text) = path.and_then(|path| std::fs::read_to_string(path).ok()) else { continue };
        if let Some(values) = section_of(&text, &section) {
            there = true;
            found.extend(values);
        }
    }
    if !there {
        return match chosen {
            None => Ok(Profile::default()),
            Some(name) => Err(InvalidAddress::new(format!(
                "the AWS profile {name:?} is in neither ~/.aws/config nor ~/.aws/credentials; check the name, or \
                 unset AWS_PROFILE"
            ))),
        };
    }
    let has_keys = found.contains_key("aws_access_key_id");
    let process = found.remove("credential_process").filter(|_| !has_keys);
    let known = ["aws_access_key_id", "aws_secret_access_key", "aws_session_token", "region", "endpoint_url"];
    found.retain(|name, _| known.contains(&name.as_str()));
    Ok(Profile { name, values: found, process })
}

/// The names and values below `[section]`.
fn section_of(text: &str, section: &str) -> Option<BTreeMap<String, String>> {
    let mut values = None;
    let mut inside = false;
    for line in text.lines() {
        let is_nested = line.starts_with([' ', '\t']);
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.split(']').next()) {
            inside = name.split_whitespace().collect::<Vec<_>>().join(" ") == section;
            if inside {
                values.get_or_insert_with(BTreeMap::new);
            }
        } else if inside
            && !is_nested
            && let (Some(values), Some((name, value))) = (values.as_mut(), line.split_once('='))
        {
            values.insert(name.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    values
}

/// Runs the program of a profile when its last credentials are about to expire.
pub(crate) struct ProcessCredentials {
    command: String,
    kept: Mutex<Option<(Arc<AwsCredential>, Option<Instant>)>>,
}

impl ProcessCredentials {
    pub(crate) fn new(command: String) -> Self {
        ProcessCredentials { command, kept: Mutex::new(None) }
    }
}

impl std::fmt::Debug for ProcessCredentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ProcessCredentials")
    }
}

/// Credentials are renewed this long before they expire.
pub(crate) const EARLY: Duration = Duration::from_secs(300);

#[async_trait::async_trait]
impl CredentialProvider for ProcessCredentials {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((credential, until)) = kept
            && until.is_none_or(|until| Instant::now() < until)
        {
            return Ok(credential);
        }
        let command = self.command.clone();
        let outcome = tokio::task::spawn_blocking(move || run(&command)).await;
        let fresh =
            outcome.unwrap_or_else(|_| Err("it was not run to its end".into())).map_err(|reason| {
                object_store::Error::Unauthenticated {
                    path: String::new(),
                    source: format!("credential_process of the AWS profile failed: {reason}").into(),
                }
            })?;
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(fresh.clone());
        Ok(fresh.0)
    }
}

/// Runs the command and parses its output. Errors contain no part of the output.
fn run(command: &str) -> Result<(Arc<AwsCredential>, Option<Instant>), String> {
    let mut shell = if cfg!(windows) { Command::new("cmd") } else { Command::new("sh") };
    shell.arg(if cfg!(windows) { "/C" } else { "-c" }).arg(command);
    let output =
        shell.stdin(Stdio::null()).stderr(Stdio::inherit()).output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(format!("it ended with {}", output.status));
    }
    let said: serde_json::Value =
        serde_json::from_slice(&output.stdout).map_err(|_| "it printed no JSON".to_owned())?;
    let text = |name: &str| said[name].as_str().map(str::to_owned);
    let (Some(key_id), Some(secret_key)) = (text("AccessKeyId"), text("SecretAccessKey")) else {
        return Err("what it printed lacks AccessKeyId or SecretAccessKey".into());
    };
    let until = text("Expiration").map(|text| {
        // A time that cannot be parsed is treated as a near one.
        let left = timestamp::parse(&text).and_then(|end| end.duration_since(SystemTime::now()).ok());
        Instant::now() + left.map_or(EARLY, |left| left.saturating_sub(EARLY))
    });
    Ok((Arc::new(AwsCredential { key_id, secret_key, token: text("SessionToken") }), until))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# mine\n[default]\nregion = eu-1\n\n[profile  sso]\ncredential_process = /bin/print --it\nregion=eu-2\ns3 =\n  max = 5\n[other]\naws_access_key_id = K\n";

    #[test]
    fn sections_have_their_own_values() {
        assert_eq!(section_of(FILE, "default").unwrap()["region"], "eu-1");
        let sso = section_of(FILE, "profile sso").unwrap();
        assert_eq!((sso["region"].as_str(), sso["credential_process"].as_str()), ("eu-2", "/bin/print --it"));
        assert!(!sso.contains_key("max"), "nested settings are others'");
        assert!(section_of(FILE, "absent").is_none());
    }

    #[test]
    fn a_profile_that_is_named_must_exist_and_one_that_is_not_need_not() {
        let dir = tempfile::tempdir().unwrap();
        let home = |more: &[(&str, &str)]| {
            let mut environment = BTreeMap::from([("HOME".to_owned(), dir.path().display().to_string())]);
            environment.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
            environment
        };
        assert!(profile(None, &home(&[])).unwrap() == Profile::default());
        assert!(profile(None, &home(&[("AWS_PROFILE", "sso")])).is_err());
        std::fs::create_dir(dir.path().join(".aws")).unwrap();
        std::fs::write(dir.path().join(".aws/config"), FILE).unwrap();
        std::fs::write(
            dir.path().join(".aws/credentials"),
            "[lab]\naws_access_key_id=A\naws_secret_access_key=B\n",
        )
        .unwrap();
        let lab = profile(Some("lab".into()), &home(&[])).unwrap();
        assert_eq!((lab.values["aws_access_key_id"].as_str(), lab.process), ("A", None));
        assert_eq!(
            profile(None, &home(&[("AWS_PROFILE", "sso")])).unwrap().process.unwrap(),
            "/bin/print --it"
        );
    }

    #[test]
    fn a_program_that_fails_is_named_without_what_it_printed() {
        let fails = run("echo hunter2; exit 3").err().unwrap();
        assert!(!fails.contains("hunter2") && fails.contains('3'), "{fails}");
        assert!(!run("echo hunter2").err().unwrap().contains("hunter2"));
        let (credential, until) = run(r#"echo '{"Version":1,"AccessKeyId":"A","SecretAccessKey":"B","Expiration":"2030-01-01T00:00:00Z"}'"#).unwrap();
        assert_eq!((credential.key_id.as_str(), credential.secret_key.as_str()), ("A", "B"));
        assert!(until.is_some());
    }
}
