"""Calls whose answer a program may rely on, made in native HDF5 and through the connector: the answers must be the
same.

The programs call the C functions of h5py's own library, because h5py does not have all of them.
"""

import os
import subprocess
import sys

import pytest
from conftest import program

CALLS = """
import ctypes, os, struct, sys
import h5py, numpy as np
from h5py import h5a, h5d, h5f, h5g, h5i, h5o, h5p, h5s, h5t
h5py._errors.silence_errors()
maps = open("/proc/self/maps").read().split()
lib = ctypes.CDLL(next(word for word in maps if "libhdf5-" in word))
I, N = ctypes.c_int64, ctypes.c_int

def call(name, *words, gives=N):
    function = getattr(lib, name)
    function.restype = gives
    function.argtypes = [
        N if isinstance(w, int) else type(w) if isinstance(w, ctypes._SimpleCData) else ctypes.c_void_p for w in words
    ]
    return function(*words)

def hid(x):
    return I(x if isinstance(x, int) else x.id)

def text(t):
    return ctypes.c_char_p(t)

def info(at, name):
    out = ctypes.create_string_buffer(72)
    assert call("H5Oget_info_by_name3", hid(at), text(name), out, ctypes.c_uint(5), I(0)) >= 0
    return {"references": struct.unpack_from("I", out.raw, 28)[0], "attributes": struct.unpack_from("Q", out.raw, 64)[0]}

def say(what, *answer):
    print(what, *answer)

path = sys.argv[1]
space, kind = h5s.create(h5s.SCALAR), h5t.NATIVE_INT32
"""

LISTS = """
f = h5py.File(path, "w")
for name in "abc":
    f.create_group(name)
f["a"].attrs["x"] = 1
some = ctypes.create_string_buffer(256)
for what, wrong in (("no id", -1), ("another class", h5p.create(h5p.DATASET_CREATE).id)):
    tries = {
        "group, access": lambda n, w: call("H5Gcreate2", hid(f.id), n, I(0), I(0), w, gives=I),
        "dataset, access": lambda n, w: call("H5Dcreate2", hid(f.id), n, hid(kind), hid(space), I(0), I(0), w, gives=I),
        "type, access": lambda n, w: call("H5Tcommit2", hid(f.id), n, hid(kind.copy()), I(0), I(0), w),
        "attribute, creation": lambda n, w: call("H5Acreate2", hid(f.id), n, hid(kind), hid(space), w, I(0), gives=I),
        "rename by name": lambda n, w: call("H5Arename_by_name", hid(f.id), text(b"a"), text(b"x"), text(b"x"), w),
        "hard link": lambda n, w: call("H5Lcreate_hard", hid(f.id), text(b"a"), hid(f.id), n, I(0), w),
        "soft link": lambda n, w: call("H5Lcreate_soft", text(b"/a"), hid(f.id), n, I(0), w),
        "external link": lambda n, w: call("H5Lcreate_external", text(b"y.h5"), text(b"/"), hid(f.id), n, w, I(0)),
        "link copied": lambda n, w: call("H5Lcopy", hid(f.id), text(b"a"), hid(f.id), n, I(0), w),
        "link info": lambda n, w: call("H5Lget_info2", hid(f.id), text(b"a"), some, w),
        "link by index": lambda n, w: call(
            "H5Lget_name_by_idx", hid(f.id), text(b"."), 0, 0, ctypes.c_uint64(0), some, ctypes.c_size_t(9), w, gives=I
        ),
        "object linked": lambda n, w: call("H5Olink", hid(f["a"].id), hid(f.id), n, I(0), w),
        "group opened": lambda n, w: call("H5Gopen2", hid(f.id), text(b"a"), w, gives=I),
        "link deleted": lambda n, w: call("H5Ldelete", hid(f.id), text(b"b"), w),
        "attribute deleted": lambda n, w: call("H5Adelete_by_name", hid(f.id), text(b"a"), text(b"x"), w),
    }
    for name, attempt in tries.items():
        say(f"{name} with {what}:", "refused" if attempt(text(name.encode()), I(wrong)) < 0 else "taken")
say("what is there:", sorted(f), dict(f["a"].attrs))
"""

LINKS = """
f = h5py.File(path, "w", track_order=True)
g = f.create_group("g")
f["again"] = g
call("H5Lmove", hid(f.id), text(b"again"), hid(g.id), text(b"inside"), I(0), I(0))
say("moved into the group:", list(f), list(g), g["inside"].id == g.id, info(f.id, b"g"))
h = f.create_group("h", track_order=True)
def orders():
    out = ctypes.create_string_buffer(32)
    call("H5Gget_info", hid(h.id), out)
    return struct.unpack_from("q", out.raw, 16)[0]
for name in "xyz":
    h.create_group(name)
say("orders:", orders())
del h["x"], h["z"]
say("orders:", orders())
h.move("y", "w")
say("orders:", orders())
call("H5Lmove", hid(h.id), text(b"w"), hid(g.id), text(b"w"), I(0), I(0))
say("orders:", orders())
h.create_group("first")
say("orders:", orders(), list(h))
how, ways = h5p.create(h5p.GROUP_CREATE), h5p.create(h5p.LINK_CREATE)
how.set_attr_creation_order(h5p.CRT_ORDER_TRACKED)
how.set_link_creation_order(h5p.CRT_ORDER_TRACKED)
how.set_obj_track_times(False)
ways.set_create_intermediate_group(True)
h5g.create(f.id, b"like/this", lcpl=ways, gcpl=how)
h5g.create(f.id, b"by/default", lcpl=ways)
for name in (b"like", b"like/this", b"by", b"by/default"):
    made = h5g.open(f.id, name).get_create_plist()
    say(name, made.get_attr_creation_order(), made.get_link_creation_order(), made.get_obj_track_times())
"""

REFERENCES = """
f = h5py.File(path, "w", track_order=True)
for name in ("g", "d", "t"):
    f.create_group("g") if name == "g" else f.create_dataset("d", (2,), "i4") if name == "d" else None
f["t"] = np.dtype("i4")
for name in (b"g", b"d", b"t"):
    at = h5o.open(f.id, name)
    say(name, call("H5Oincr_refcount", hid(at)), call("H5Oincr_refcount", hid(at)), info(f.id, name))
    say(name, call("H5Odecr_refcount", hid(at)), info(f.id, name))
    at = None
f.close()
f = h5py.File(path, "r+")
say("opened again:", [info(f.id, name)["references"] for name in (b"g", b"d", b"t")])
for name in (b"g", b"d", b"t"):
    at = h5o.open(f.id, name)
    say(name, call("H5Odecr_refcount", hid(at)), info(f.id, name)["references"])
    at = None
f.create_dataset("u", (1,), f["t"])
say("a dataset has the type:", info(f.id, b"t")["references"])
f["u"].attrs.create("a", 5, dtype=f["t"])
say("an attribute too:", info(f.id, b"t")["references"])
del f["u"].attrs["a"]
say("no more:", info(f.id, b"t")["references"])
f["u"].attrs.create("a", 5, dtype=f["t"])
f["again"] = f["t"]
say("another link:", info(f.id, b"t")["references"])
del f["u"]
say("the dataset is gone:", info(f.id, b"t")["references"])
f.close()
"""

TYPES = """
with h5py.File(path, "w") as f:
    f["t"] = np.dtype("i4")
    f.create_dataset("d", (3,), f["t"])[:] = [4, 5, 6]
    f.attrs.create("a", 7, dtype=f["t"])
    del f["t"]
    say(f["d"][:].tolist(), f["d"].dtype, f.attrs["a"], list(f))
with h5py.File(path, "r+") as f:
    say(f["d"][:].tolist(), f["d"].dtype, f.attrs["a"], f["d"].id.get_type().committed())
    f["back"] = h5py.Datatype(f["d"].id.get_type())
    say(info(f.id, b"back"))
    del f["back"], f["d"], f.attrs["a"]
with h5py.File(path, "r") as f:
    say(list(f), dict(f.attrs))
"""

ATTRIBUTES = """
for tracked in (0, 1):
    f = h5py.File(path, "w")
    how = h5p.create(h5p.DATASET_CREATE)
    if tracked:
        how.set_attr_creation_order(h5p.CRT_ORDER_TRACKED)
    d = h5d.create(f.id, b"d", kind, space, how)
    def orders():
        found = [h5a.open(d, index=i, index_type=h5py.h5.INDEX_CRT_ORDER).name for i in range(h5a.get_num_attrs(d))]
        infos = [h5a.get_info(d, name) for name in found]
        return [(name, i.corder_valid, i.corder) for name, i in zip(found, infos)]
    for name in (b"c", b"a", b"b"):
        h5a.create(d, name, kind, space)
    say(orders())
    h5a.delete(d, b"c")
    say(orders())
    h5a.create(d, b"c", kind, space)
    say(orders())
    for name in (b"a", b"b", b"c"):
        h5a.delete(d, name)
    h5a.create(d, b"z", kind, space)
    say(orders())
    d = None
    f.close()
with h5py.File(path, "w") as f:
    for i, name in enumerate("abc"):
        for k in range(i + 1):
            f.create_group(name) if k == 0 else None
            f[name].attrs[f"{k}"] = k
    for index in range(3):
        out = ctypes.create_string_buffer(72)
        call("H5Oget_info_by_idx3", hid(f.id), text(b"."), 0, 0, ctypes.c_uint64(index), out, ctypes.c_uint(5), I(0))
        say("attributes by index:", struct.unpack_from("Q", out.raw, 64)[0])
"""

REFUSALS = """
f = h5py.File(path, "w")
bare = call("H5Screate", 1, gives=I)
say("no extent:", call("H5Dcreate2", hid(f.id), text(b"d"), hid(kind), I(bare), I(0), I(0), I(0), gives=I) < 0)
say("no extent:", call("H5Acreate2", hid(f.id), text(b"d"), hid(kind), I(bare), I(0), I(0), gives=I) < 0)
strings = h5py.string_dtype()
how = h5p.create(h5p.DATASET_CREATE)
how.set_fill_time(h5d.FILL_TIME_NEVER)
for name, dtype in (("numbers", "i4"), ("strings", strings), ("sequences", h5py.vlen_dtype("i4")),
                    ("members", np.dtype([("s", strings)])), ("references", h5py.ref_dtype)):
    t = h5t.py_create(np.dtype(dtype), logical=True)
    made = call("H5Dcreate2", hid(f.id), text(name.encode()), hid(t), hid(space), I(0), hid(how), I(0), gives=I)
    say(f"no fill value is ever written, {name}:", made < 0)
say("no such file:", call("H5Fis_accessible", text(b"/nowhere/x.h5"), I(0)))
f["s"] = ["one", "three", ""]
f.create_dataset("v", (2,), h5py.vlen_dtype("i8"))[:] = [np.arange(3), np.arange(4)]
for name in ("s", "v"):
    size = ctypes.c_uint64()
    d = f[name].id
    call("H5Dvlen_get_buf_size", hid(d), hid(d.get_type()), hid(d.get_space()), ctypes.byref(size))
    say("bytes in memory:", name, size.value)
how = h5t.NATIVE_INT32.copy()
t = h5py.Datatype(how)
tcpl = call("H5Pcreate", I.in_dll(lib, "H5P_CLS_DATATYPE_CREATE_ID_g"), gives=I)
call("H5Pset_attr_phase_change", I(tcpl), ctypes.c_uint(5), ctypes.c_uint(5))
call("H5Tcommit2", hid(f.id), text(b"t"), hid(how), I(0), I(tcpl), I(0))
back, most, least = call("H5Tget_create_plist", hid(h5t.open(f.id, b"t")), gives=I), ctypes.c_uint(), ctypes.c_uint()
call("H5Pget_attr_phase_change", I(back), ctypes.byref(most), ctypes.byref(least))
say("phase:", most.value, least.value)
"""

USER_BLOCK = """
with h5py.File(path, "w", userblock_size=1024) as f:
    f["d"] = [1, 2, 3]
    say(f.userblock_size)
with open(path, "r+b") as raw:
    raw.write(b"of the program")
with h5py.File(path, "r+") as f:
    say(f["d"][:].tolist(), f.userblock_size)
    f["e"] = 4
with open(path, "rb") as raw:
    block = raw.read(1032)
say(block[:14], block[14:1024] == bytes(1010), block[1024:])
say(h5py.is_hdf5(path))
for size in (100, 1000):
    try:
        h5py.File(path + "2", "w", userblock_size=size).close()
        say("taken")
    except ValueError:
        say("refused")
"""


@pytest.mark.parametrize(
    "code",
    [LISTS, LINKS, REFERENCES, TYPES, ATTRIBUTES, REFUSALS, USER_BLOCK],
    ids=["lists", "links", "references", "types", "attributes", "refusals", "user-block"],
)
def test_the_connector_answers_as_native_hdf5_does(native_environment, connector_environment, tmp_path, code):
    native = program(native_environment, CALLS + code, tmp_path / "native.h5").stdout.splitlines()
    path = tmp_path / "connected.h5"
    connected = program(connector_environment, CALLS + code, path).stdout.splitlines()
    assert connected == native
    assert b"DRYSTONE" in path.read_bytes()


def test_a_file_with_a_user_block_is_published_with_it(connector_environment, native_environment, tmp_path):
    path = tmp_path / "x.h5"
    program(connector_environment, CALLS + USER_BLOCK, path)
    published = subprocess.run(
        [sys.executable, "-m", "drystone", "publish", "--hdf5", path],
        env=connector_environment,
        capture_output=True,
        text=True,
    )
    assert published.returncode == 0, published.stdout + published.stderr
    assert path.read_bytes()[:14] == b"of the program"
    code = "import h5py, sys; f = h5py.File(sys.argv[1]); print(f['d'][:].tolist(), f['e'][()], f.userblock_size)"
    assert program(native_environment, code, path).stdout == "[1, 2, 3] 4 1024\n"


def test_what_is_no_regular_file_is_refused_and_stays(connector_environment, tmp_path):
    """Symptom: a program that created a file at /dev/null, as HDF5's own tests do, left a regular file in its place,
    where it was allowed to. Cause: whatever a name led to was replaced by a rename. A pipe here would be gone in the
    same way."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    code = "import h5py, sys\ntry: h5py.File(sys.argv[1], 'w')\nexcept OSError as e: print(e)"
    assert "not a regular file" in program(connector_environment, code, path).stdout
    assert path.is_fifo()
    assert [found.name for found in tmp_path.iterdir()] == ["pipe"]
