"""A group of a container as a data store of xarray.

Steps are the leading dimension of the variables that have them. The attribute `_step_dim` of the variable stores the
dimension's name; it is "step" for variables written by a simulation. Its cells are the existing steps. If no variable
has the dimension's name, the step numbers are its coordinate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from xarray.backends.common import ArrayWriter, WritableCFDataStore, _encode_variable_name
from xarray.coding.strings import EncodedStringCoder, check_vlen_dtype
from xarray.core import indexing

from drystone import values
from drystone.container import Container
from drystone.described import obstacle
from drystone.enumerations import enum_names
from drystone.errors import ConflictError, InvalidArgumentError, warn
from drystone.group import Group
from drystone.lists import ragged_element, reference, reference_kind
from drystone.variable import Variable
from drystone.xarray.arrays import StoredArray, Target
from drystone.xarray.lists import Lists, as_two_arrays

STEP_DIM = "_step_dim"
_CHUNK_BYTES = 16 << 20
_ENCODINGS = {"transform", "chunks", "reference"}
_OF_STRINGS = {"_FillValue", "char_dim_name", "_Encoding"}
_MEANINGLESS = {"source", "original_shape", "preferred_chunks", "dtype", "unlimited_dims", "coordinates"}


_Place = tuple[list[int], npt.NDArray[np.int64] | None]
"""The first cell of a write, and the steps along the first axis if they are not consecutive."""


class DrystoneStore(WritableCFDataStore):
    """Reads and writes the variables directly in a group."""

    def __init__(
        self,
        group: Group,
        *,
        step_dim: str | None = None,
        append: bool = False,
        region: Mapping[str, slice] | None = None,
        owned: bool = False,
        lists: bool = False,
    ) -> None:
        """A store.

        `owned` closes the container with it, and `lists` shows lists. The other options are for writing: see
        `to_container`.
        """
        self._group = group
        self.step_dim = step_dim
        """The dimension that becomes the steps of written variables."""
        self._append = append
        self._region = dict(region or {})
        self._owned = owned
        self._shows_lists = lists
        self._appended: dict[str, int] = {}
        self.times: set[str] = set()
        """Variables of times, whose values decide in which units they can be stored."""

    @property
    def container(self) -> Container:
        """The container of the group."""
        return self._group._container

    @property
    def adds_to_what_is_there(self) -> bool:
        """Whether steps are appended or a region is written."""
        return self._append or bool(self._region)

    def joins(self, dims: Iterable[Any]) -> bool:
        """Whether variables with these dimensions are appended to existing ones instead of replacing them."""
        return bool(self._region) or (self._append and self.step_dim in dims)

    def close(self) -> None:
        """Close the container, if the store owns it."""
        if self._owned:
            self.container.close()
        else:
            self.container._settle()

    # Existing content.

    def get_variables(self) -> dict[str, xr.Variable]:
        """Its variables; for arrays of records, the members. Local variables have no single array and are left out."""
        stored = dict(self._stored())
        lists = dict(self._lists()) if self._shows_lists else {}
        all_of_them = [*stored.values(), *lists.values()]
        steps = self._steps(all_of_them)
        out = {name: self._labelled(name, variable, steps) for name, variable in stored.items()}
        for dim, numbers in steps.items():
            if dim not in out and _step_dim(next(iter(self._with_dim(all_of_them, dim)))) is None:
                out[dim] = xr.Variable((dim,), numbers)
        for name, variable in lists.items():
            own = _step_dim(variable) or "step"
            found = as_two_arrays(name, variable, steps[own] if variable.has_steps else None, own)
            if taken := found.keys() & (stored.keys() | (lists.keys() - {name})):
                warn(f'"{name}" holds lists, and is left out: {sorted(taken)} would be of two variables')
            else:
                out |= found
        return out

    def _lists(self) -> Iterable[tuple[str, Variable]]:
        for name, variable in self._group.variables.items():
            if "/" not in name and not variable.local and ragged_element(variable.dtype) is not None:
                yield name, variable

    def _stored(self) -> Iterable[tuple[str, Variable]]:
        for name, variable in self._group.variables.items():
            if why := obstacle(self.container, variable.name):
                warn(f'"{name}" is left out: {why}')
            elif ragged_element(variable.dtype) is not None:
                if not self._shows_lists:
                    warn(
                        f'"{name}" holds lists of numbers, which xarray has no arrays for: it is left out; lists=True '
                        "shows it as two arrays"
                    )
            elif "/" not in name and not variable.local:
                for named, member in _members(name, variable):
                    if ragged_element(member.dtype) is not None:
                        warn(
                            f'"{named}" holds lists of numbers, which xarray has no arrays for: it is left out'
                        )
                    else:
                        yield named, member

    def _with_dim(self, variables: Iterable[Variable], dim: str) -> Iterable[Variable]:
        return (v for v in variables if v.has_steps and (_step_dim(v) or "step") == dim)

    def _steps(self, variables: Iterable[Variable]) -> dict[str, npt.NDArray[np.int64]]:
        """The existing steps, by dimension."""
        found: dict[str, set[int]] = {}
        for variable in variables:
            if variable.has_steps:
                found.setdefault(_step_dim(variable) or "step", set()).update(variable.steps)
        return {dim: np.array(sorted(steps), np.int64) for dim, steps in found.items()}

    def _labelled(
        self, name: str, variable: Variable, steps: Mapping[str, npt.NDArray[np.int64]]
    ) -> xr.Variable:
        attrs = dict(variable.attrs)
        attrs.pop(STEP_DIM, None)
        dims: tuple[str, ...] = variable.dims or ()
        numbers = None
        if variable.has_steps:
            own = _step_dim(variable) or "step"
            numbers = steps[own]
            dims = (own, *dims)
        array = StoredArray(variable, numbers)
        dims = (*dims, *(f"{name}_dim_{axis}" for axis in range(len(dims), len(array.shape))))
        fill = variable._reading().fill
        if fill is not None and "_FillValue" not in attrs and variable.dtype.kind in "iufc":
            attrs["_FillValue"] = variable.fill_value
        if array.dtype.kind == "S" and isinstance(attrs.get("_FillValue"), str):
            attrs["_FillValue"] = attrs["_FillValue"].encode()
        encoding: dict[str, Any] = {"source": self.container.path, "original_shape": array.shape}
        if array.dtype.kind not in "mM":  # xarray encodes these itself when it writes them elsewhere
            encoding["dtype"] = array.dtype
        if variable.dtype.kind in "mM" and array.dtype.kind == "i":
            attrs["numpy_dtype"] = str(variable.dtype)
        if (names := enum_names(variable.dtype)) is not None:
            # As xarray does for netCDF's, so that it writes them as such there.
            named = {"enum": names, "enum_name": f"{name}_enum"}
            encoding["dtype"] = np.dtype(array.dtype.str, metadata=named)
        if (kind := reference_kind(variable.dtype)) is not None:
            encoding["reference"] = kind
        if variable.transform:
            encoding["transform"] = variable.transform
        if variable.chunk_shape:
            encoding["chunks"] = variable.chunk_shape
        encoding["preferred_chunks"] = _preferred(variable, dims, array)
        return xr.Variable(dims, indexing.LazilyIndexedArray(array), attrs, encoding)

    def get_attrs(self) -> dict[str, Any]:
        """The attributes of the group."""
        return dict(self._group.attrs)

    def get_dimensions(self) -> dict[str, int]:
        """Names and lengths of the dimensions."""
        return {str(dim): n for v in self.get_variables().values() for dim, n in v.sizes.items()}

    def get_encoding(self) -> dict[str, Any]:
        """Which dimensions grow."""
        growing = set()
        for _, variable in self._stored():
            if variable.has_steps:
                growing.add(_step_dim(variable) or "step")
            growing.update(
                d for d, grows in zip(variable.dims or (), variable.growable, strict=False) if grows
            )
        return {"unlimited_dims": growing, "source": self.container.path}

    # Additions.

    def encode_variable(self, v: xr.Variable, name: Any = None) -> xr.Variable:
        """Encode texts and bytes where needed; bytes of any length become bytes of one length, as in netCDF."""
        v = EncodedStringCoder(allows_unicode=True).encode(v, name)
        if check_vlen_dtype(v.dtype) is bytes:
            return v.copy(deep=False, data=np.asarray(v.values, "S"))
        return v

    def stored_times(self, name: str) -> np.dtype[Any] | None:
        """The dtype of a variable that is stored as times, and not as numbers with units."""
        there = self._group.variables.get(name)
        return there.dtype if there is not None and there.dtype.kind in "mM" else None

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        """Set all, as one commit."""
        if attributes:
            self._group.attrs.update({name: _attribute(value) for name, value in attributes.items()})

    def set_dimensions(self, variables: Any, unlimited_dims: Any = None) -> None:
        """Refuse dimensions whose length differs from that of existing variables.

        They are not set: they belong to variables.
        """
        if self._region or not len(self._group.variables):
            return
        sizes = self.get_dimensions()
        for name, variable in variables.items():
            for dim, n in variable.sizes.items():
                if sizes.get(dim, n) != n and not (self._append and dim == self.step_dim):
                    raise InvalidArgumentError(
                        f'Unable to update size for existing dimension "{dim}" (of "{name}"): {n}, not {sizes[dim]}'
                    )

    def set_variables(
        self,
        variables: Mapping[Any, xr.Variable],
        check_encoding_set: Any,
        writer: ArrayWriter,
        unlimited_dims: Any = None,
    ) -> None:
        """Create missing variables, as one commit, and pass the arrays to the writer."""
        with self.container.batch():
            made = [
                self._created(
                    _encode_variable_name(name), variable, name in check_encoding_set, unlimited_dims or ()
                )
                for name, variable in variables.items()
            ]
        for path, (start, steps), variable in made:
            writer.add(variable.data, Target(self.container, path, start, variable.shape, steps))

    def set_lists(self, found: Mapping[str, Lists], encoding: Mapping[str, Mapping[str, Any]]) -> None:
        """Create variables of lists and write them; the step dimension comes first."""
        for name, one in found.items():
            if self._group.variables.get(name) is not None:
                self._group.delete(name)
            steps = self.step_dim in one.dims
            if steps and one.dims[0] != self.step_dim:
                raise InvalidArgumentError(f'"{name}" has the dimensions {one.dims}: steps come first')
            own = one.dims[1:] if steps else one.dims
            made = self._group.create_variable(
                name,
                one.dtype,
                one.lists.shape[1:] if steps else one.lists.shape,
                dims=own,
                steps=steps,
                transform=dict(encoding.get(name, {})).get("transform"),
                attrs={key: _attribute(value) for key, value in one.attrs.items()}
                | ({STEP_DIM: self.step_dim} if steps else {}),
            )
            if steps:
                for step, block in enumerate(one.lists):
                    made[step] = block
            else:
                made[...] = one.lists

    def _created(
        self, name: str, variable: xr.Variable, check_encoding: bool, unlimited_dims: Iterable[Any]
    ) -> tuple[str, _Place, xr.Variable]:
        """Path and target cells of a variable."""
        path = self._group._below(name)
        dims = tuple(str(dim) for dim in variable.dims)
        steps = self.step_dim in dims
        if steps and dims[0] != self.step_dim:
            raise InvalidArgumentError(
                f'"{name}" has the dimensions {dims}: steps come first; ds.transpose("{self.step_dim}", ...)'
            )
        there = self._group.variables.get(name)
        if self._region or (there is not None and self.joins(dims)):
            return path, self._place(name, there, variable, dims), variable
        if there is not None and not _fits(there, dims, variable, self.step_dim):
            self._group.delete(name)
        encoding = _extracted(name, variable, check_encoding)
        attrs = {key: _attribute(value) for key, value in variable.attrs.items()}
        fill = attrs.get("_FillValue")
        if steps:
            attrs[STEP_DIM] = self.step_dim
        text = check_vlen_dtype(variable.dtype) is str or variable.dtype.kind == "O"
        dtype = str if text else variable.dtype
        if text and encoding.get("reference") is not None:
            dtype = reference(encoding["reference"])
        encoded_as = variable.encoding.get("dtype")
        if isinstance(encoded_as, np.dtype) and enum_names(encoded_as) is not None and encoded_as == dtype:
            dtype = encoded_as
        own = dims[1:] if steps else dims
        shape = [None if dim in unlimited_dims else variable.sizes[dim] for dim in own]
        chunks = encoding.get("chunks")
        self._group.create_variable(
            name,
            dtype,
            shape,
            dims=own,
            steps=steps,
            transform=encoding.get("transform"),
            chunks=chunks[1:] if chunks and steps and len(chunks) == len(dims) else chunks,
            fill_value=None if text else _fill(fill, np.dtype(variable.dtype)),
            attrs=attrs,
        )
        first = self._next_step(()) if steps else 0
        return path, ([first, *(0 for _ in own)] if steps else [0 for _ in own], None), variable

    def _place(
        self, name: str, there: Variable | None, variable: xr.Variable, dims: tuple[str, ...]
    ) -> _Place:
        """The cells of a region or of appended steps."""
        if there is None:
            raise ConflictError(f'there is no variable "{name}" to write a region of')
        own = there.dims or ()
        stored = ((_step_dim(there) or "step"), *own) if there.has_steps else own
        if stored != dims:
            raise ConflictError(f'"{name}" is stored with the dimensions {stored}, not {dims}')
        if self._append and not there.has_steps:
            raise ConflictError(
                f'"{name}" has no steps to append to, only cells along "{self.step_dim}": write the container with '
                f'step_dim="{self.step_dim}" (or append_dim) from the first time on'
            )
        self._require_same_units(name, there, variable)
        shown = self._steps(v for _, v in self._stored()).get(stored[0]) if there.has_steps else None
        sizes = dict(zip(own, there.shape[there.has_steps :], strict=True))
        start, steps = [], None
        for dim, count in variable.sizes.items():
            part = self._region.get(str(dim))
            of_steps = there.has_steps and dim == stored[0]
            if of_steps and self._append:
                start.append(self._next_step(()))
                continue
            size = len(shown) if of_steps and shown is not None else sizes[str(dim)]
            first, stop, _ = (part or slice(None)).indices(size)
            beyond = part is not None and part.stop is not None and part.stop > size
            if stop - first != count or beyond:
                asked = (
                    f"{count} from {first} on" if part is None or part.start is None else _shown(part, count)
                )
                raise ConflictError(f'"{name}" has {size} cells along "{dim}", which {asked} do not fit')
            if of_steps and shown is not None:
                steps = shown[first:stop]
            start.append(first)
        return start, steps

    def _require_same_units(self, name: str, there: Variable, variable: xr.Variable) -> None:
        """Refuse times in units that differ from the stored ones and are not exact in them.

        For other variables, units may only be spelled differently, so that is a warning.
        """
        stored, given = there.attrs.get("units"), variable.attrs.get("units")
        if name not in self.times and "calendar" not in variable.attrs:
            if stored is not None and given is not None and stored != given:
                warn(f'"{name}" is stored in units of {stored!r}, what is added to it is in {given!r}')
            return
        if _unit_of_time(stored) != _unit_of_time(given):
            raise ConflictError(
                f'"{name}" is stored in "{stored}", in which these times are not whole numbers: round them, or store the '
                "variable in finer units or as float64 to begin with"
            )

    def _next_step(self, own: Iterable[int]) -> int:
        """The first step of this write: after those of the dimension."""
        dim = str(self.step_dim)
        if dim not in self._appended:
            stored = [v for _, v in self._stored()] if self._append else []
            numbers = self._steps(self._with_dim(stored, dim)).get(dim, np.empty(0, np.int64))
            self._appended[dim] = int(numbers[-1]) + 1 if len(numbers) else 0
        return self._appended[dim]


def _unit_of_time(units: Any) -> str:
    """The unit of `hours since 2026-01-01`."""
    return str(units).partition(" ")[0].lower().rstrip("s")


def _shown(part: slice, count: int) -> str:
    return f"{count} at {part.start}:{'' if part.stop is None else part.stop}"


def _step_dim(variable: Variable) -> str | None:
    return variable.attrs.get(STEP_DIM)


def _members(name: str, variable: Variable) -> Iterable[tuple[str, Variable]]:
    """The variable, or its members if it holds records."""
    names = variable.dtype.names
    if names is None:
        yield name, variable
        return
    for member in names:
        yield from _members(f"{name}.{member}", variable[member])


def _preferred(variable: Variable, dims: tuple[str, ...], array: StoredArray) -> dict[str, int]:
    """Chunks for Dask: as blocks are cut, if that was declared, and as many steps as 16 MiB hold."""
    shape = list(array.shape)
    own = int(variable.has_steps)
    for axis, edge in enumerate(variable.chunk_shape or ()):
        shape[own + axis] = min(shape[own + axis], edge)
    if own:
        cells = int(np.prod(shape[1:], dtype=np.float64)) * array.dtype.itemsize
        shape[0] = max(1, min(shape[0], _CHUNK_BYTES // max(1, cells)))
    return dict(zip(dims, shape, strict=True))


def _fits(there: Variable, dims: tuple[str, ...], variable: xr.Variable, step_dim: str | None) -> bool:
    """Whether a stored variable may be overwritten with the values of another: whole ones, not of steps."""
    same = not there.has_steps and step_dim not in dims and (there.dims or ()) == dims
    dtype = np.dtype(object) if variable.dtype.kind == "O" else variable.dtype
    return (
        same
        and there.shape == variable.shape
        and there.dtype == dtype
        and dict(there.attrs) == variable.attrs
    )


def _extracted(name: str, variable: xr.Variable, check: bool) -> dict[str, Any]:
    """The keys of an encoding that apply here. Keys left by other formats are no error unless the caller gave them."""
    given = {key for key, value in variable.encoding.items() if value is not None}
    unknown = given - _ENCODINGS - _MEANINGLESS - (_OF_STRINGS if variable.dtype.kind in "OSU" else set())
    if check and unknown:
        raise ValueError(
            f"unexpected encoding for variable {name!r}: {sorted(unknown)}; there are {sorted(_ENCODINGS)}, and compression is a "
            'transform, as in {"transform": "shuffle,zstd:3"}'
        )
    encoding = {key: value for key, value in variable.encoding.items() if key in _ENCODINGS}
    chunks = encoding.get("chunks")
    if chunks is not None and not check and len(chunks) > variable.ndim:
        del encoding["chunks"]
    return encoding


def _attribute(value: Any) -> Any:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value
    return value.tolist() if isinstance(value, np.ndarray) and value.dtype.kind in "OU" else value


def _fill(value: Any, dtype: np.dtype[Any]) -> Any:
    """A fill value as the variable can store it; None if it cannot."""
    if value is None or dtype.kind not in "biufc":
        return None
    element = np.asarray(value)
    with np.errstate(all="ignore"):
        cast = element.astype(dtype)
    return values.as_elements(cast[()], dtype, "_FillValue")[()] if element.shape == () else None
