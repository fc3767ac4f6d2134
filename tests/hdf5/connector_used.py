"""A pytest plug-in for h5py's suite: notes for every file that a test makes or opens which connector HDF5 used.

HDF5 1.14 goes on with its own format where a connector does not load, so a green suite says nothing by itself. Each
worker appends to a file of its own in the folder CONNECTOR_SEEN.
"""

import ctypes
import json
import os
from pathlib import Path

import h5py
import pytest

_LIBRARY = ctypes.CDLL(h5py.defs.__file__)
_LIBRARY.H5VLget_connector_name.restype = ctypes.c_ssize_t
_NOTES = Path(os.environ["CONNECTOR_SEEN"]) / f"{os.getpid()}"
_test = ""


def _note(file):
    name = ctypes.create_string_buffer(64)
    _LIBRARY.H5VLget_connector_name(ctypes.c_int64(file.id), name, ctypes.c_size_t(64))
    with _NOTES.open("a") as notes:
        notes.write(json.dumps({"test": _test, "connector": name.value.decode()}) + "\n")
    return file


_make_fid = h5py._hl.files.make_fid


def _noted(*arguments, **more):
    return _note(_make_fid(*arguments, **more))


h5py._hl.files.make_fid = _noted


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Remember which test it is."""
    global _test
    _test = item.nodeid
