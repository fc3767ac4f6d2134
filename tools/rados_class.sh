#!/bin/sh
# Builds the object class for Ceph as build/rados-class/libcls_dry.so, for the release of Ceph whose headers are
# installed.
set -eu
cd "$(dirname "$0")/.."
if [ ! -e /usr/include/rados/objclass.h ] || [ ! -e /usr/include/rados/buffer.h ]; then
    echo "Ceph's headers for object classes are not installed: apt-get install rados-objclass-dev libradospp-dev" >&2
    exit 3
fi
# tools/rados_class.sh [FOLDER [PROFILE]]: the profile dev builds it without optimisation, for tests.
folder=${1:-build/rados-class}
profile=${2:-release}
cargo build --profile "$profile" -p drystone-rados-class
built=$profile
[ "$profile" = dev ] && built=debug
library=${CARGO_TARGET_DIR:-target}/$built/libdrystone_rados_class.a
mkdir -p "$folder"
c++ -std=c++17 -O2 -fPIC -fvisibility=hidden -Wall -Werror -c connectors/rados-class/class.cc -o "$folder/class.o"
c++ -shared -o "$folder/libcls_dry.so" "$folder/class.o" "$library" \
    -Wl,--version-script=connectors/rados-class/exports.map -Wl,--gc-sections -Wl,-s
rm "$folder/class.o"
echo "$folder/libcls_dry.so"
