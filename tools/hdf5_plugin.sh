#!/usr/bin/env bash
# Build the plug-in for HDF5 and copy it to the Python package: hdf5_plugin.sh [--release]. A repeated call only
# does what is new.
#
# HDF5 loads every lib*.so in a plug-in folder, so the plug-in has a folder of its own. It must not link to
# HDF5: it looks up the library that loaded it at run time, and the loader must not add another one.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
profile=debug
[ "${1:-}" != --release ] || profile=release
cd "$root"
if [ "$profile" = release ]; then
    cargo build --quiet --package drystone-hdf5-vol --release
else
    tools/test_builds.sh
fi
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
