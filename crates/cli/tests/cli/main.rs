//! The built command, run over containers that the engine made.
#![allow(clippy::unwrap_used, reason = "functions that tests share")]

mod commands;
mod sample;
mod texts;
mod wrong_input;
