//! `drystone token`: manages the tokens of a server's clients.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use drystone_server::{Scope, Tokens, issue, revoke};

use crate::args::{Token, TokenAction};
use crate::failure::{Failure, NOT_FOUND, OK, Result};
use crate::json::Json;
use crate::output::Output;
use crate::table::table;

pub(super) fn run(token: &Token, json: bool, output: &mut Output) -> Result<i32> {
    let wrong = |error: drystone_server::InvalidConfig| Failure::usage(error.to_string());
    if token.action != TokenAction::Create && !token.file.exists() {
        return Err(Failure::new(NOT_FOUND, format!("there is no file {}", token.file.display())));
    }
    match token.action {
        TokenAction::Create => {
            let scopes =
                token.scope.iter().map(|text| Scope::parse(text)).collect::<std::result::Result<Vec<_>, _>>();
            let expires = token.expires.as_deref().map(life).transpose()?;
            let issued = issue(&token.file, &scopes.map_err(wrong)?, expires).map_err(wrong)?;
            if json {
                output.json(&Json::Object(vec![("id", issued.id.into()), ("token", issued.word.into())]));
            } else {
                output.text(&format!("{}\n", issued.word));
            }
        }
        TokenAction::List => {
            let tokens = Tokens::read(&token.file).map_err(wrong)?.list();
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
            if json {
                let one = |(id, scopes, expires): (String, Vec<Scope>, Option<u64>)| {
                    let scopes = scopes.iter().map(|scope| scope.to_string().into()).collect();
                    Json::Object(vec![
                        ("id", id.into()),
                        ("scopes", Json::List(scopes)),
                        ("expires", expires.map_or(Json::Null, Into::into)),
                    ])
                };
                output.json(&Json::List(tokens.into_iter().map(one).collect()));
            } else {
                let row = |(id, scopes, expires): (String, Vec<Scope>, Option<u64>)| {
                    let scopes: Vec<String> = scopes.iter().map(Scope::to_string).collect();
                    let left = match expires {
                        None => "never".into(),
                        Some(end) if end <= now => "has expired".into(),
                        Some(end) => format!("in {}", span(end - now)),
                    };
                    vec![id, scopes.join(" "), left]
                };
                let rows: Vec<Vec<String>> = tokens.into_iter().map(row).collect();
                output.text(&table(&[("id", false), ("scopes", false), ("expires", false)], &rows));
            }
        }
        TokenAction::Revoke => {
            let Some(id) = &token.id else {
                return Err(Failure::usage(
                    "the id of the token to revoke is missing; drystone token list FILE has them",
                ));
            };
            if !revoke(&token.file, id).map_err(wrong)? {
                return Err(Failure::new(
                    NOT_FOUND,
                    format!("there is no token {id:?} in {}", token.file.display()),
                ));
            }
        }
    }
    Ok(OK)
}

/// `2s`, `10m`, `12h`, `30d`.
fn life(text: &str) -> Result<Duration> {
    let bad =
        || Failure::usage(format!("--expires takes a time such as 90s, 10m, 12h or 30d, not \"{text}\""));
    let (number, unit) = text.split_at_checked(text.len().wrapping_sub(1)).ok_or_else(bad)?;
    let unit = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err(bad()),
    };
    let number = number.bytes().all(|c| c.is_ascii_digit()).then(|| number.parse::<u64>().ok()).flatten();
    number.and_then(|n| n.checked_mul(unit)).map(Duration::from_secs).ok_or_else(bad)
}

fn span(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::life;

    #[test]
    fn lives_have_units() {
        let seconds = |text: &str| life(text).ok().map(|d| d.as_secs());
        assert_eq!(["2s", "10m", "12h", "30d"].map(seconds), [2, 600, 43_200, 2_592_000].map(Some));
        assert_eq!(["", "d", "1w", "-1s", "10", "99999999999999999d"].map(seconds), [None; 6]);
    }
}
