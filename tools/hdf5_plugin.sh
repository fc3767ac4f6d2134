#!/usr/bin/env bash
# Build the plug-in for HDF5 and put it into the Python package: hdf5_plugin.sh [--release]. Repeated, it does what is new.
#
# HDF5 loads every lib*.so of a folder of plug-ins, so it lies alone in its folder. It must need nothing of HDF5 itself: the library that
# loads it is found at run time, and another one that the loader would find must not come in.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
profile=debug
[ "${1:-}" != --release ] || profile=release
cd "$root"
cargo build --quiet --package drystone-hdf5-vol ${1:+"$1"}
built=${CARGO_TARGET_DIR:-target}/$profile/libdrystone_hdf5_vol.so
if command -v nm > /dev/null && nm -D --undefined-only "$built" | grep -q ' H5'; then
    echo "the plug-in needs symbols of HDF5: $(nm -D --undefined-only "$built" | grep ' H5' | tr -s ' \n' ' ')" >&2
    exit 1
fi
place=python/drystone/hdf5/plugin/libdrystone_hdf5_vol.so
mkdir -p "$(dirname "$place")"
if [ "$profile" = release ] && command -v strip > /dev/null; then
    strip --strip-unneeded -o "$place.new" "$built"
else
    cp "$built" "$place.new"
fi
mv "$place.new" "$place"
