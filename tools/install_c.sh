#!/usr/bin/env bash
# Install the C library that cargo built: install_c.sh FOLDER_OF_CARGO PREFIX (DESTDIR is respected).
#
# Headers go to PREFIX/include, libraries to PREFIX/lib, with pkg-config and CMake files beside them. Sources
# that programs compile themselves (Fortran module, MPI) go to PREFIX/share/drystone. Debug information is
# removed, which is most of a library; STRIP=: keeps it.
set -euo pipefail

[ $# = 2 ] || { echo "usage: $0 FOLDER_OF_CARGO PREFIX" >&2; exit 2; }
built=$1 prefix=$2
capi=$(cd "$(dirname "$0")/../crates/capi" && pwd)
case $prefix in /*) ;; *) echo "PREFIX is an absolute path, not $prefix" >&2; exit 2 ;; esac
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$capi/../../Cargo.toml" | head -n 1)
to="${DESTDIR:-}$prefix"

for file in libdrystone_capi.so libdrystone_capi.a; do
    [ -f "$built/$file" ] || { echo "$built/$file is missing: cargo build --release -p drystone-capi" >&2; exit 1; }
done

without_debugging() {
    local strip=${STRIP:-strip}
    if command -v "$strip" >/dev/null; then "$strip" --strip-debug "$1"; fi
}

filled() { sed -e "s|@prefix@|$prefix|g" -e "s|@version@|$version|g" "$1"; }

install -d "$to/include" "$to/lib/pkgconfig" "$to/lib/cmake/drystone"
install -m 644 "$capi"/include/* "$to/include/"
# First under a new name, so that running programs keep the library they started with.
install -m 755 "$built/libdrystone_capi.so" "$to/lib/.libdrystone.so.new"
without_debugging "$to/lib/.libdrystone.so.new"
mv -f "$to/lib/.libdrystone.so.new" "$to/lib/libdrystone.so.$version"
ln -sf "libdrystone.so.$version" "$to/lib/libdrystone.so.0"
ln -sf libdrystone.so.0 "$to/lib/libdrystone.so"
install -m 644 "$built/libdrystone_capi.a" "$to/lib/libdrystone.a"
without_debugging "$to/lib/libdrystone.a"
filled "$capi/cmake/drystone.pc.in" > "$to/lib/pkgconfig/drystone.pc"
install -m 644 "$capi/cmake/drystone-config.cmake" "$to/lib/cmake/drystone/"
filled "$capi/cmake/drystone-config-version.cmake.in" > "$to/lib/cmake/drystone/drystone-config-version.cmake"
for folder in mpi fortran; do
    [ -d "$capi/$folder" ] || continue
    install -d "$to/share/drystone"
    install -m 644 "$capi/$folder"/* "$to/share/drystone/"
done
