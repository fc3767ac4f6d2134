//! The commands and their arguments as data, for shell completion and the manual page.
//!
//! The data is derived from the parser, so there is only one definition.

use clap::{Arg, ArgAction, CommandFactory};

use crate::args::Arguments;
use crate::json::{Json, list};

/// Every command as JSON: `name`, `help` and `arguments`. Each argument has `name`, `flags` (empty for
/// positional arguments), `help`, `values` (the allowed values), `takes` (the name of its value; null for a
/// switch), `required` and `many`.
pub fn grammar() -> String {
    let mut parser = Arguments::command();
    parser.build();
    let commands = parser.get_subcommands().filter(|c| c.get_name() != "help").map(|command| {
        let arguments = command.get_arguments().filter(|a| !a.is_hide_set()).map(argument);
        Json::Object(vec![
            ("name", command.get_name().into()),
            ("help", command.get_about().map(ToString::to_string).unwrap_or_default().into()),
            ("arguments", Json::List(arguments.collect())),
        ])
    });
    Json::List(commands.collect()).to_string()
}

fn argument(arg: &Arg) -> Json {
    let mut flags = Vec::new();
    flags.extend(arg.get_short().map(|c| format!("-{c}")));
    flags.extend(arg.get_long().map(|name| format!("--{name}")));
    let takes = arg.get_action().takes_values();
    let many = matches!(arg.get_action(), ArgAction::Append)
        || arg.get_num_args().is_some_and(|n| n.max_values() > 1);
    let called = arg.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
    let values = arg.get_possible_values();
    Json::Object(vec![
        ("name", arg.get_id().as_str().into()),
        ("flags", list(flags)),
        ("help", arg.get_help().map(ToString::to_string).unwrap_or_default().into()),
        ("takes", takes.then(|| called.unwrap_or_else(|| arg.get_id().as_str().to_uppercase())).into()),
        (
            "values",
            list(values.iter().filter(|_| takes).map(|v| v.get_name().to_string()).collect::<Vec<_>>()),
        ),
        ("required", arg.is_required_set().into()),
        ("many", many.into()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_and_its_arguments_are_there() {
        let found: serde_json::Value = serde_json::from_str(&grammar()).unwrap();
        let names: Vec<_> = found.as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
        assert!(
            ["info", "ls", "dump", "verify", "recover"].iter().all(|name| names.contains(name)),
            "{names:?}"
        );
        let dump = found.as_array().unwrap().iter().find(|c| c["name"] == "dump").unwrap();
        let at = dump["arguments"].as_array().unwrap().iter().find(|a| a["name"] == "at").unwrap();
        assert_eq!(at["flags"], serde_json::json!(["--at"]));
        assert_eq!(at["takes"], "SNAPSHOT");
        let json = dump["arguments"].as_array().unwrap().iter().find(|a| a["name"] == "json").unwrap();
        assert_eq!(json["takes"], serde_json::Value::Null);
    }
}
