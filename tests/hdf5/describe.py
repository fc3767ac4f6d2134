"""What an HDF5 file holds, as plain values that can be compared: every object, link, type, property, attribute and
value.

Two files with equal descriptions are the same to every reader: names and kinds of links, which paths lead to the same
object, creation order where it is kept, types member by member, shapes, layouts, filters, fill values, attributes, and
all values. Left out is what a file may do as it likes: addresses, times, allocation, the padding of compounds.
"""

from __future__ import annotations

import h5py
import numpy as np
from h5py import h5d, h5p, h5r, h5s, h5t, h5z

CLASSES = {
    value: name
    for name, value in vars(h5t).items()
    if name.isupper()
    and name
    in {"INTEGER", "FLOAT", "STRING", "BITFIELD", "OPAQUE", "COMPOUND", "REFERENCE", "ENUM", "VLEN", "ARRAY"}
}


def described(path):
    """The whole file."""
    with h5py.File(path, "r") as file:
        return dict(_Walk(file).objects())


def differences(first, second, where=""):
    """What two descriptions say differently, one line each; none if they are equal."""
    if isinstance(first, dict) and isinstance(second, dict):
        out = [f"{where}: only one has {key!r}" for key in first.keys() ^ second.keys()]
        for key in first.keys() & second.keys():
            out += differences(first[key], second[key], f"{where} {key}")
        return out
    if isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        return [
            d
            for n, (a, b) in enumerate(zip(first, second, strict=False))
            for d in differences(a, b, f"{where}[{n}]")
        ]
    return [] if first == second else [f"{where}: {_short(first)} is not {_short(second)}"]


def _short(value):
    text = repr(value)
    return text if len(text) < 120 else text[:120] + "..."


class _Walk:
    def __init__(self, file):
        self.file = file
        self.seen = []

    def objects(self):
        """Paths and what lies there; each object once, further paths to it say so."""
        waiting = [("/", self.file["/"])]
        while waiting:
            path, thing = waiting.pop(0)
            first = next((name for name, other in self.seen if other == thing), None)
            if first is not None:
                yield path, {"same as": first}
                continue
            self.seen.append((path, thing))
            out = {"attributes": self.attributes(thing)}
            if isinstance(thing, h5py.Group):
                out |= {"kind": "group", "order": _orders(thing.id.get_create_plist())}
                names = list(thing)
                out["links"] = names if out["order"] & h5p.CRT_ORDER_TRACKED else sorted(names)
                for name in sorted(names):
                    link = thing.get(name, getlink=True)
                    below = f"{path.rstrip('/')}/{name}"
                    if isinstance(link, h5py.HardLink):
                        waiting.append((below, thing[name]))
                    elif isinstance(link, h5py.ExternalLink):
                        yield below, {"external": [str(link.filename), link.path]}
                    else:
                        yield below, {"soft": link.path}
            elif isinstance(thing, h5py.Datatype):
                out |= {"kind": "type", "type": type_of(thing.id)}
            else:
                out |= {"kind": "dataset", **self.dataset(thing)}
            yield path, out

    def attributes(self, thing):
        out = {}
        for name in thing.attrs:
            one = thing.attrs.get_id(name)
            space = one.get_space()
            out[name] = {"type": type_of(one.get_type()), "space": _space(space)}
            if space.get_simple_extent_type() != h5s.NULL:
                out[name]["value"] = self.values(
                    _read(one, lambda name=name: thing.attrs[name]), one.get_type(), scalar=one.shape == ()
                )
        return out

    def dataset(self, thing):
        space, listed = thing.id.get_space(), thing.id.get_create_plist()
        layout = listed.get_layout()
        out = {
            "type": type_of(thing.id.get_type()),
            "space": _space(space),
            "layout": layout,
            "chunks": list(listed.get_chunk()) if layout == h5d.CHUNKED else None,
            "filters": [
                [
                    code,
                    flags,
                    [] if code == h5z.FILTER_SHUFFLE else list(numbers),
                ]  # the size, HDF5's own note
                for code, flags, numbers, _ in (listed.get_filter(n) for n in range(listed.get_nfilters()))
            ],
            # HDF5 changes it by itself for what has a length of its own.
            "fill time": None if thing.id.get_type().dtype.hasobject else listed.get_fill_time(),
            "fill defined": listed.fill_value_defined(),
        }
        if space.get_simple_extent_type() != h5s.NULL:
            out["values"] = self.values(
                _read(thing.id, lambda: thing[()]), thing.id.get_type(), scalar=thing.shape == ()
            )
            if thing.id.get_type().get_class() in (h5t.INTEGER, h5t.FLOAT) and out["fill defined"]:
                out["fill"] = np.asarray(thing.fillvalue).tobytes()
        return out

    def values(self, value, kind, *, scalar):
        """Values of a type, as nested lists, texts and bytes."""
        dtype = kind.dtype
        if not dtype.hasobject and dtype.names is None and dtype.subdtype is None:
            return np.ascontiguousarray(value).tobytes().hex()
        if scalar:
            return self.value(value, dtype)
        return self.value(value, np.dtype((dtype, np.shape(value))) if dtype.subdtype is None else dtype)

    def value(self, value, dtype):
        if dtype.subdtype is not None:
            base = dtype  # NumPy has made arrays of arrays one
            while base.subdtype is not None:
                base = base.subdtype[0]
            return [self.value(cell, base) for cell in np.asarray(value).reshape(-1)]
        if dtype.names is not None:
            return {name: self.value(value[name], dtype[name]) for name in dtype.names}
        if isinstance(value, h5py.RegionReference):
            return self.region(value)
        if isinstance(value, h5py.Reference):
            return {"refers to": self.first_path(self.file[value]) if value else None}
        base = h5py.check_vlen_dtype(dtype)
        if base is not None and not isinstance(value, (bytes, str)):
            return [self.value(cell, base) for cell in value] if value is not None else []
        if isinstance(value, (bytes, str)):
            return value if isinstance(value, str) else value.hex()
        return np.asarray(value).tobytes().hex()

    def region(self, value):
        if not value:
            return {"region of": None}
        space = h5r.get_region(value, self.file.id)
        count = space.get_select_npoints()
        box = [list(map(int, corner)) for corner in space.get_select_bounds()] if count else None
        return {"region of": self.first_path(self.file[value]), "count": count, "box": box}

    def first_path(self, thing):
        """The path under which the walk met an object, or the name that HDF5 gives it."""
        return next((name for name, other in self.seen if other == thing), thing.name)


def _read(stored, otherwise):
    """All values of a dataset or attribute: as they are stored where the type is fixed, else as h5py gives them."""
    kind = stored.get_type()
    if kind.dtype.hasobject or kind.dtype.itemsize != kind.get_size():
        return otherwise()
    cells = np.empty(stored.shape + kind.dtype.shape, kind.dtype.base)
    if isinstance(stored, h5d.DatasetID):
        stored.read(h5s.ALL, h5s.ALL, cells, mtype=kind)
    else:
        stored.read(cells, mtype=kind)
    return cells


def _orders(listed):
    return listed.get_link_creation_order() if hasattr(listed, "get_link_creation_order") else 0


def _space(space):
    if space.get_simple_extent_type() == h5s.NULL:
        return None
    most = space.get_simple_extent_dims(True)
    return [list(space.shape), [None if n == h5s.UNLIMITED else n for n in most]]


def type_of(kind):
    """A type, member by member."""
    what = kind.get_class()
    out = {"class": CLASSES.get(what, what), "committed": bool(kind.committed())}
    if what in (h5t.INTEGER, h5t.BITFIELD):
        out |= {"size": kind.get_size(), "order": kind.get_order()}
        if what == h5t.INTEGER:  # h5py does not say these of bit fields
            out |= {"precision": kind.get_precision(), "offset": kind.get_offset(), "sign": kind.get_sign()}
    elif what == h5t.FLOAT:
        out |= {"size": kind.get_size(), "order": kind.get_order(), "fields": list(kind.get_fields())}
        out |= {"bias": kind.get_ebias(), "norm": kind.get_norm()}
    elif what == h5t.STRING:
        out |= {"variable": bool(kind.is_variable_str()), "set": kind.get_cset(), "pad": kind.get_strpad()}
        if not kind.is_variable_str():
            out |= {"size": kind.get_size()}
    elif what == h5t.OPAQUE:
        out |= {"size": kind.get_size(), "tag": kind.get_tag()}
    elif what == h5t.COMPOUND:
        out |= {"size": kind.get_size()}
        out["members"] = [
            [kind.get_member_name(n), kind.get_member_offset(n), type_of(kind.get_member_type(n))]
            for n in range(kind.get_nmembers())
        ]
    elif what == h5t.ENUM:
        out |= {"base": type_of(kind.get_super())}
        out["values"] = [
            [kind.get_member_name(n), kind.get_member_value(n)] for n in range(kind.get_nmembers())
        ]
    elif what == h5t.ARRAY:
        out |= {"dims": list(kind.get_array_dims()), "base": type_of(kind.get_super())}
    elif what == h5t.VLEN:
        out |= {"base": type_of(kind.get_super())}
    elif what == h5t.REFERENCE:
        out |= {"region": kind.equal(h5t.STD_REF_DSETREG)}
    return out


__all__ = ["described", "differences", "type_of"]
