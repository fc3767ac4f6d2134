"""`drystone completion`: scripts by which shells complete commands, options, containers and names of variables."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from pathlib import Path

from drystone import container
from drystone.commands.grammar import Argument, Command, commands
from drystone.commands.outcome import Outcome
from drystone.errors import DrystoneError, InvalidArgumentError


def arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("shell", nargs="?", choices=list(_SHELLS), help="which shell the script is for")
    parser.add_argument(
        "--names", type=Path, metavar="CONTAINER", help="print the variables of a container instead"
    )


def run(given: argparse.Namespace) -> Outcome:
    """Print the script."""
    if given.names is not None:
        try:
            with container.open(given.names) as c:
                names = list(c.variables)
        except DrystoneError:  # who is still typing is not told
            names = []
        return Outcome("\n".join(names), names)
    if given.shell is None:
        raise InvalidArgumentError(f"which shell? one of {', '.join(_SHELLS)} (drystone completion --help)")
    script = _SHELLS[given.shell](commands())
    return Outcome(script, {"shell": given.shell, "script": script})


def _flags(command: Command) -> list[str]:
    return [flag for option in command.options for flag in option.flags]


def _after(command: Command) -> list[tuple[str, tuple[str, ...]]]:
    """Options whose values are not files, with these values."""
    return [
        (flag, option.values)
        for option in command.options
        if option.takes and (option.values or option.takes not in ("FILE", "OUTPUT"))
        for flag in option.flags
    ]


def _kind(argument: Argument) -> str:
    """What completes an argument that goes by its place."""
    if argument.is_variable:
        return "names"
    if argument.is_container:
        return "folders"
    if argument.values:
        return "values"
    return "files" if argument.name in ("file", "files") else "nothing"


def _places(command: Command) -> list[tuple[str, Argument]]:
    return [(_kind(argument), argument) for argument in command.by_place]


def _container_place(command: Command) -> int:
    """Which of the arguments by place is the container, from 1."""
    return next((n for n, argument in enumerate(command.by_place, 1) if argument.is_container), 1)


def _bash(all_commands: list[Command]) -> str:
    cases = []
    for command in all_commands:
        rows = [f"        {command.name})", f"            options={shlex.quote(' '.join(_flags(command)))}"]
        rows += [
            f'            [[ $before == {flag} ]] && {{ COMPREPLY=($(compgen -W {shlex.quote(" ".join(values))} -- "$word")); return; }}'
            for flag, values in _after(command)
        ]
        kinds = [kind for kind, _ in _places(command)]
        if command.by_place and command.by_place[-1].many:
            kinds.append(f"{kinds[-1]}*")
        values = " ".join(value for argument in command.by_place for value in argument.values)
        rows += [
            f"            kinds=({' '.join(kinds)}) container={_container_place(command)} values={shlex.quote(values)};;"
        ]
        cases.append("\n".join(rows))
    names = " ".join(command.name for command in all_commands)
    return f"""# Completion of drystone for bash: eval "$(drystone completion bash)", for instance in ~/.bashrc.
_drystone() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} command= options= kinds=() container=1 values=
    local -a given=()
    local n
    for ((n = 1; n < COMP_CWORD; n++)); do
        case ${{COMP_WORDS[n]}} in
            -*) ;;
            *) if [[ -z $command ]]; then command=${{COMP_WORDS[n]}}; else given+=("${{COMP_WORDS[n]}}"); fi;;
        esac
    done
    COMPREPLY=()
    case $command in
        "") COMPREPLY=($(compgen -W {shlex.quote(names + " --help --version --json")} -- "$word")); return;;
{chr(10).join(cases)}
        *) return;;
    esac
    if [[ $word == -* ]]; then COMPREPLY=($(compgen -W "$options" -- "$word")); return; fi
    local kind=${{kinds[${{#given[@]}}]}} last=
    [[ ${{#kinds[@]}} -gt 0 ]] && last=${{kinds[${{#kinds[@]}}-1]}}
    [[ -z $kind && $last == *\\* ]] && kind=${{last%\\*}}
    local IFS=$'\\n'
    case ${{kind%\\*}} in
        names) COMPREPLY=($(compgen -W "$(drystone completion --names "${{given[container-1]}}" 2> /dev/null)" -- "$word"));;
        folders) compopt -o filenames 2> /dev/null; COMPREPLY=($(compgen -d -- "$word"));;
        files) compopt -o filenames 2> /dev/null; COMPREPLY=($(compgen -f -- "$word"));;
        values) COMPREPLY=($(IFS=' '; compgen -W "$values" -- "$word"));;
    esac
}}
complete -F _drystone drystone"""


def _zsh(all_commands: list[Command]) -> str:
    def quoted(text: str) -> str:
        return text.replace("'", "'\\''").replace("[", "(").replace("]", ")").replace(":", "\\:")

    cases = []
    for command in all_commands:
        specs = []
        for option in command.options:
            for flag in option.flags:
                star = "*" if option.many else ""
                takes = f":{option.takes}:({' '.join(option.values)})" if option.values else ""
                if option.takes and not option.values:
                    takes = f":{option.takes}:{'_files' if option.takes in ('FILE', 'OUTPUT') else ' '}"
                specs.append(f"'{star}{flag}[{quoted(option.help)}]{takes}'")
        for kind, argument in _places(command):
            where = "*" if argument.many else "" if argument.required else ":"
            how = {
                "names": "_drystone_names",
                "folders": "_files -/",
                "files": "_files",
                "values": f"({' '.join(argument.values)})",
                "nothing": " ",
            }[kind]
            specs.append(f"'{where}:{quoted(argument.name)}:{how}'")
        joined = " \\\n                ".join(specs)
        cases.append(
            f"            {command.name}) place={_container_place(command)}; _arguments \\\n                {joined};;"
        )
    names = "\n        ".join(f"'{c.name}:{quoted(c.help)}'" for c in all_commands)
    return f"""#compdef drystone
# Completion of drystone for zsh: save it as _drystone in a folder of $fpath, or eval "$(drystone completion zsh)".
_drystone_names() {{
    local -a names given
    given=(${{${{words[2,CURRENT-1]}}:#-*}})
    names=(${{(f)"$(drystone completion --names "${{given[place]}}" 2> /dev/null)"}})
    compadd -- $names
}}
_drystone() {{
    local place=1 state line
    local -a names
    names=(
        {names}
    )
    _arguments -C '1:command:->command' '*::argument:->argument' '--help[Print help]' '--version[Print version]'
    case $state in
        command) _describe command names;;
        argument) case $line[1] in
{chr(10).join(cases)}
        esac;;
    esac
}}
if [ "$funcstack[1]" = "_drystone" ]; then _drystone "$@"; else compdef _drystone drystone; fi"""


def _fish(all_commands: list[Command]) -> str:
    def quoted(text: str) -> str:
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

    lines = [
        "# Completion of drystone for fish: drystone completion fish > ~/.config/fish/completions/drystone.fish",
        "function __drystone_names",
        "    for word in (commandline -opc)[3..-1]",
        "        test -d $word; and drystone completion --names $word 2> /dev/null; and return",
        "    end",
        "end",
        "complete -c drystone -f",
    ]
    lines += [
        f"complete -c drystone -n __fish_use_subcommand -a {c.name} -d {quoted(c.help)}" for c in all_commands
    ]
    for command in all_commands:
        here = f"complete -c drystone -n '__fish_seen_subcommand_from {command.name}'"
        for option in command.options:
            flags = " ".join(f"-l {f[2:]}" if f.startswith("--") else f"-s {f[1:]}" for f in option.flags)
            takes = ""
            if option.takes:
                files = option.takes in ("FILE", "OUTPUT")
                takes = (
                    f" -x -a {quoted(' '.join(option.values))}"
                    if option.values
                    else " -r -F"
                    if files
                    else " -x"
                )
            lines.append(f"{here} {flags}{takes} -d {quoted(option.help)}")
        kinds = {kind for kind, _ in _places(command)}
        if "folders" in kinds:
            lines.append(f"{here} -a '(__fish_complete_directories)'")
        if "names" in kinds:
            lines.append(f"{here} -a '(__drystone_names)'")
        if "files" in kinds:
            lines.append(f"{here} -F")
        lines += [
            f"{here} -a {quoted(' '.join(a.values))}" for kind, a in _places(command) if kind == "values"
        ]
    return "\n".join(lines)


_SHELLS: dict[str, Callable[[list[Command]], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
