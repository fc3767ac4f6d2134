#!/usr/bin/env bash
# Check that the programs that only tests run exist: compilers, MPIs, shells, a browser, Ceph. Tests of a
# missing program are skipped.
#
# As root with apt-get, missing programs are installed in one call. Otherwise, or if that fails, reports what is
# missing, and fails if another try may help.
set -euo pipefail

say() { echo "    $*" >&2; }

has() {
    local name
    for name in "$@"; do
        command -v "$name" >/dev/null 2>&1 || return 1
    done
}

has_one() {
    local name
    for name in "$@"; do
        ! has "$name" || return 0
    done
    return 1
}

# tests/view/headless.py looks for these.
has_browser() {
    [ -n "${DRYSTONE_BROWSER:-}" ] ||
        has_one chromium-headless-shell chromium chromium-browser google-chrome google-chrome-stable chrome
}

# Debian's package mpich has the compilers, but not the headers.
compiles_mpi() { has "$1" && echo '#include <mpi.h>' | "$1" -E -x c - >/dev/null 2>&1; }

# tests/servers/ceph.py calls the cluster's monitor through the module rados of Debian's Python.
has_ceph() { has ceph-mon ceph-osd ceph radosgw && /usr/bin/python3 -c 'import rados' 2>/dev/null; }

# Debian's packages, one line for each missing program.
missing() {
    has c++ || echo g++
    has gfortran || echo gfortran
    { compiles_mpi mpicc.openmpi && has mpiexec.openmpi mpifort.openmpi; } || echo openmpi-bin libopenmpi-dev
    { compiles_mpi mpicc.mpich && has mpiexec.mpich mpifort.mpich; } || echo mpich libmpich-dev
    has_browser || echo chromium-headless-shell
    has zsh || echo zsh
    has fish || echo fish
    has valgrind || echo valgrind
    has strace || echo strace
    has groff || echo groff-base
    has pkg-config || echo pkg-config
    has fusermount3 || echo fuse3
    has rsync || echo rsync
    has cmake || echo cmake
    has h5dump || echo hdf5-tools
    has ncdump || echo netcdf-bin
    has_ceph || echo ceph-mon ceph-osd ceph-common python3-rados radosgw
    { [ -e /usr/include/rados/objclass.h ] && [ -e /usr/include/rados/buffer.h ]; } || echo rados-objclass-dev libradospp-dev
    [ -e /usr/share/ferret-vis/data/coads_climatology.cdf ] || echo ferret-datasets
}

words() { echo "$@" | tr '\n' ' ' | sed 's/ *$//'; }

# Only packages that this system's lists contain: not every distribution has Chromium, or the real data.
known() {
    local package
    for package in "$@"; do
        if apt-cache policy "$package" 2>/dev/null | grep 'Candidate:' | grep -qv '(none)'; then
            echo "$package"
        fi
    done
}

told=$(mktemp)
trap 'rm -f "$told"' EXIT
export DEBIAN_FRONTEND=noninteractive

apt() {
    apt-get -q -o Acquire::Retries=2 -o Acquire::http::Timeout=30 -o DPkg::Lock::Timeout=120 "$@" >"$told" 2>&1
}

reason() { grep -m 1 '^E:' "$told" || tail -n 1 "$told"; }

packages=$(missing)
[ -n "$packages" ] || exit 0
again=1
if [ "$(id -u)" = 0 ] && has apt-get apt-cache; then
    again=0
    if ! apt update -o APT::Update::Error-Mode=any; then
        say "apt-get update failed: $(reason)"
        again=1
    fi
    # shellcheck disable=SC2046,SC2086  # lists of words
    wanted=$(words $(known $packages))
    if [ -n "$wanted" ]; then
        say "installing with apt-get, which may take some minutes: $wanted"
        # shellcheck disable=SC2086  # a list of words
        if ! apt install -y --no-install-recommends $wanted; then
            say "apt-get install failed: $(reason)"
            again=1
        fi
    fi
fi
packages=$(missing)
[ -n "$packages" ] || exit 0
# shellcheck disable=SC2086  # a list of words
say "not here, so that their tests are skipped (Debian's names): $(words $packages)"
exit "$again"
