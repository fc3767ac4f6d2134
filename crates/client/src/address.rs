//! The address of a container: a server, and a name on it.

use std::path::PathBuf;

use crate::InvalidAddress;

/// The schemes of servers.
pub const SCHEMES: [&str; 3] = ["drys", "dry", "drys+unix"];

/// The default port of a server.
const PORT: u16 = 7070;

/// The transport to a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Way {
    /// TCP; encrypted, except for `dry://` addresses on this machine.
    Tcp { host: String, port: u16, encrypted: bool },
    /// A Unix socket on this machine.
    Unix(PathBuf),
}

/// A container on a server: a validated address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub(crate) way: Way,
    name: String,
}

impl Address {
    /// Parses `drys://host:port/name`, `dry://127.0.0.1:port/name` or `drys+unix:///path/of/socket:/name`.
    pub fn parse(url: &str) -> Result<Address, InvalidAddress> {
        let wrong = |why: &str| {
            InvalidAddress(format!(
                "{why}; write drys://HOST:PORT/NAME, dry://127.0.0.1:PORT/NAME or drys+unix:///PATH/OF/SOCKET:/NAME"
            ))
        };
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(wrong("this is not the address of a server"));
        };
        let (way, name) = match scheme {
            "drys+unix" => {
                let (path, name) = rest.split_once(":/").ok_or_else(|| {
                    wrong("the address has no name of a container behind the socket's path")
                })?;
                if !path.starts_with('/') {
                    return Err(wrong("the path of the socket is not absolute"));
                }
                (Way::Unix(path.into()), name)
            }
            "drys" | "dry" => {
                let (server, name) =
                    rest.split_once('/').ok_or_else(|| wrong("the address has no name of a container"))?;
                if server.contains('@') {
                    return Err(InvalidAddress(
                        "the address contains a user or a password; pass a token as an option instead".into(),
                    ));
                }
                let (host, port) = split_port(server).ok_or_else(|| wrong("the port is not a number"))?;
                if host.is_empty() {
                    return Err(wrong("the address names no host"));
                }
                let encrypted = scheme == "drys";
                let is_loopback = host == "localhost"
                    || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
                if !encrypted && !is_loopback {
                    return Err(InvalidAddress(format!(
                        "dry:// is not encrypted, so it is for this machine alone (127.0.0.1); reach {host} by drys://"
                    )));
                }
                (Way::Tcp { host: host.to_owned(), port, encrypted }, name)
            }
            other => return Err(wrong(&format!("{other}:// is not a scheme of servers"))),
        };
        let name = name.trim_end_matches('/');
        if !is_name(name) {
            return Err(wrong(
                "the container's name is invalid: use letters, digits, '.', '_' and '-' between slashes",
            ));
        }
        Ok(Address { way, name: name.to_owned() })
    }

    /// The container's name on the server.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The value of the header `Host`.
    pub(crate) fn host(&self) -> String {
        match &self.way {
            Way::Tcp { host, port, .. } if host.contains(':') => format!("[{host}]:{port}"),
            Way::Tcp { host, port, .. } => format!("{host}:{port}"),
            Way::Unix(_) => "localhost".into(),
        }
    }
}

fn split_port(server: &str) -> Option<(&str, u16)> {
    if let Some(rest) = server.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        return match rest.strip_prefix(':') {
            Some(port) => Some((host, port.parse().ok()?)),
            None if rest.is_empty() => Some((host, PORT)),
            None => None,
        };
    }
    match server.split_once(':') {
        Some((host, port)) => Some((host, port.parse().ok()?)),
        None => Some((server, PORT)),
    }
}

/// Whether a text is a valid name of a container. The server checks names in the same way: docs/guide/server.md,
/// "Names".
fn is_name(name: &str) -> bool {
    let is_part = |part: &str| {
        (1..=255).contains(&part.len())
            && !part.starts_with('.')
            && part != "o"
            && part.bytes().all(|c| c.is_ascii_alphanumeric() || b"._-".contains(&c))
    };
    name.len() <= 1024 && name.split('/').all(is_part)
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.way {
            Way::Tcp { encrypted: true, .. } => write!(f, "drys://{}/{}", self.host(), self.name),
            Way::Tcp { encrypted: false, .. } => write!(f, "dry://{}/{}", self.host(), self.name),
            Way::Unix(path) => write!(f, "drys+unix://{}:/{}", path.display(), self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_a_server_and_a_container() {
        for (url, shown, name) in [
            ("drys://host:7071/run42", "drys://host:7071/run42", "run42"),
            ("drys://host/scratch/x.dry/", "drys://host:7070/scratch/x.dry", "scratch/x.dry"),
            ("dry://[::1]:9/a", "dry://[::1]:9/a", "a"),
            ("dry://localhost/a", "dry://localhost:7070/a", "a"),
            (
                "drys+unix:///run/user/1000/d.sock:/scratch/x",
                "drys+unix:///run/user/1000/d.sock:/scratch/x",
                "scratch/x",
            ),
        ] {
            let address = Address::parse(url).unwrap();
            assert_eq!((address.to_string().as_str(), address.name()), (shown, name));
        }
    }

    #[test]
    fn errors_are_clear_and_contain_no_secret() {
        for (url, said) in [
            ("dry://host.example/a", "drys://"),
            ("drys://host", "name of a container"),
            ("drys:///a", "no host"),
            ("drys://host:x/a", "port"),
            ("drys://host/../a", "letters"),
            ("drys://host/a/o/b", "letters"),
            ("drys+unix://run/d.sock:/a", "absolute"),
            ("drys+unix:///run/d.sock", "behind the socket"),
        ] {
            let message = Address::parse(url).unwrap_err().to_string();
            assert!(message.contains(said), "{url}: {message}");
        }
        let message = Address::parse("drys://user:hunter2@host/a").unwrap_err().to_string();
        assert!(!message.contains("hunter2"), "{message}");
    }
}
