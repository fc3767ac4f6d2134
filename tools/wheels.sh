#!/usr/bin/env bash
# Wheels for manylinux_2_28 and a source distribution, in build/wheels: wheels.sh [x86_64] [aarch64]. By default
# for this machine's architecture only.
#
# zig is the C compiler and linker, so the wheels link an old C library whatever this machine has. zig, maturin
# and cargo-zigbuild are installed from the package registry into a separate environment. Each wheel is tested
# in a clean environment: here, or under qemu-aarch64 if installed; otherwise the last line says that it was not
# tested. All builds are release builds: 15 minutes on two cores.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
python=${PYTHON:-python3}
tools=build/wheel-tools
out=build/wheels
glibc=2.28
own=$(uname -m)
[ $# -gt 0 ] || set -- "$own"

if [ ! -x "$tools/bin/cargo-zigbuild" ]; then
    "$python" -m venv "$tools"
    "$tools/bin/pip" install --quiet maturin==1.16.0 ziglang==0.15.2 cargo-zigbuild==0.24.1
fi
export PATH="$root/$tools/bin:$PATH"
mkdir -p "$out"
rm -f "$out"/*.whl "$out"/*.tar.gz
untried=()
for arch in "$@"; do
    case $arch in
        x86_64 | aarch64) ;;
        *) echo "wheels are built for x86_64 and aarch64, not for $arch" >&2; exit 2 ;;
    esac
    target=$arch-unknown-linux-gnu
    if command -v rustup > /dev/null && ! rustup target list --installed | grep -qx "$target"; then
        rustup target add "$target"
    fi
    echo "==> wheels: the plug-in for HDF5, $arch"
    cargo zigbuild --release --quiet --package drystone-hdf5-vol --target "$target.$glibc"
    place=python/drystone/hdf5/plugin/libdrystone_hdf5_vol.so
    mkdir -p "$(dirname "$place")"
    # Libraries of another architecture stay unstripped if no strip supports them.
    strip --strip-unneeded -o "$place.new" "${CARGO_TARGET_DIR:-target}/$target/release/libdrystone_hdf5_vol.so" 2> /dev/null ||
        cp "${CARGO_TARGET_DIR:-target}/$target/release/libdrystone_hdf5_vol.so" "$place.new"
    mv "$place.new" "$place"
    rm -f build/stamps/plugin # what lies there now may be for another machine
    echo "==> wheels: the wheel, $arch"
    maturin build --release --zig --target "$target" --compatibility "manylinux_${glibc/./_}" --out "$out"
    wheel=$(ls "$out"/drystone-*_"$arch".whl)
    try=build/wheel-try-$arch
    rm -rf "$try"
    if [ "$arch" = "$own" ]; then
        "$python" -m venv "$try"
        "$try/bin/pip" install --quiet "$wheel" h5py
        echo "==> wheels: tried in a clean environment, $arch"
        "$try/bin/python" tools/try_wheel.py
    elif [ -n "${EMULATED_PYTHON:-}" ]; then
        # A Python for that architecture, run by binfmt or a wrapper around qemu.
        "$EMULATED_PYTHON" -m venv "$try"
        "$try/bin/pip" install --quiet "$wheel"
        echo "==> wheels: tried under emulation, $arch"
        "$try/bin/python" tools/try_wheel.py
    else
        untried+=("$arch")
    fi
done
echo "==> wheels: the source distribution"
maturin sdist --out "$out"
"$python" tools/release_check.py --wheels "$out"
ls -l "$out"
for arch in "${untried[@]}"; do
    echo "not tried: the wheel for $arch (give EMULATED_PYTHON, a Python of that machine under qemu)"
done
