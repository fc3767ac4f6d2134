#!/bin/bash
# Runs the tests of Zarr with the newest zarr-python, which needs Python 3.12 or later, in a separate
# environment.
#
#   tools/zarr_current.sh [FOLDER]      FOLDER (build/zarr-current) holds the environment; PYTHON names the interpreter
#
# The extension works with every Python from 3.11 on, so the one of `make setup` is used.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-build/zarr-current}
found() { for name in python3.14 python3.13 python3.12; do "$name" -c '' 2> /dev/null && echo "$name" && return; done; }
python=${PYTHON:-$(found)} || true
[ -n "$python" ] || { echo "Python 3.12 or later is needed; PYTHON=... names one" >&2; exit 1; }
[ -x "$folder/bin/python" ] || "$python" -m venv "$folder"
"$folder/bin/python" -m pip install --quiet --upgrade zarr xarray dask numpy pytest hypothesis h5py netCDF4 tensorstore cftime
"$folder/bin/python" -c 'import sys, zarr; print("Python", sys.version.split()[0], "zarr", zarr.__version__)'
# Warnings of newer packages are not ours to fix.
PYTHONPATH=python exec "$folder/bin/python" -m pytest -q -W default -p no:cacheprovider \
    tests/python/publishing/test_zarr_store.py tests/python/publishing/test_zarr_store_conformance.py tests/python/publishing/test_publish.py \
    tests/python/publishing/test_publish_hdf5.py
