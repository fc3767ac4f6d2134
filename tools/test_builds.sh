#!/usr/bin/env bash
# Development builds of what tests run besides the extension: the C library, the plug-in for HDF5, the S3 server with
# scripted faults. More arguments go to cargo.
#
# Cargo chooses the features of a crate for all packages of one command. With these packages they are those of the
# extension, so the engine is compiled once.
set -euo pipefail
cd "$(dirname "$0")/.."
exec cargo build --quiet --package drystone-cli --package drystone-capi --package drystone-hdf5-vol \
    --package drystone-s3-rig "$@"
