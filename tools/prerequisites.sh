#!/usr/bin/env bash
# Check that the programs that cannot be in .venv exist: git, make, a C compiler, Python >= 3.11 with venv, Rust
# >= 1.95.
#
# Reports what is missing and how to get it. With INSTALL=apt, as root, apt-get installs it (except Rust, whose
# version matters). The only line on standard output is the Python interpreter to use. PYTHON=... selects the
# interpreter.
set -euo pipefail

oldest_rust=95 # of 1.x

say() { echo "$@" >&2; }

has() { command -v "$1" >/dev/null 2>&1; }

usable_python() {
    "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    local candidate
    for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11 python}; do
        if has "$candidate" && usable_python "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

missing_packages() {
    has git || echo git
    has make || echo make
    has cc || echo gcc libc6-dev
    [ -n "${PYTHON:-}" ] || find_python >/dev/null || echo python3 python3-venv
}

packages=$(missing_packages | tr '\n' ' ')
if [ -n "$packages" ] && [ "${INSTALL:-}" = apt ] && [ "$(id -u)" = 0 ] && has apt-get; then
    say "==> installing with apt-get: $packages"
    export DEBIAN_FRONTEND=noninteractive
    apt-get -qq update >&2
    # shellcheck disable=SC2086  # a list of words
    apt-get -qq install -y --no-install-recommends $packages >&2
fi

status=0
complain() {
    say "missing: $1"
    say "         $2"
    status=1
}

has git || complain "git" "install it with your system's package manager (Debian, Ubuntu: apt-get install git)"
has make || complain "make" "install it with your system's package manager (Debian, Ubuntu: apt-get install make)"
has cc || complain "a C compiler as 'cc'" "install gcc or clang (Debian, Ubuntu: apt-get install gcc libc6-dev)"
if ! python=$(find_python); then
    complain "Python 3.11 or newer with the venv module${PYTHON:+ (PYTHON=$PYTHON is not)}" \
        "install it (Debian 12, Ubuntu 24.04: apt-get install python3 python3-venv), or name one: make setup PYTHON=/path/to/python3"
fi
if ! has cargo || ! has rustc; then
    complain "Rust 1.$oldest_rust or newer (cargo and rustc)" \
        "install it with rustup as https://www.rust-lang.org/tools/install says, then open a new shell"
else
    version=$(rustc --version | cut -d' ' -f2)
    IFS=. read -r major minor _ <<<"$version"
    if [ "$major" -lt 1 ] || { [ "$major" = 1 ] && [ "$minor" -lt "$oldest_rust" ]; }; then
        complain "Rust 1.$oldest_rust or newer ($(command -v rustc) is $version)" "update it: rustup update stable"
    fi
fi
[ "$status" = 0 ] || exit "$status"
echo "$python"
