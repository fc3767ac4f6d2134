"""The generator and the comparer of HDF5 content are worth something: tried on native HDF5 against itself."""

import os
import shutil

import h5py
import numpy as np
import pytest
from content import native_programs
from describe import described, differences
from hypothesis import HealthCheck, Phase, given, settings
from perform import perform

CHECKS = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
PHASES = [Phase.explicit, Phase.reuse, Phase.generate]
LONG = "DRYSTONE_LONG" in os.environ
EXAMPLES = 400 if os.environ.get("DRYSTONE_LONG") else 25


@settings(
    max_examples=EXAMPLES, deadline=None, derandomize=not LONG, suppress_health_check=CHECKS, phases=PHASES
)
@given(program=native_programs)
def test_native_hdf5_makes_the_same_file_twice(tmp_path, program):
    """Else a difference between a connector and native HDF5 would mean nothing."""
    first, second = tmp_path / "first.h5", tmp_path / "second.h5"
    assert perform(program, first) == perform(program, second)
    assert differences(described(first), described(second)) == []


def _sample(path):
    with h5py.File(path, "w") as f:
        f["a/values"] = np.arange(12.0).reshape(3, 4)
        f["a"].attrs["unit"] = "m"
        f.create_dataset(
            "grown", (3, 5), "<i4", maxshape=(None, 5), chunks=(2, 5), compression=4, fillvalue=7
        )
        f["texts"] = np.array(["x", "yy"], dtype=h5py.string_dtype())
        f["again"] = f["a/values"]
        f["soft"] = h5py.SoftLink("/a")
        f["lists"] = np.array([np.arange(2), np.arange(3)], dtype=object).astype(h5py.vlen_dtype("<i2"))
        f["refers"] = np.array([f["a"].ref, f["grown"].ref], dtype=h5py.ref_dtype)
        f.attrs["pair"] = np.array((1, 2.5), dtype=[("n", "<i4"), ("x", "<f8")])


def _value(f):
    f["a/values"][2, 3] += 1


def _nan(f):
    f["a/values"][0, 0] = -0.0


def _attribute(f):
    f["a"].attrs["unit"] = "n"


def _more(f):
    f.attrs["more"] = 1


def _shape(f):
    f["grown"].resize((4, 5))


def _text(f):
    f["texts"][1] = "yz"


def _list(f):
    f["lists"][0] = np.arange(3)


def _link(f):
    del f["again"]
    f["again"] = h5py.SoftLink("/a/values")


def _copied(f):
    del f["again"]
    f.copy("a/values", "again")


def _soft(f):
    del f["soft"]
    f["soft"] = h5py.SoftLink("/b")


def _reference(f):
    f["refers"][0] = f["texts"].ref


def _type(f):
    values = f["a/values"][...]
    del f["a/values"], f["again"]
    f.create_dataset("a/values", data=values, dtype=">f8")
    f["again"] = f["a/values"]


def _filter(f):
    del f["grown"]
    f.create_dataset("grown", (3, 5), "<i4", maxshape=(None, 5), chunks=(2, 5), compression=5, fillvalue=7)


def _fill(f):
    del f["grown"]
    f.create_dataset("grown", (3, 5), "<i4", maxshape=(None, 5), chunks=(2, 5), compression=4, fillvalue=8)


def _chunks(f):
    del f["grown"]
    f.create_dataset("grown", (3, 5), "<i4", maxshape=(None, 5), chunks=(3, 5), compression=4, fillvalue=7)


def _limit(f):
    del f["grown"]
    f.create_dataset("grown", (3, 5), "<i4", maxshape=(9, 5), chunks=(2, 5), compression=4, fillvalue=7)


def _member(f):
    f.attrs["pair"] = np.array((1, 2.5), dtype=[("m", "<i4"), ("x", "<f8")])


CHANGES = [
    *(_value, _nan, _attribute, _more, _shape, _text, _list, _link, _copied, _soft, _reference),
    *(_type, _filter, _fill, _chunks, _limit, _member),
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__.strip("_"))
def test_the_comparer_sees_a_change_made_on_purpose(tmp_path, change):
    """Each kind of difference that a description must not miss."""
    first, second = tmp_path / "first.h5", tmp_path / "second.h5"
    _sample(first)
    shutil.copy(first, second)
    assert differences(described(first), described(second)) == []
    with h5py.File(second, "r+") as f:
        change(f)
    assert differences(described(first), described(second)) != []
