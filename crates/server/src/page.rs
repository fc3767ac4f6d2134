//! The page of `drystone view` for a container on this server: checks who may see it, and passes its requests to the
//! face.
//!
//! The face that starts the server provides the page and its answers as a [`Page`](crate::Page). This module checks the
//! right to read the container, and grants turns and memory.
//!
//! Invariants
//! - a page shows one container, and sends requests only below its own URL; each request needs `storage.read` on that
//!   container;
//! - browsers hold the token in a cookie for that URL only. Scripts cannot read it, and requests from other sites do
//!   not carry it. No other route reads cookies;
//! - requests that pages of other sites make are refused.

use std::sync::Arc;

use bytes::Bytes;
use drystone_wire::Status;
use http_body_util::{BodyExt, Limited};
use hyper::Method;
use hyper::body::Incoming;
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue, LOCATION,
    ORIGIN, REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS,
};

use crate::asked::{Asked, Who, blocking};
use crate::place::{Place, place};
use crate::reply::{Refusal, Reply, Sent, reply};
use crate::state::State;
use crate::token::Right;

/// The cookie that holds a token.
const TOKEN: &str = "drystone-token";
/// The longest form, in bytes.
const FORM: usize = 8192;
/// The longest query of a question, in bytes.
const QUESTION: usize = 8192;
/// One answer may hold `limits.memory` divided by this.
const PART: u64 = 4;

/// What a request below the URL of a page asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The URL without its last slash.
    Bare,
    /// The page itself.
    Whole,
    /// The form with a token, sent by the browser.
    Form,
    File(String),
    Question(String),
}

impl Part {
    /// Parses a path below `/v1/c/` into the name of a container and what is asked for.
    pub(crate) fn parse(method: &Method, rest: &str) -> Option<(String, Part)> {
        if let Some(name) = rest.strip_suffix("/page") {
            return Some((name.to_owned(), Part::Bare));
        }
        let (name, asked) = rest.rsplit_once("/page/")?;
        let part = match asked {
            "" if method == Method::POST => Part::Form,
            "" => Part::Whole,
            _ => match asked.strip_prefix("api/") {
                Some(question) if !question.contains('/') => Part::Question(question.to_owned()),
                None if asked.contains('.') && !asked.contains('/') => Part::File(asked.to_owned()),
                _ => return None,
            },
        };
        Some((name.to_owned(), part))
    }
}

/// The client of a request that has a cookie instead of a header.
pub(crate) fn client_of(state: &State, headers: &HeaderMap) -> Who {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let found = cookies.flat_map(|value| value.split(';')).find_map(|one| {
        let (name, word) = one.trim().split_once('=')?;
        (name == TOKEN).then_some(word)
    });
    found.and_then(|word| state.token(word)).map_or(Who::Nobody, Who::Token)
}

/// The form that asks a browser for a token. It is the same for all containers.
pub(crate) fn form(refusal: &Refusal) -> Reply {
    let why = if refusal.needs_token { "" } else { "<p>This token does not give the right to read it.</p>" };
    let page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>drystone</title>\
         <h1>A container on a server</h1>{why}\
         <form method=\"post\" action=\"./\"><label>Token with <code>storage.read</code> on it: \
         <input type=\"password\" name=\"token\" autocomplete=\"off\" required autofocus></label> \
         <button>Show</button></form></html>"
    );
    let mut reply = sealed(reply(refusal.http(), "text/html; charset=utf-8", Sent::whole(page)));
    reply.headers_mut().insert(
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
        ),
    );
    // Without a referrer, a browser would send the form without an origin.
    reply.headers_mut().insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    reply
}

/// Sets the cookie to the token of the form, if the token gives the right to read.
pub(crate) async fn signed_in(
    state: &Arc<State>,
    name: &str,
    headers: &HeaderMap,
    body: Incoming,
) -> Result<Reply, Refusal> {
    of_this_site(headers, true)?;
    let cut = |_| Refusal::new(Status::Invalid, "the form is longer than any token");
    let body = Limited::new(body, FORM).collect().await.map_err(cut)?.to_bytes();
    let word = body.split(|byte| *byte == b'&').find_map(|one| one.strip_prefix(b"token="));
    let word = word.and_then(|word| std::str::from_utf8(word).ok()).map(str::trim).unwrap_or_default();
    // Tokens contain only these characters. Other text must not get into a header.
    let is_plain =
        !word.is_empty() && word.bytes().all(|c| c.is_ascii_alphanumeric() || b"-_.~".contains(&c));
    let known = if is_plain { state.token(word) } else { None };
    let who = known.map_or(Who::Nobody, Who::Token);
    who.needs(&[Right::Read], name)?;
    let secure = if state.config.tls.is_some() { "; Secure" } else { "" };
    let cookie = format!("{TOKEN}={word}; HttpOnly; SameSite=Strict; Path=/v1/c/{name}/page/{secure}");
    let mut reply = sealed(reply(303, "text/plain; charset=utf-8", Sent::whole("")));
    reply.headers_mut().insert(LOCATION, HeaderValue::from_static("./"));
    let cookie =
        HeaderValue::from_str(&cookie).map_err(|_| Refusal::new(Status::Invalid, "no such token"))?;
    reply.headers_mut().insert(SET_COOKIE, cookie);
    Ok(reply)
}

/// Redirects to the URL with a final slash, so that relative URLs of the page lie below it.
pub(crate) fn moved() -> Reply {
    let mut reply = sealed(reply(308, "text/plain; charset=utf-8", Sent::whole("")));
    reply.headers_mut().insert(LOCATION, HeaderValue::from_static("page/"));
    reply
}

/// The page, a file of it, or an answer to one of its questions.
pub(crate) async fn answer(asked: Asked, name: String, part: Part, query: String) -> Result<Reply, Refusal> {
    of_this_site(&asked.headers, part == Part::Whole)?;
    if matches!(asked.who, Who::SameUser(_)) {
        of_this_machine(&asked.headers)?;
    }
    asked.who.needs(&[Right::Read], &name)?;
    let Some(page) = asked.state.page.clone() else {
        return Err(Refusal::new(
            Status::Unsupported,
            "the page is in the Python package: start the server with the drystone command that pip installs",
        ));
    };
    if query.len() > QUESTION {
        return Err(Refusal::new(Status::Invalid, "the question is too long"));
    }
    let question = match part {
        Part::Question(question) => question,
        part => {
            let file = if let Part::File(file) = part { file } else { "index.html".to_owned() };
            let found = blocking(move || Ok(page.file(&file))).await?;
            let (body, kind) =
                found.ok_or_else(|| Refusal::new(Status::NotFound, "the page has no such file"))?;
            return Ok(typed(200, &kind, body));
        }
    };
    let most = asked.state.config.limits.memory / PART;
    let room = asked.state.admission.room(most, asked.patience()?).await?;
    let state = Arc::clone(&asked.state);
    let answer = blocking(move || {
        let opened = state.stores.of(&state.config, &name, false)?;
        let place = match (&opened.folder, place(&state.config, &name)) {
            (Some(folder), _) => folder.to_string_lossy().into_owned(),
            (None, Some(Place::Container(url))) if drystone::is_url(&url) => url,
            _ => {
                return Err(Refusal::new(
                    Status::NotFound,
                    format!("there is no container {name:?} on this server"),
                ));
            }
        };
        Ok(page.answer(&place, &name, &question, &query, most))
    })
    .await?;
    let mut reply = typed(answer.status, &answer.kind, answer.body);
    reply.body_mut().hold(room);
    Ok(reply)
}

fn typed(status: u16, kind: &str, body: Vec<u8>) -> Reply {
    let mut reply = sealed(reply(status, "application/octet-stream", Sent::whole(Bytes::from(body))));
    if let Ok(kind) = HeaderValue::from_str(kind) {
        reply.headers_mut().insert(hyper::header::CONTENT_TYPE, kind);
    }
    reply
}

/// Adds the headers that restrict what browsers may do with a reply.
fn sealed(mut reply: Reply) -> Reply {
    let fixed = [
        (CACHE_CONTROL, "no-store"),
        (
            CONTENT_SECURITY_POLICY,
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    for (name, value) in fixed {
        reply.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    reply
}

/// Refuses requests that a page of another site makes. A link to the page itself may be followed from any site, since
/// the rights are checked.
fn of_this_site(headers: &HeaderMap, may_be_followed: bool) -> Result<(), Refusal> {
    let said = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let others = || Refusal::new(Status::Denied, "pages of other sites may not ask");
    if let Some(origin) = headers.get(ORIGIN).and_then(|value| value.to_str().ok()) {
        let host = headers.get(HOST).and_then(|value| value.to_str().ok());
        if origin.split_once("://").map(|(_, host)| host) != host {
            return Err(others());
        }
    }
    let is_followed = may_be_followed && said("sec-fetch-mode") == Some("navigate");
    match said("sec-fetch-site") {
        None | Some("none" | "same-origin") => Ok(()),
        _ if is_followed => Ok(()),
        _ => Err(others()),
    }
}

/// Requests on a socket of this user need no token. So a host name that another site points to the end of a tunnel is
/// refused.
fn of_this_machine(headers: &HeaderMap) -> Result<(), Refusal> {
    let host = headers.get(HOST).and_then(|value| value.to_str().ok()).unwrap_or("localhost");
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !host.ends_with(']') && port.bytes().all(|c| c.is_ascii_digit()) => name,
        _ => host,
    };
    if matches!(name, "localhost" | "127.0.0.1" | "[::1]") {
        return Ok(());
    }
    Err(Refusal::new(Status::Denied, "open the page as http://localhost: a socket is for this user alone"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_a_part_of_the_page() {
        let parse = |path: &str| Part::parse(&Method::GET, path);
        let of = |name: &str, part| Some((name.to_owned(), part));
        assert_eq!(parse("run42/page"), of("run42", Part::Bare));
        assert_eq!(parse("run42/page/"), of("run42", Part::Whole));
        assert_eq!(parse("a/b/page/main.js"), of("a/b", Part::File("main.js".into())));
        assert_eq!(parse("a/page/page/api/tree"), of("a/page", Part::Question("tree".into())));
        assert_eq!(Part::parse(&Method::POST, "run42/page/"), of("run42", Part::Form));
        for other in ["run42/page/events", "run42/page/api/a/b", "run42/page/x/y.js", "run42/pages/", "page/"]
        {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    fn headers(given: &[(&'static str, &'static str)]) -> HeaderMap {
        given
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn pages_of_other_sites_and_other_names_are_refused() {
        let site = |given: &[_], followed| of_this_site(&headers(given), followed).is_ok();
        assert!(site(&[], false));
        assert!(site(&[("host", "a:1"), ("origin", "http://a:1")], false));
        assert!(!site(&[("host", "a:1"), ("origin", "http://b:1")], false));
        assert!(!site(&[("host", "a:1"), ("origin", "null")], false));
        assert!(!site(&[("sec-fetch-site", "cross-site")], true));
        assert!(site(&[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")], true));
        assert!(!site(&[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")], false));
        assert!(site(&[("sec-fetch-site", "same-origin")], false));
        let machine = |host| of_this_machine(&headers(&[("host", host)])).is_ok();
        assert!(
            machine("localhost") && machine("localhost:8737") && machine("127.0.0.1:1") && machine("[::1]:1")
        );
        assert!(!machine("rebound.example:8737") && !machine("localhost.example") && !machine("[::2]"));
    }
}
