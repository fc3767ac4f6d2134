"""Pictures of a plane or a series of a variable, or of its blocks."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from drystone import asked
from drystone.absent_steps import absent_steps, listed
from drystone.coordinates import axis_names, coordinate, selected_axes
from drystone.counted import counted, size
from drystone.errors import InvalidArgumentError, warn
from drystone.reports import Block
from drystone.selection import select
from drystone.variable import Variable
from drystone.view.pictures import missing
from drystone.whole_file import appearing

_MOST_CELLS = 50_000_000


@dataclass(frozen=True)
class Plotted:
    """A picture that was drawn."""

    file: str
    shows: str
    missing_steps: list[int]
    """Steps that were never written; their cells have the fill value."""


@dataclass(frozen=True)
class _Wanted:
    """The cells that are drawn, and the options."""

    variable: str
    key: Any
    said: str
    """The selection as text for the title."""
    step: int | None
    axes: tuple[int, int] | None
    by: str
    colours: str
    range: tuple[float, float] | None


def plot(
    container: asked.Asked,
    variable: str,
    selection: Any = None,
    output: str | os.PathLike[str] | None = None,
    *,
    layout: bool = False,
    step: int | None = None,
    axes: tuple[int, int] | None = None,
    by: str = "writer",
    colours: str = "viridis",
    range: tuple[float, float] | None = None,
    at: int | None = None,
    damaged: bool = False,
) -> Plotted:
    """Draw a plane or a series of a variable, or the layout of its blocks. Needs Matplotlib.

    A warning names steps that were never written.

    Args:
        container: A path or URL, or a container that is open.
        variable: The name of a variable, or of a member as `name.member`.
        selection: The cells, with one or two axes left, as an index of NumPy or a text such as `[-1, :, :, 32]`.
            With `layout`: a box, whose blocks are drawn.
        output: The picture to write; its suffix determines the format. By default the variable's name and .png.
        layout: Draw the boxes of the blocks, with their writers and stored bytes.
        step: With `layout`: the step; by default that of the selection, or the last one.
        axes: With `layout`: the axes that go down and across.
        by: With `layout`: colour blocks by "writer", "file" or "target". Files (objects in far
            stores) show how a read is spread. Targets hold the files: folders given as `targets`, or storage
            daemons of Ceph. Other stores have none, and raise `InvalidArgumentError` or `UnsupportedError`.
        colours: The name of a colour map of Matplotlib.
        range: The values at the two ends of the colour map, the lower first.
        at: The number of an earlier snapshot.
        damaged: Draw what is left of a container that has lost files. Otherwise it raises `CorruptError`.

    """
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if colours not in mpl.colormaps:
        raise InvalidArgumentError(
            f"matplotlib has no colour map {colours!r}; viridis, plasma, gray are some"
        )
    if range is not None and not -math.inf < range[0] < range[1] < math.inf:
        raise InvalidArgumentError(
            f"range is two numbers, the lower one first and both finite, not {range[0]:g} {range[1]:g}"
        )
    if by not in ("writer", "file", "target"):
        raise InvalidArgumentError(f'blocks are coloured by "writer", "file" or "target", not {by!r}')
    out = Path(output or f"{variable.replace('/', '_')}.png")
    figure = Figure(figsize=(8, 6), layout="constrained")
    kinds = sorted(FigureCanvasAgg(figure).get_supported_filetypes())
    if (kind := out.suffix.lower().removeprefix(".") or "png") not in kinds:
        raise InvalidArgumentError(f"{out}: no picture is of that format; there are {', '.join(kinds)}")
    drawn = figure.add_subplot()
    said = selection if isinstance(selection, str) else "" if selection is None else f"[{selection}]"
    wanted = _Wanted(variable, asked.selection(selection), said, step, axes, by, colours, range)
    with asked.opened(container, at, damaged) as c:
        v = asked.variable(c, variable)
        absent = [] if layout else absent_steps(v, wanted.key)
        shows = _layout(v, wanted, figure, drawn) if layout else _values(v, wanted, figure, drawn)
    with appearing(out) as file:
        figure.savefig(file, dpi=120, format=kind)
    if absent:
        warn(f"steps never written, whose cells are the fill value: {listed(absent)}")
    return Plotted(str(out), shows, absent)


def _values(v: Variable, wanted: _Wanted, figure: Any, axes: Any) -> str:
    if v.dtype.kind not in "biuf":
        holds = "texts" if v.dtype.hasobject else v.dtype
        remedy = "; name a member: NAME.MEMBER" if v.dtype.names else ""
        raise InvalidArgumentError(f'"{wanted.variable}" holds {holds}, which is not drawn{remedy}')
    view = v.lazy[wanted.key]
    if view.ndim not in (1, 2):
        example = f"[{', '.join(['0'] * max(0, v.ndim - 2) + [':'] * min(2, v.ndim))}]"
        raise InvalidArgumentError(
            f'a picture has one or two axes, the selection of "{wanted.variable}" {view.ndim}: '
            f"of shape {v.shape}, {example} is one"
        )
    if not view.size:
        raise InvalidArgumentError(
            f'there are no cells to draw: the selection of "{wanted.variable}" is of shape {view.shape}'
        )
    if view.size > _MOST_CELLS:
        raise InvalidArgumentError(
            f"{view.size} cells are too many for a picture: take every n-th, as in '[::8, ::8]'"
        )
    stored = np.asarray(view.read())
    values = stored.astype("f8")
    values[missing(stored, v)] = np.nan
    units = v.attrs.get("units")
    label = f"{wanted.variable} [{units}]" if units else wanted.variable
    selected = selected_axes(select(wanted.key, v.shape))
    along = [_Axis.of(v, one, length) for one, length in zip(selected, view.shape, strict=True)]
    if view.ndim == 1:
        axes.plot(along[0].values, values)
        along[0].mark(axes.xaxis)
        axes.set_ylabel(label)
        if wanted.range:
            axes.set_ylim(*wanted.range)
    else:
        low, high = wanted.range or (None, None)
        down, across = along
        colours = {"cmap": wanted.colours, "vmin": low, "vmax": high}
        if across.edges is not None and down.edges is not None:
            extent = (*across.edges, *reversed(down.edges))
            image = axes.imshow(values, **colours, aspect="auto", interpolation="nearest", extent=extent)
        else:
            image = axes.pcolormesh(across.values, down.values, values, **colours, shading="nearest")
            axes.set_ylim(*reversed(axes.get_ylim()))
        if down.is_northward:
            axes.set_ylim(*sorted(axes.get_ylim()))
        across.mark(axes.xaxis)
        down.mark(axes.yaxis)
        figure.colorbar(image, label=label)
    axes.set_title(f"{wanted.variable} {wanted.said}".strip())
    with np.errstate(all="ignore"):
        finite = values[np.isfinite(values)]
    span = f"from {finite.min():g} to {finite.max():g}" if finite.size else "nothing but missing values"
    return f"{' x '.join(map(str, view.shape))} values, {span}"


def _runs_north(v: Variable, axis: str) -> bool:
    found = coordinate(v.container, v.name, axis, _MOST_CELLS)
    return found is not None and found.is_northward and bool(found.values[-1] > found.values[0])


@dataclass(frozen=True)
class _Axis:
    """One axis of a picture: the position of each cell, and the label."""

    values: npt.NDArray[Any]
    label: str
    is_northward: bool = False
    moments: tuple[str, ...] = ()
    """Labels of the cells, if positions are cell numbers and the coordinate is of times."""

    @classmethod
    def of(cls, v: Variable, selected: tuple[int, npt.NDArray[np.int64]] | None, length: int) -> _Axis:
        """By the coordinate, if it is finite for each cell and monotone; else by cell numbers."""
        names = axis_names(v)
        if selected is None or selected[0] >= len(names):
            return cls(np.arange(length), "cell")
        axis, cells = selected
        found = coordinate(v.container, v.name, names[axis], _MOST_CELLS)
        if found is None or cells.size == 0 or cells.max() >= found.values.size:
            steps = axis == 0 and v.has_steps
            return cls(cells, names[axis] if steps else f"{names[axis]} (cell)")
        if (moments := found.moments) is not None:
            return cls(np.arange(length), names[axis], moments=tuple(moments[cell] for cell in cells))
        values = found.values[cells].astype("f8")
        away = np.diff(values)
        if not np.isfinite(values).all() or not ((away > 0).all() or (away < 0).all()):
            return cls(cells, f"{names[axis]} (cell)")
        return cls(values, found.label, found.is_northward)

    @property
    def edges(self) -> tuple[float, float] | None:
        """The start of the first cell and the end of the last, if cells are evenly spaced."""
        values = self.values.astype("f8")
        if len(values) == 1:
            return float(values[0]) - 0.5, float(values[0]) + 0.5
        away = (values[-1] - values[0]) / (len(values) - 1)
        even = away != 0 and np.abs(np.diff(values) - away).max() <= 1e-3 * abs(away)
        return (float(values[0] - away / 2), float(values[-1] + away / 2)) if even else None

    def mark(self, axis: Any) -> None:
        """Label a Matplotlib axis."""
        axis.set_label_text(self.label)
        if self.moments:
            times = [moment.removesuffix(" 00:00:00") for moment in self.moments]
            from matplotlib.ticker import MaxNLocator

            axis.set_major_locator(MaxNLocator(6, integer=True))
            axis.set_major_formatter(lambda at, _: times[int(at)] if 0 <= at < len(times) else "")


def _layout(v: Variable, wanted: _Wanted, figure: Any, axes: Any) -> str:
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    step, shape = wanted.step, v.shape[v.has_steps :]
    if v.local or not shape:
        raise InvalidArgumentError(f'"{wanted.variable}" has no cells to lay out')
    first, chosen = _box(v, wanted.key)
    if v.has_steps and step is None:
        steps = v.steps
        if not steps:
            raise InvalidArgumentError(f'"{wanted.variable}" has no steps yet')
        step = steps[-1] if first is None else first
    blocks = [block for block in v.blocks(step) if _meets(block, chosen)]
    down, across = wanted.axes or ((len(shape) - 2, len(shape) - 1) if len(shape) > 1 else (0, 0))
    if not (0 <= down < len(shape) and 0 <= across < len(shape)):
        raise InvalidArgumentError(f"--axes are two of 0 to {len(shape) - 1}")
    flat = len(shape) == 1
    boxes = [
        Rectangle(
            (b.offset[across], 0 if flat else b.offset[down]), b.shape[across], 1 if flat else b.shape[down]
        )
        for b in blocks
    ]
    owners = _owners(v, blocks, wanted.by)
    known = sorted(set(owners))
    drawn = PatchCollection(boxes, cmap=wanted.colours, edgecolor="black", linewidth=0.6, alpha=0.75)
    drawn.set_array(np.array([known.index(owner) for owner in owners], float))
    axes.add_collection(drawn)
    if len(blocks) <= 60:
        for block, box in zip(blocks, boxes, strict=True):
            x, y = box.get_x() + box.get_width() / 2, box.get_y() + box.get_height() / 2
            axes.text(x, y, size(block.nbytes), ha="center", va="center", fontsize=7)
    axes.set_xlim(0, max(1, shape[across]))
    axes.set_ylim(1 if flat else max(1, shape[down]), 0)
    names = axis_names(v)[v.has_steps :]
    axes.set_xlabel(f"{names[across]} (cell)")
    axes.set_ylabel("" if flat else f"{names[down]} (cell)")
    if not flat and _runs_north(v, names[down]):
        axes.set_ylim(0, max(1, shape[down]))
    if known:
        bar = figure.colorbar(drawn, ticks=range(len(known)) if len(known) <= 12 else None)
        by_writer = wanted.by == "writer"
        bar.set_label("writer (rank or number)" if by_writer else _CALLED[wanted.by])
        if len(known) <= 12:
            said = [_ending(str(w)) if not by_writer or w < 1 << 20 else f"{w:x}"[:6] for w in known]
            bar.ax.set_yticklabels(said)
    if chosen:
        spans = ((chosen[d][0], chosen[d][1] - chosen[d][0]) for d in (across, down))
        (left, width), (top, height) = spans
        place, extent = ((left, 0), (width, 1)) if flat else ((left, top), (width, height))
        axes.add_patch(Rectangle(place, *extent, fill=False, edgecolor="red", linewidth=1.5))
    stored = sum(b.nbytes for b in blocks)
    axes.set_title(f"{wanted.variable}{f', step {step}' if v.has_steps else ''}: blocks")
    cells = sum(math.prod(b.shape) for b in blocks)
    how = {"writer": "by", "file": "in", "target": "on"}[wanted.by]
    owned = f"{how} {counted(len(known), _CALLED[wanted.by])}"
    shows = f"{counted(len(blocks), 'block')} {owned}, {size(stored)} stored, {counted(cells, 'cell')}"
    if wanted.by != "writer" and known:
        each = [
            sum(b.nbytes for b, owner in zip(blocks, owners, strict=True) if owner == one) for one in known
        ]
        shows += f"; {size(min(each))} to {size(max(each))} of each {_CALLED[wanted.by]}"
    return shows


def _ending(name: str, most: int = 32) -> str:
    """A name short enough for a legend: a long path is cut to its end, which is distinctive."""
    return name if len(name) <= most else "…" + name[1 - most :]


_CALLED = {"writer": "writer", "file": "file", "target": "storage target"}


def _owners(v: Variable, blocks: list[Block], by: str) -> list[Any]:
    """The property that determines each block's colour."""
    if by == "writer":
        return [block.writer for block in blocks]
    if by == "file":
        return [_file(block) for block in blocks]
    keys = sorted({block.place[0] for block in blocks if block.place})
    holders = dict(zip(keys, v.container._holders(keys), strict=True))
    found = [holders[block.place[0]] if block.place else None for block in blocks]
    return ["no target" if holder is None else holder for holder in found]


def _box(v: Variable, key: Any) -> tuple[int | None, list[tuple[int, int]] | None]:
    """The step of a selection, if it selects one, and first and last cell along each axis; None is everything."""
    if key is ...:
        return None, None
    spans: list[tuple[int, int]] = [(0, extent) for extent in v.shape]
    for leg in select(key, v.shape).legs:
        for axis in leg.axes:
            cells = leg.along(axis)
            if not len(cells):
                raise InvalidArgumentError("the selection has no cells to lay out")
            spans[axis] = (int(cells.min()), int(cells.max()) + 1)
    if not v.has_steps:
        return None, spans
    (first, behind), *rest = spans
    return (first if behind == first + 1 else None), rest


def _meets(block: Block, box: list[tuple[int, int]] | None) -> bool:
    spans = zip(block.offset, block.shape, box or (), strict=False)
    return all(offset < behind and first < offset + extent for offset, extent, (first, behind) in spans)


def _file(block: Block) -> str:
    return block.place[0] if block.place else "a file of its own"
