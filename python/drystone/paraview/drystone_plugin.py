"""The plug-in that ParaView loads: a reader with its properties (docs/guide/paraview.md)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

try:
    import drystone  # noqa: F401
except ModuleNotFoundError:  # so that ParaView's own Python finds the package beside this file
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from paraview.util.vtkAlgorithm import smdomain, smproperty, smproxy

from drystone.paraview.algorithm import ContainerReader


@smproxy.reader(
    name="DrystoneReader",
    label="Drystone Reader",
    extensions="json",
    filename_patterns="drystone.json",
    file_description="Drystone container",
    support_reload=False,
)
class DrystoneReader(ContainerReader):
    """Variables of a container on one mesh; each process reads its own blocks."""

    @smproperty.stringvector(name="FileName", panel_visibility="always")
    @smdomain.filelist()
    def SetFileName(self, path: str | None) -> None:
        """A container's folder or URL, or the drystone.json in it."""
        super().SetFileName(path)

    @smproperty.stringvector(name="Meshes", information_only="1")
    def GetMeshes(self) -> list[str]:
        """The available meshes."""
        return super().GetMeshes() if self._settings["path"] else []

    @smproperty.xml(
        """<StringVectorProperty name="Mesh" command="SetMesh" number_of_elements="1" default_values="">
             <StringListDomain name="list">
               <RequiredProperties><Property name="Meshes" function="StringList"/></RequiredProperties>
             </StringListDomain>
             <Documentation>Variables with the same axes; empty: the largest mesh.</Documentation>
           </StringVectorProperty>"""
    )
    def SetMesh(self, name: str | None) -> None:
        """The selected mesh."""
        super().SetMesh(name)

    @smproperty.intvector(name="Every", label="Every n-th point", default_values=1)
    @smdomain.intrange(min=1, max=1024)
    def SetEvery(self, every: int) -> None:
        """1 reads all points."""
        super().SetEvery(every)

    @smproperty.doublevector(name="MaxError", label="Error allowed", default_values=0.0)
    def SetMaxError(self, error: float) -> None:
        """0 reads values as stored."""
        super().SetMaxError(error)

    @smproperty.intvector(name="Relative", label="Error is relative", default_values=0)
    @smdomain.xml('<BooleanDomain name="bool"/>')
    def SetRelative(self, relative: int) -> None:
        """Whether the error is a fraction of each value's magnitude."""
        super().SetRelative(relative)

    @smproperty.stringvector(name="Positions", label="Positions of particles", default_values="")
    def SetPositions(self, names: str | None) -> None:
        """Fields with the positions of particles, such as "px, py, pz"; empty: found by name; "none": no particles."""
        super().SetPositions(names)

    @smproperty.stringvector(name="FurtherAxes", label="Further axes", default_values="")
    def SetFurtherAxes(self, cells: str | None) -> None:
        """The cell of outer axes that is shown, such as "species=2"; the first by default."""
        super().SetFurtherAxes(cells)

    @smproperty.doublevector(name="TimestepValues", information_only="1", si_class="vtkSITimeStepsProperty")
    def GetTimestepValues(self) -> list[float] | None:
        """The times of the steps."""
        return self.GetTimes() or None

    @smproperty.dataarrayselection(name="Variables")
    def GetArrays(self) -> Any:
        """The selected variables."""
        return super().GetArrays()
