//! Parses the method and the path of a request into a route. Pure.

use hyper::Method;

use crate::name::is_name;
use crate::page::Part;

/// A route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// `/healthz`.
    Health,
    /// `/metrics`.
    Metrics,
    /// `/v1/arena`.
    Arena,
    /// `/v1/c/NAME/o/KEY`.
    Object { name: String, key: String, verb: Verb },
    /// The same path with the method PATCH: a step of an upload in pieces.
    Upload { name: String, key: String },
    /// `/v1/c/NAME/o/?prefix=P`.
    List { name: String, prefix: String },
    /// `/v1/c/NAME/events?after=SNAPSHOT`.
    Events { name: String, after: u64 },
    /// `/v1/c/NAME/read`, `put` or `do`.
    Batch { name: String },
    /// `/v1/c/NAME/page/` and the paths below.
    Page { name: String, part: Part, query: String },
    /// There is no such path.
    Unknown,
    /// The path exists, but does not support the method.
    Method,
}

/// The operation on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    Head,
    Put,
    Delete,
}

impl Route {
    pub(crate) fn parse(method: &Method, path: &str, query: Option<&str>) -> Route {
        let is_get = method == Method::GET || method == Method::HEAD;
        match path {
            "/healthz" | "/metrics" | "/v1/arena" if !is_get => return Route::Method,
            "/v1/arena" => return Route::Arena,
            "/healthz" => return Route::Health,
            "/metrics" => return Route::Metrics,
            _ => {}
        }
        let Some(rest) = path.strip_prefix("/v1/c/") else { return Route::Unknown };
        if let Some((name, key)) = rest.split_once("/o/") {
            if !is_name(name) {
                return Route::Unknown;
            }
            let name = name.to_owned();
            if key.is_empty() {
                let prefix = query.map_or(Some(String::new()), prefix);
                return match prefix {
                    _ if !is_get => Route::Method,
                    Some(prefix) => Route::List { name, prefix },
                    None => Route::Unknown,
                };
            }
            let verb = match *method {
                Method::GET => Verb::Get,
                Method::HEAD => Verb::Head,
                Method::PUT => Verb::Put,
                Method::PATCH => return Route::Upload { name, key: key.to_owned() },
                Method::DELETE => Verb::Delete,
                _ => return Route::Method,
            };
            return Route::Object { name, key: key.to_owned(), verb };
        }
        if let Some((name, part)) = Part::parse(method, rest).filter(|(name, _)| is_name(name)) {
            let query = query.unwrap_or_default().to_owned();
            let is_meant = is_get || part == Part::Form;
            return if is_meant { Route::Page { name, part, query } } else { Route::Method };
        }
        match rest.rsplit_once('/') {
            Some((name, "read" | "put" | "do")) if is_name(name) && method == Method::POST => {
                Route::Batch { name: name.to_owned() }
            }
            Some((name, "read" | "put" | "do")) if is_name(name) => Route::Method,
            Some((name, "events")) if is_name(name) && is_get => {
                let after = query.map_or(Some(0), |query| query.strip_prefix("after=")?.parse().ok());
                after.map_or(Route::Unknown, |after| Route::Events { name: name.to_owned(), after })
            }
            _ => Route::Unknown,
        }
    }

    /// Its name in metrics and logs.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Route::Health => "healthz",
            Route::Metrics => "metrics",
            Route::Arena => "arena",
            Route::Object { verb: Verb::Get, .. } => "get",
            Route::Object { verb: Verb::Head, .. } => "head",
            Route::Object { verb: Verb::Put, .. } => "put",
            Route::Object { verb: Verb::Delete, .. } => "delete",
            Route::Upload { .. } => "upload",
            Route::List { .. } => "list",
            Route::Batch { .. } => "batch",
            Route::Events { .. } => "events",
            Route::Page { .. } => "page",
            Route::Unknown | Route::Method => "unknown",
        }
    }

    /// The name of the container in the path.
    pub(crate) fn container(&self) -> Option<&str> {
        match self {
            Route::Object { name, .. }
            | Route::Upload { name, .. }
            | Route::List { name, .. }
            | Route::Batch { name }
            | Route::Events { name, .. }
            | Route::Page { name, .. } => Some(name),
            _ => None,
        }
    }
}

/// Parses `prefix=P`, in which slashes may be percent-encoded.
fn prefix(query: &str) -> Option<String> {
    let text = query.strip_prefix("prefix=")?;
    let text = text.replace("%2F", "/").replace("%2f", "/");
    text.bytes().all(|c| c.is_ascii_alphanumeric() || b"._-/".contains(&c)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_routes_and_names_may_have_slashes() {
        let object = |name: &str, key: &str, verb| Route::Object { name: name.into(), key: key.into(), verb };
        let parse = |method: Method, path: &str| Route::parse(&method, path, None);
        assert_eq!(parse(Method::GET, "/v1/c/run42/o/log/a.seg"), object("run42", "log/a.seg", Verb::Get));
        assert_eq!(
            parse(Method::PUT, "/v1/c/scratch/x.dry/o/a/o/b"),
            object("scratch/x.dry", "a/o/b", Verb::Put)
        );
        let upload = Route::Upload { name: "run42".into(), key: "log/a.seg".into() };
        assert_eq!(parse(Method::PATCH, "/v1/c/run42/o/log/a.seg"), upload);
        assert_eq!(
            parse(Method::POST, "/v1/c/scratch/read/do"),
            Route::Batch { name: "scratch/read".into() }
        );
        let list = Route::parse(&Method::GET, "/v1/c/run42/o/", Some("prefix=log%2Fa"));
        assert_eq!(list, Route::List { name: "run42".into(), prefix: "log/a".into() });
        let events = |query| Route::parse(&Method::GET, "/v1/c/scratch/x/events", query);
        assert_eq!(events(Some("after=7")), Route::Events { name: "scratch/x".into(), after: 7 });
        assert_eq!(events(None), Route::Events { name: "scratch/x".into(), after: 0 });
        assert_eq!(events(Some("after=soon")), Route::Unknown);
        assert_eq!(parse(Method::GET, "/v1/arena"), Route::Arena);
        let page = |part, query: &str| Route::Page { name: "run42".into(), part, query: query.into() };
        let question = Route::parse(&Method::GET, "/v1/c/run42/page/api/variable", Some("name=T"));
        assert_eq!(question, page(Part::Question("variable".into()), "name=T"));
        assert_eq!(parse(Method::POST, "/v1/c/run42/page/"), page(Part::Form, ""));
        assert_eq!(parse(Method::PUT, "/v1/c/run42/page/"), Route::Method);
        assert_eq!(parse(Method::POST, "/v1/c/run42/page/read"), Route::Batch { name: "run42/page".into() });
        assert_eq!(parse(Method::POST, "/v1/c/run42/o/x"), Route::Method);
        for path in [
            "/",
            "/v1/c/",
            "/v1/c//o/x",
            "/v1/c/../o/x",
            "/v1/c/a/../../o/x",
            "/v2/c/a/o/x",
            "/v1/c/a%2fb/o/x",
            "//healthz",
        ] {
            assert_eq!(parse(Method::GET, path), Route::Unknown, "{path}");
        }
    }
}
