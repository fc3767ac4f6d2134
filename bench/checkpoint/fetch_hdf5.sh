#!/usr/bin/env bash
# Parallel HDF5 for Open MPI from Debian's packages, into a folder: fetch_hdf5.sh FOLDER. Nothing is installed; the benchmark links
# it with the Open MPI of .venv, whose interface is the same.
set -euo pipefail
[ $# = 1 ] || { echo "usage: $0 FOLDER" >&2; exit 2; }
mkdir -p "$1/packages"
cd "$1/packages"
apt-get download -qq libhdf5-openmpi-103-1 libhdf5-openmpi-dev libaec0 libsz2
for package in *.deb; do dpkg -x "$package" ..; done
