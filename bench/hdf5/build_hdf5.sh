#!/usr/bin/env bash
# Parallel HDF5 1.14.5 for the Open MPI of .venv, made from source: build_hdf5.sh FOLDER. Minutes, once; nothing is installed elsewhere.
#
# Why from source: a VOL connector needs HDF5 >= 1.14 as a shared library, and no wheel has a parallel one. The source is what the crate
# hdf5-metno-src carries. CC names another MPI compiler (say mpicc.mpich). Needs cmake, and ninja or make.
set -euo pipefail
[ $# = 1 ] || { echo "usage: $0 FOLDER" >&2; exit 2; }
root=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$1"
prefix=$(cd "$1" && pwd)
[ ! -e "$prefix/.built" ] || exit 0
crate=hdf5-metno-src-0.9.4
cargo info --quiet hdf5-metno-src@0.9.4 > "$prefix/crate.txt"
source=$(find "${CARGO_HOME:-$HOME/.cargo}/registry/src" -maxdepth 2 -name "$crate" | head -n 1)/ext/hdf5
generator=()
if command -v ninja > /dev/null; then generator=(-G Ninja); fi
compiler=${CC:-$root/.venv/bin/mpicc}
CC=$compiler cmake "${generator[@]}" -S "$source" -B "$prefix/build" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_INSTALL_PREFIX="$prefix" -DHDF5_NO_PACKAGES=ON -DHDF5_ENABLE_PARALLEL=ON -DMPI_C_COMPILER="$compiler" \
    -DBUILD_SHARED_LIBS=ON -DBUILD_STATIC_LIBS=OFF -DBUILD_TESTING=OFF -DHDF5_BUILD_TOOLS=OFF -DHDF5_BUILD_EXAMPLES=OFF \
    -DHDF5_BUILD_UTILS=OFF -DHDF5_BUILD_CPP_LIB=OFF -DHDF5_BUILD_FORTRAN=OFF -DHDF5_BUILD_JAVA=OFF -DHDF5_BUILD_HL_LIB=OFF \
    -DHDF5_ENABLE_Z_LIB_SUPPORT=ON -DHDF5_ENABLE_ZLIB_SUPPORT=ON -DHDF5_ENABLE_SZIP_SUPPORT=OFF > "$prefix/cmake.txt"
cmake --build "$prefix/build" --parallel "${JOBS:-2}" > "$prefix/compile.txt"
cmake --install "$prefix/build" > "$prefix/install.txt"
touch "$prefix/.built"
