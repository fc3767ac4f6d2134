//! Arguments of `completion`.

use clap::{Args, ValueEnum};

/// Shells with a completion script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    /// For ~/.bashrc: eval "$(drystone completion bash)"
    Bash,
    /// For rc.elv: eval (drystone completion elvish | slurp)
    Elvish,
    /// For config.fish: drystone completion fish | source
    Fish,
    /// For the profile: drystone completion powershell | Out-String | Invoke-Expression
    Powershell,
    /// For ~/.zshrc: eval "$(drystone completion zsh)"
    Zsh,
}

#[derive(Debug, Args)]
pub(crate) struct Completion {
    /// The shell
    pub(crate) shell: Shell,
}
