"""`ds.drystone.to_container(path)`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Literal

import numpy as np
import xarray as xr
from xarray import conventions
from xarray.backends.common import ArrayWriter

from drystone.container import Container
from drystone.errors import InvalidArgumentError, NotFoundError, warn
from drystone.opening import open as open_container
from drystone.undoing import Addition
from drystone.xarray.casting import checked
from drystone.xarray.lists import joined
from drystone.xarray.store import DrystoneStore
from drystone.xarray.times import as_fine_as_units, counted, in_units_for_centuries, in_units_for_steps

# The attributes that decide which numbers are missing or scaled.
_OF_VALUES = {
    "units",
    "calendar",
    "dtype",
    "scale_factor",
    "add_offset",
    "_FillValue",
    "missing_value",
    "_Unsigned",
}


# Those of them that nothing else can express.
_NUMBERS = {"dtype", "scale_factor", "add_offset", "_FillValue"}

_MODES = ("w-", "w", "a", "r+")


@xr.register_dataset_accessor("drystone")
class DatasetAccessor:
    """The accessor `drystone` of datasets."""

    def __init__(self, dataset: xr.Dataset) -> None:
        self._dataset = dataset

    def to_container(
        self,
        path: str | os.PathLike[str] | Container,
        mode: str | None = None,
        *,
        group: str | None = None,
        step_dim: str | None = None,
        append_dim: str | None = None,
        region: Mapping[str, slice] | None = None,
        encoding: Mapping[str, Mapping[str, Any]] | None = None,
        unlimited_dims: Iterable[Hashable] | None = None,
        durability: Literal["async", "durable", "memory"] = "async",
        compute: bool = True,
        lists: bool = False,
    ) -> Any:
        """Write the dataset, with its coordinates and attributes.

        Dask arrays are written chunk by chunk by several threads. Chunks need no alignment, neither here nor in other
        processes that write other regions at the same time. Appended steps become visible together.

        Args:
            path: The path of a new or existing container, or a container that is open for writing.
            mode: `"w-"` (the default) creates, `"w"` replaces a container, `"a"` adds to one or creates it, and replaces
                variables, `"r+"` writes to existing variables. `append_dim` and `region` need `"a"` or `"r+"`.
            group: The group of the variables.
            step_dim: This dimension becomes the steps of the variables that have it, as their first one.
            append_dim: The same, after the existing steps; variables without the dimension are overwritten.
            region: Write to a part of existing variables: slices by dimension. Variables without any of these
                dimensions are left out.
            encoding: By variable: `transform`, `chunks`, and the keys of the CF conventions (`dtype`, `_FillValue`, …).
            unlimited_dims: Dimensions that may grow.
            durability: Durability of a new container.
            compute: If False, return a Dask object; Dask arrays are written when it is computed.
            lists: Store the ragged arrays of the CF conventions, contiguous and indexed, as lists of numbers. Not with
                `append_dim`, `region` or `compute=False`.

        """
        if append_dim is not None and step_dim not in (None, append_dim):
            raise InvalidArgumentError("append_dim= and step_dim= name different dimensions")
        dataset, as_lists = joined(self._dataset) if lists else (self._dataset, {})
        if as_lists and (append_dim is not None or region is not None or not compute):
            raise InvalidArgumentError("lists=True does not go with append_dim=, region= or compute=False")
        if append_dim is not None or step_dim is not None:
            step_dim = append_dim or step_dim
            if step_dim not in self._dataset.dims:
                raise InvalidArgumentError(f'the dataset has no dimension "{step_dim}"')
        if region is not None:
            dataset = _part_of_region(dataset, region)
        partly = append_dim is not None or region is not None
        if partly and mode not in (None, "a", "r+"):
            raise InvalidArgumentError(
                f'append_dim= and region= go with the modes "a" and "r+", not {mode!r}'
            )
        adding = _target(path, mode or ("a" if partly else "w-"), durability)
        container = adding.container
        try:
            own = "" if group is None else str(group)
            adding.begin([own, *(f"{own}/{name}" for name in (*dataset.variables, *as_lists))])
            below = container if group in (None, "", "/") else container.create_group(str(group))
            store = DrystoneStore(below, step_dim=step_dim, append=append_dim is not None, region=region)
            writer = ArrayWriter(lock=False)
            given = encoding or {}
            plain = {name: one for name, one in given.items() if name not in as_lists}
            _dump(dataset, store, writer, plain, unlimited_dims)
            store.set_lists(as_lists, given)
            written = writer.sync(compute=compute)
            if not compute:
                from dask.delayed import delayed

                return delayed(_finish)(written, adding)
            container._settle()
        except BaseException:
            adding.undo()
            raise
        adding.finish()
        return None


@xr.register_datatree_accessor("drystone")
class TreeAccessor:
    """The accessor `drystone` of trees of datasets."""

    def __init__(self, tree: xr.DataTree) -> None:
        self._tree = tree

    def to_container(
        self,
        path: str | os.PathLike[str] | Container,
        mode: str = "w-",
        *,
        group: str | None = None,
        step_dim: str | None = None,
        encoding: Mapping[str, Mapping[str, Mapping[str, Any]]] | None = None,
        durability: Literal["async", "durable", "memory"] = "async",
        compute: bool = True,
    ) -> Any:
        """Write every dataset of the tree to a group with its path in the tree.

        See `to_container` of datasets for details.

        Args:
            path: The path of a new or existing container, or a container that is open for writing.
            mode: As for datasets.
            group: The group that the tree becomes; by default the root.
            step_dim: This dimension becomes the steps of the variables that have it.
            encoding: By path in the tree ("/", "/fine"), the `encoding` of a dataset.
            durability: Durability of a new container.
            compute: If False, return a Dask object; Dask arrays are written when it is computed.

        """
        nodes = {_inside(self._tree, node): node for node in self._tree.subtree}
        given = {f"/{name.strip('/')}": one for name, one in (encoding or {}).items()}
        if given.keys() - nodes.keys():
            raise NotFoundError(
                f"encoding= names groups that the tree has not: {sorted(given.keys() - nodes.keys())}"
            )
        adding = _target(path, mode, durability)
        try:
            written = []
            for place, node in nodes.items():
                dataset = node.to_dataset(inherit=node is self._tree)
                written.append(
                    dataset.drystone.to_container(
                        adding.container,
                        "a",
                        group=f"{(group or '').strip('/')}{place}".strip("/"),
                        step_dim=step_dim if step_dim in dataset.dims else None,
                        encoding=given.get(place),
                        compute=compute,
                    )
                )
            if not compute:
                from dask.delayed import delayed

                return delayed(_finish)(written, adding)
        except BaseException:
            adding.undo()
            raise
        adding.finish()
        return None


def _inside(tree: xr.DataTree, node: xr.DataTree) -> str:
    """The path of a node within a tree."""
    return "/" if node is tree else f"/{node.relative_to(tree)}"


def _target(path: Any, mode: str, durability: Any) -> Addition:
    """The container to write to."""
    if mode not in _MODES:
        raise InvalidArgumentError(f"mode is one of {', '.join(_MODES)}, not {mode!r}")
    if isinstance(path, Container):
        return Addition(path)
    if mode == "w-":
        return Addition.creating(path, durability)
    if mode == "w":
        return Addition.creating(path, durability, overwrite=True)
    if mode == "a":
        return Addition.to(path, durability)
    return Addition(open_container(path, "r+"), owned=True)


def _part_of_region(dataset: xr.Dataset, region: Mapping[str, slice]) -> xr.Dataset:
    if not isinstance(region, Mapping) or not all(isinstance(part, slice) for part in region.values()):
        raise InvalidArgumentError(f"region is a dictionary of slices by dimension, not {region!r}")
    for dim, part in region.items():
        if part.step not in (None, 1):
            raise InvalidArgumentError(f'the region of "{dim}" is {part}: only slices of step 1 are regions')
    unknown = region.keys() - dataset.sizes.keys()
    if unknown:
        raise InvalidArgumentError(f"the region names dimensions that the dataset has not: {sorted(unknown)}")
    return dataset.drop_vars(
        [name for name, v in dataset.variables.items() if not region.keys() & set(v.dims)]
    )


def _dump(
    dataset: xr.Dataset,
    store: DrystoneStore,
    writer: ArrayWriter,
    encoding: Mapping[str, Mapping[str, Any]],
    unlimited_dims: Iterable[Hashable] | None,
) -> None:
    variables, attrs = conventions.encode_dataset_coordinates(dataset)
    for name in (*dataset.variables, *attrs):
        if not isinstance(name, str | None):
            raise TypeError(f"a name must be a string or None to be written, not {name!r}")
        if name == "":
            raise InvalidArgumentError("a name is '': the string must be length 1 or more to be written")
    for dim in dataset.dims:
        if not isinstance(dim, str):
            raise TypeError(f"the name of a dimension must be a string to be written, not {dim!r}")
    for name, variable in dataset.variables.items():
        if "/" in str(name):
            raise InvalidArgumentError(f'"{name}" would be in a group, where this dataset is not: use group=')
        if not isinstance(variable.dtype, np.dtype):
            raise InvalidArgumentError(
                f'"{name}" has dtype {variable.dtype}, which only pandas has; convert it first (.astype)'
            )
        if _lacks_texts(variable):
            warn(f'"{name}" has texts that are missing: they are stored as empty ones')
    store.times = {str(name) for name, v in dataset.variables.items() if v.dtype.kind in "mM"}
    variables = _encoded(variables, store, encoding)
    named = dataset.encoding.get("unlimited_dims", ()) if unlimited_dims is None else unlimited_dims
    grows = [named] if isinstance(named, str) else list(named)
    missing = [dim for dim in grows if dim not in dataset.dims]
    if missing and unlimited_dims is not None:
        raise InvalidArgumentError(
            f"Unlimited dimension(s) {missing} declared in 'unlimited_dims-kwarg' are not in the dataset"
        )
    if missing:
        warnings.warn(
            f"Unlimited dimension(s) {missing} declared in 'dataset.encoding' are not in the dataset",
            UserWarning,
            stacklevel=3,
        )
        grows = [dim for dim in grows if dim in dataset.dims]
    store.store(variables, attrs, set(encoding), writer, unlimited_dims=grows)


def _lacks_texts(variable: xr.Variable) -> bool:
    """Whether some texts are None or NaN, which xarray converts to empty texts."""
    if variable.dtype != object or variable.chunks is not None:
        return False
    kinds = {type(value) for value in np.asarray(variable.values).flat}
    return str in kinds and kinds <= {str, np.str_, float, type(None)} and len(kinds - {str, np.str_}) > 0


def _encoded(
    variables: Mapping[Any, xr.Variable], store: DrystoneStore, encoding: Mapping[str, Mapping[str, Any]]
) -> dict[Any, xr.Variable]:
    """The variables with their encoding, in which their values are exact."""
    there = store.get_variables() if store.adds_to_what_is_there else {}
    out = {}
    for name, given in encoding.items():
        if not isinstance(given, Mapping):
            raise InvalidArgumentError(
                f"encoding of {name!r} must be castable to a dictionary, not {given!r}"
            )
        if name not in variables:
            raise NotFoundError(f'encoding= names "{name}", which the dataset has not')
    for name, variable in variables.items():
        encoded, joins = variable.copy(deep=False), name in there
        native = store.stored_times(str(name)) if joins and store.joins(variable.dims) else None
        if native is not None and variable.dtype.kind == native.kind:
            out[name] = counted(str(name), encoded, native)
            continue
        if joins:
            # Values are encoded like those that they join: times with the same units, and so on.
            known = conventions.decode_cf_variable(name, there[name]).encoding
            encoded.encoding = {key: known[key] for key in known.keys() & _OF_VALUES}
        if joins and name in encoding and store.joins(variable.dims):
            _require_stored(str(name), encoding[name], encoded.encoding)
        elif name in encoding:
            encoded.encoding, joins = dict(encoding[name]), False
        if not joins:
            is_of_steps = store.step_dim in variable.dims
            encoded = in_units_for_steps(encoded) if is_of_steps else in_units_for_centuries(encoded)
        out[name] = checked(str(name), as_fine_as_units(encoded), joins=joins)
    return out


def _require_stored(name: str, given: Mapping[str, Any], stored: Mapping[str, Any]) -> None:
    """Refuse an encoding that represents values differently from the stored values that they join."""
    other = [key for key in sorted(given.keys() & _NUMBERS) if not _is_same(key, given[key], stored.get(key))]
    if other:
        raise InvalidArgumentError(
            f'encoding= gives "{name}", which is stored already, another {", ".join(other)}'
        )


def _is_same(key: str, given: Any, stored: Any) -> bool:
    if given is None or stored is None:
        return given is None
    if key == "dtype":
        return given is str or np.dtype(given) == stored
    numbers = np.asarray(given).dtype.kind in "iufc"
    return bool(np.array_equal(given, stored, equal_nan=numbers))


def _finish(_: Any, adding: Addition) -> None:
    adding.container._settle()
    adding.finish()
