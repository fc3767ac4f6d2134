#!/usr/bin/env bash
# The C tests under ThreadSanitizer: thread_sanitizer.sh [NAME...], about five minutes the first time. Needs a
# nightly toolchain with rust-src (rustup toolchain install nightly --component rust-src) and a C compiler with
# libtsan.
#
# The library and the standard library are built with -Z sanitizer=thread; the programs link the runtime. C code
# of dependencies (such as zstd) is not instrumented: races inside it, between its callers' synchronisations,
# are not detected.
set -euo pipefail
cd "$(dirname "$0")/.."
target=x86_64-unknown-linux-gnu
folder=${CARGO_TARGET_DIR:-target}/thread-sanitizer
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

RUSTFLAGS="-Zsanitizer=thread" \
    cargo +nightly build --quiet -Zbuild-std --target $target --package drystone-capi --target-dir "$folder"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for name in libdrystone.so libdrystone.so.0; do ln -s "$folder/$target/debug/libdrystone_capi.so" "$work/$name"; done
# Names that LLVM calls and gcc's runtime lacks; the runtime intercepts the functions that they call.
cat > "$work/shim.c" << 'C'
#include <string.h>
void *__tsan_memcpy(void *to, const void *from, size_t n) { return memcpy(to, from, n); }
void *__tsan_memmove(void *to, const void *from, size_t n) { return memmove(to, from, n); }
void *__tsan_memset(void *to, int byte, size_t n) { return memset(to, byte, n); }
C
cc -O1 -fno-builtin -c "$work/shim.c" -o "$work/shim.o"
names=("$@")
[ $# -gt 0 ] || for source in crates/capi/tests/c/*.c; do names+=("$(basename "$source" .c)"); done
for name in "${names[@]}"; do
    cc -std=c99 -g -D_POSIX_C_SOURCE=200809L -fsanitize=thread -I crates/capi/include "crates/capi/tests/c/$name.c" \
        "$work/shim.o" -o "$work/$name" -L "$work" -ldrystone -pthread -rdynamic "-Wl,-rpath,$work"
    # No address randomisation: the runtime's shadow memory needs fixed addresses.
    (cd "$work" && TSAN_OPTIONS="halt_on_error=1" DRYSTONE_THREADS=4 setarch -R "./$name")
    echo "$name: no race found"
done
