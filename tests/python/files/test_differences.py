"""Differences that are not in the bits of the values: names, steps, parts of complex numbers."""

import drystone as dry
import numpy as np


def made(folder, dtype, values, steps=None):
    path = folder / f"{len(list(folder.iterdir()))}.dry"
    with dry.create(path) as c:
        v = c.create_variable("v", dtype, (2,), steps=steps is not None)
        for step in steps or ():
            v[step] = values
        if steps is None:
            v[...] = values
        else:
            c.create_variable("all", "f4", (1,), steps=True)[0:4] = 0
    return path


def found(tmp_path, one, two):
    return [str(d) for d in dry.diff(made(tmp_path, *one), made(tmp_path, *two))]


def test_names_of_values_count(tmp_path):
    """Symptom: enumerations with swapped names were the same."""
    phase, swapped = dry.enum({"solid": 0, "gas": 1}), dry.enum({"gas": 0, "solid": 1})
    (text,) = found(tmp_path, (phase, [0, 1]), (swapped, [0, 1]))
    assert text.startswith("v: names of values: {'solid': 0, 'gas': 1} and")
    records = [np.dtype([("e", dtype, (2,)), ("x", "f4")]) for dtype in (phase, swapped)]
    (text,) = found(tmp_path, *((record, np.zeros(2, record)) for record in records))
    assert text.startswith("v: names of values: {'e': {'solid': 0")
    assert found(tmp_path, (phase, [0, 1]), (dry.enum({"gas": 1, "solid": 0}), [0, 1])) == []


def test_steps_of_a_variable_count(tmp_path):
    """Symptom: steps that a variable does not have were compared as fill values."""
    assert found(tmp_path, ("f4", [0, 0], (0, 1, 2, 3)), ("f4", [0, 0], (0, 3))) == ["v: other steps: 1, 2"]


def test_both_parts_of_complex_numbers_count(tmp_path):
    """Symptom: with NaN in one part, the other part was not compared."""
    nan = complex(np.nan, 1)
    for options in ({}, {"atol": 1e-3}):
        one, two = (made(tmp_path, "c16", [value, 0]) for value in (nan, complex(np.nan, 2)))
        assert [d.cells for d in dry.diff(one, two, **options)] == [1]
        assert dry.diff(one, made(tmp_path, "c16", [nan, 0]), **options) == []
    near = made(tmp_path, "c16", [1 + 1j, 0])
    assert dry.diff(near, made(tmp_path, "c16", [1 + 1.0001j, 0]), atol=1e-3) == []
