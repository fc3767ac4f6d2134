"""A reader for VTK's pipelines: time steps, pieces, and levels of precision. It needs VTK only, not ParaView."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from vtkmodules.util.numpy_support import numpy_to_vtk, numpy_to_vtkIdTypeArray
from vtkmodules.util.vtkAlgorithm import VTKPythonAlgorithmBase
from vtkmodules.vtkCommonCore import vtkDataArraySelection, vtkPoints
from vtkmodules.vtkCommonDataModel import (
    vtkCellArray,
    vtkDataObject,
    vtkImageData,
    vtkPolyData,
    vtkRectilinearGrid,
)
from vtkmodules.vtkCommonExecutionModel import vtkAlgorithm, vtkStreamingDemandDrivenPipeline

from drystone.meshes import Field
from drystone.paraview.reading import Extent, Reading

__all__ = ["ContainerReader"]


class ContainerReader(VTKPythonAlgorithmBase):
    """The variables of a container on one mesh, as an image, a rectilinear grid, or particles.

    Each piece of a parallel program reads the blocks of its own extent. `SetFileName` takes a folder, a URL, or the
    `drystone.json` in a folder.
    """

    def __init__(self) -> None:
        super().__init__(nInputPorts=0, nOutputPorts=1, outputType="vtkDataObject")
        self._settings: dict[str, Any] = {
            "path": "",
            "mesh": None,
            "every": 1,
            "max_error": 0.0,
            "relative": False,
            "points": None,
            "at": None,
        }
        self._opened: Reading | None = None
        self._arrays = vtkDataArraySelection()
        self._arrays.AddObserver("ModifiedEvent", lambda *_: self.Modified())

    # Settings.

    def SetFileName(self, path: str | None) -> None:
        """The container."""
        self._set("path", path or "")

    def SetMesh(self, name: str | None) -> None:
        """The name of the mesh; empty: the largest one."""
        self._set("mesh", name or None)

    def SetEvery(self, every: int) -> None:
        """Read every n-th point along each axis."""
        self._set("every", int(every))

    def SetMaxError(self, error: float) -> None:
        """The largest error of values; 0 reads them as stored."""
        self._set("max_error", float(error))

    def SetRelative(self, relative: int) -> None:
        """Whether the error is a fraction of each value's magnitude."""
        self._set("relative", bool(relative))

    def SetPositions(self, names: str | None) -> None:
        """The fields with the positions of particles, such as `x, y, z`; empty: found by name; `none`: no particles."""
        self._set("points", names or None)

    def SetFurtherAxes(self, cells: str | None) -> None:
        """The cell of outer axes that is shown, such as `species=2`; the first by default."""
        self._set("at", cells or None)

    def GetMeshes(self) -> list[str]:
        """The names of the available meshes."""
        return [mesh.name for mesh in self._reading().meshes]

    def GetArrays(self) -> Any:
        """The selected fields: a vtkDataArraySelection."""
        return self._arrays

    def GetTimes(self) -> list[float]:
        """The times of the steps."""
        return list(self._reading().times) if self._settings["path"] else []

    def Refresh(self) -> None:
        """Refresh the snapshot at the next request."""
        self._close()
        self.Modified()

    def _set(self, name: str, value: Any) -> None:
        if self._settings[name] == value:
            return
        self._settings[name] = value
        self._close()
        self.Modified()

    def _close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _reading(self) -> Reading:
        if self._opened is None:
            self._opened = Reading(**self._settings)
            for one in self._opened.mesh.fields:
                if not self._arrays.ArrayExists(one.name):
                    self._arrays.AddArray(one.name)
        return self._opened

    # Requests of the pipeline.

    def RequestDataObject(self, request: Any, inputs: Any, outputs: Any) -> int:
        """Particles; an image if points are evenly spaced; else a rectilinear grid."""
        return self._attempt(lambda: self._make(outputs))

    def RequestInformation(self, request: Any, inputs: Any, outputs: Any) -> int:
        """Extent and times."""
        return self._attempt(lambda: self._inform(outputs.GetInformationObject(0)))

    def RequestData(self, request: Any, inputs: Any, outputs: Any) -> int:
        """The extent of this piece, at the requested time."""
        return self._attempt(lambda: self._fill(outputs.GetInformationObject(0)))

    def _attempt(self, what: Callable[[], None]) -> int:
        """Report errors as VTK does: one line in the program's message window."""
        try:
            what()
        except Exception as error:
            print_error(self, f"drystone: {error}")
            return 0
        return 1

    def _make(self, outputs: Any) -> None:
        reading = self._reading()
        kind = (
            vtkPolyData
            if reading.points
            else vtkRectilinearGrid
            if reading.spacing() is None
            else vtkImageData
        )
        information = outputs.GetInformationObject(0)
        there = vtkDataObject.GetData(information)
        if there is None or not there.IsA(kind.__name__):
            information.Set(vtkDataObject.DATA_OBJECT(), kind())

    def _inform(self, information: Any) -> None:
        reading = self._reading()
        pipeline = vtkStreamingDemandDrivenPipeline
        if reading.points:
            information.Set(vtkAlgorithm.CAN_HANDLE_PIECE_REQUEST(), 1)
        else:
            information.Set(pipeline.WHOLE_EXTENT(), reading.extent, 6)
            information.Set(vtkAlgorithm.CAN_PRODUCE_SUB_EXTENT(), 1)
        spacing = None if reading.points else reading.spacing()
        if spacing is not None:
            xyz = [*reversed(spacing), (0.0, 1.0), (0.0, 1.0)][:3]
            information.Set(vtkDataObject.ORIGIN(), [origin for origin, _ in xyz], 3)
            information.Set(vtkDataObject.SPACING(), [distance for _, distance in xyz], 3)
        information.Remove(pipeline.TIME_STEPS())
        information.Remove(pipeline.TIME_RANGE())
        if reading.times:
            information.Set(pipeline.TIME_STEPS(), reading.times, len(reading.times))
            information.Set(pipeline.TIME_RANGE(), [reading.times[0], reading.times[-1]], 2)

    def _fill(self, information: Any) -> None:
        reading = self._reading()
        pipeline = vtkStreamingDemandDrivenPipeline
        output = vtkDataObject.GetData(information)
        time = (
            information.Get(pipeline.UPDATE_TIME_STEP())
            if information.Has(pipeline.UPDATE_TIME_STEP())
            else None
        )
        step = reading.step_at(time)
        output.Initialize()
        if reading.points:
            asked = [
                information.Get(pipeline.UPDATE_PIECE_NUMBER()),
                information.Get(pipeline.UPDATE_NUMBER_OF_PIECES()),
            ]
            self._strew(output, reading, step, *(asked if None not in asked else (0, 1)))
        else:
            self._lay(output, reading, step, information)
        if step is not None:
            output.GetInformation().Set(
                vtkDataObject.DATA_TIME_STEP(), reading.times[reading.steps.index(step)]
            )

    def _chosen(self, reading: Reading) -> list[Field]:
        return [one for one in reading.mesh.fields if self._arrays.ArrayIsEnabled(one.name)]

    def _strew(self, output: Any, reading: Reading, step: int | None, piece: int, pieces: int) -> None:
        """Each particle is a vertex."""
        chosen = self._chosen(reading)
        where, values = reading.read_particles(chosen, step, reading.particles(piece, pieces))
        points, vertices = vtkPoints(), vtkCellArray()
        points.SetData(numpy_to_vtk(where, deep=1))
        numbers = np.arange(len(where), dtype="i8")
        vertices.SetData(
            numpy_to_vtkIdTypeArray(np.arange(len(where) + 1, dtype="i8"), deep=1),
            numpy_to_vtkIdTypeArray(numbers, deep=1),
        )
        output.SetPoints(points)
        output.SetVerts(vertices)
        for field, found in zip(chosen, values, strict=True):
            array = numpy_to_vtk(found, deep=1)
            array.SetName(field.name)
            output.GetPointData().AddArray(array)

    def _lay(self, output: Any, reading: Reading, step: int | None, information: Any) -> None:
        """The points of an extent, on an image or a rectilinear grid."""
        pipeline = vtkStreamingDemandDrivenPipeline
        x0, x1, y0, y1, z0, z1 = (int(one) for one in information.Get(pipeline.UPDATE_EXTENT()))
        extent: Extent = (x0, x1, y0, y1, z0, z1)
        output.SetExtent(extent)
        if any(extent[2 * n] > extent[2 * n + 1] for n in range(3)):
            return  # more pieces than cells: this one is empty
        spacing = reading.spacing()
        if spacing is None:
            self._place(output, extent)
        else:
            xyz = [*reversed(spacing), (0.0, 1.0), (0.0, 1.0)][:3]
            output.SetOrigin([origin for origin, _ in xyz])
            output.SetSpacing([distance for _, distance in xyz])
        for field in self._chosen(reading):
            array = numpy_to_vtk(reading.read(field, step, extent), deep=1)
            array.SetName(field.name)
            output.GetPointData().AddArray(array)

    def _place(self, output: Any, extent: Extent) -> None:
        """Coordinates of a rectilinear grid; x is the last axis of the array."""
        reading = self._opened
        assert reading is not None
        axes = len(reading.mesh.shape)
        for n, put in enumerate((output.SetXCoordinates, output.SetYCoordinates, output.SetZCoordinates)):
            if n < axes:
                values = reading.along(axes - 1 - n)[extent[2 * n] : extent[2 * n + 1] + 1]
            else:
                values = reading.along(0)[:1] * 0
            put(numpy_to_vtk(values.copy(), deep=1))


def print_error(algorithm: Any, text: str) -> None:
    """Report an error as VTK does, so that programs show it and pipelines continue."""
    from vtkmodules.vtkCommonCore import vtkOutputWindow

    vtkOutputWindow.GetInstance().DisplayErrorText(f"{text}\n")
    algorithm.SetErrorCode(1)
