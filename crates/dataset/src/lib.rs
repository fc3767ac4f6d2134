//! The declaration language: lexer, parser, checker, diagnostics. No I/O.
