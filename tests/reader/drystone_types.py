"""Element types and their elements, as docs/format/manifest.md says under "dtype". Part of the reader."""

from math import prod

import numpy as np


class CorruptError(Exception):
    """Bytes are not what they claim to be."""


def need(condition, what):
    if not condition:
        raise CorruptError(what)


SCALARS = {"bool": "?", "complex64": "<c8", "complex128": "<c16", "float16": "<f2", "float32": "<f4", "float64": "<f8"}
SCALARS |= {f"{sign}int{8 * n}": f"<{'u' if sign else 'i'}{n}" for sign in ("", "u") for n in (1, 2, 4, 8)}
SCALARS["bfloat16"] = "<u2"  # the bits: NumPy has no such type
BLOB = ("s", 3)  # how types begin whose values are blobs: "string", and [3, the type of the numbers of a list]


def numpy_dtype(d):
    if isinstance(d, str) or d[0] == 3:
        need(d[0] in BLOB or d in SCALARS, f"type {d}")
        return np.dtype(object if d[0] in BLOB else SCALARS[d])
    if d[0] < 2:
        return np.dtype(f"{'S' if d[0] == 0 else '<U'}{d[1]}")
    names, inner, shapes, offsets = zip(*d[2])
    formats = [(numpy_dtype(i), tuple(shape)) for i, shape in zip(inner, shapes)]
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": d[1]})


def item_size(d):
    return 16 if d[0] in BLOB else numpy_dtype(d).itemsize


def scalar_size(d):
    return {"s": 8, 3: 8, 0: 1, 1: 4}.get(d[0]) or numpy_dtype(d).itemsize // (2 if "complex" in d else 1)


def leaves(d, base=0):
    """(offset, size, size of a scalar, type) of each leaf member, depth first."""
    if d[0] != 2:
        return [(base, item_size(d), scalar_size(d), d)]
    out = []
    for _, inner, shape, offset in d[2]:
        if isinstance(inner, list) and inner[0] == 2:
            for i in range(prod(shape)):
                out += leaves(inner, base + offset + i * inner[1])
        else:
            out.append((base + offset, prod(shape) * item_size(inner), scalar_size(inner), inner))
    return out


def values_of(raw, d, held):
    """Elements of bytes as an array of their type; blobs are by their numbers in `held`, and 0 is the empty one."""
    shape, dtype = raw.shape[:-1], numpy_dtype(d)
    if not dtype.hasobject:
        return np.ascontiguousarray(raw).reshape(-1).view(dtype).reshape(shape)
    out = np.empty(shape, dtype)
    if d[0] != 2:
        held[0] = "" if d == "string" else np.zeros(0, SCALARS[d[1]])
        for place in np.ndindex(shape):
            out[place] = held[int.from_bytes(raw[place][:8].tobytes(), "little")]
        return out
    for name, inner, own, offset in d[2]:
        part = raw[..., offset : offset + prod(own) * item_size(inner)].reshape(*shape, *own, item_size(inner))
        out[name][...] = values_of(part, inner, held)
    return out
