//! The manual page, drystone(1), generated from the parser by `clap_mangen`.
//!
//! All commands are on one page: the sections of a command become subsections.

use clap::Command;
use clap_mangen::Man;

use crate::args::Arguments;
use crate::failure::{Failure, IO, Result};

const REST: &str = r#".SH SELECTIONS
As NumPy writes them, brackets optional: \fB[3, :, 0:8:2, \-1]\fR. The first axis of a variable with steps is the step.
.SH EXIT STATUS
.TP
\fB0\fR
Done.
.TP
\fB1\fR
The command did its work and found damage (verify), differences (diff), or files that would change (fmt \-\-check).
.TP
\fB2\fR
Wrong usage or input.
.TP
\fB3\fR
Not found: no such container, variable, group, member, step, block or snapshot.
.TP
\fB4\fR
Corrupt: what had to be read is damaged.
.TP
\fB5\fR
Conflict: another process did something that excludes this, or a file exists already.
.TP
\fB6\fR
I/O error: the medium, or where the output goes, failed.
.TP
\fB7\fR
Permission: rights are missing, of a file or at a store.
.TP
\fB8\fR
Deadline: the time of a request ran out.
.TP
\fB9\fR
Not yet home: the bytes are in a tier of another node, and on their way.
.TP
\fB130\fR
Ctrl\-C ended import, export or copy, which removed what it had made.
.SH ENVIRONMENT
.TP
\fBNO_COLOR\fR
Any value turns colours off.
"#;

/// The page, in roff.
pub(crate) fn page() -> Result<String> {
    let mut out = Vec::new();
    write(&mut out).map_err(|error| Failure::new(IO, format!("making the manual page: {error}")))?;
    Ok(in_ascii(&String::from_utf8_lossy(&out)))
}

/// Escapes characters as roff requires.
fn in_ascii(text: &str) -> String {
    let named = |c: char| if c.is_ascii() { c.to_string() } else { format!("\\[u{:04X}]", u32::from(c)) };
    text.chars().map(named).collect()
}

fn write(out: &mut Vec<u8>) -> std::io::Result<()> {
    let mut parser = Arguments::parser();
    parser.build();
    let man = Man::new(parser.clone()).title("DRYSTONE").source("drystone").manual("User Commands");
    man.render_title(out)?;
    man.render_name_section(out)?;
    man.render_synopsis_section(out)?;
    out.extend_from_slice(
        b".SH DESCRIPTION\n\
          A container holds arrays that many processes write and anybody reads. Results go to standard output as tables, \
          or with \\fB\\-\\-json\\fR as JSON; an error is one line on standard error.\n",
    );
    for command in parser.get_subcommands().filter(|command| command.get_name() != "help") {
        write_command(command, out)?;
    }
    out.extend_from_slice(REST.as_bytes());
    Ok(())
}

fn write_command(command: &Command, out: &mut Vec<u8>) -> std::io::Result<()> {
    let man = Man::new(command.clone());
    let mut sections = Vec::new();
    man.render_synopsis_section(&mut sections)?;
    man.render_description_section(&mut sections)?;
    man.render_options_section(&mut sections)?;
    let name = command.get_name().to_uppercase();
    out.extend_from_slice(format!(".SH DRYSTONE {name}\n").as_bytes());
    out.extend_from_slice(String::from_utf8_lossy(&sections).replace(".SH ", ".SS ").as_bytes());
    Ok(())
}
