"""A minimal HDF5 program: `probe.py LIBHDF5 create|open FILE`, using ctypes only.

It does what any program does: H5Fcreate or H5Fopen with defaults, so that the environment selects the connector, then
H5Fclose. It prints JSON objects, one per line, as far as it gets; HDF5's own messages go to standard error.
"""

import ctypes
import json
import sys

TRUNCATE, READ_WRITE = 2, 1
VOL_PLUGINS = 2


def main(library: str, act: str, path: str) -> int:
    """Print the version, whether plug-ins are off, and the file's connector; 0 if the file was created and closed."""
    hdf5 = ctypes.CDLL(library)
    numbers = [ctypes.c_uint() for _ in range(3)]
    hdf5.H5get_libversion(*(ctypes.byref(number) for number in numbers))
    version = [number.value for number in numbers]
    print(json.dumps({"version": version}), flush=True)
    if version < [1, 14, 0]:
        return 3
    hdf5.H5open()
    mask = ctypes.c_uint()
    hdf5.H5PLget_loading_state(ctypes.byref(mask))
    print(json.dumps({"plugins_off": not mask.value & VOL_PLUGINS}), flush=True)
    hid = ctypes.c_int64
    flags = ctypes.c_uint(TRUNCATE if act == "create" else READ_WRITE)
    if act == "create":
        hdf5.H5Fcreate.restype = hid
        file = hdf5.H5Fcreate(path.encode(), flags, hid(0), hid(0))
    else:
        hdf5.H5Fopen.restype = hid
        file = hdf5.H5Fopen(path.encode(), flags, hid(0))
    if file < 0:
        return 1
    name = ctypes.create_string_buffer(256)
    hdf5.H5VLget_connector_name.restype = ctypes.c_ssize_t
    hdf5.H5VLget_connector_name(hid(file), name, ctypes.c_size_t(len(name)))
    print(json.dumps({"connector": name.value.decode()}), flush=True)
    if hdf5.H5Fclose(hid(file)) < 0:
        return 1
    print(json.dumps({"closed": True}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
