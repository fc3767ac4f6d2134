"""Containers in ParaView, and in any program with VTK's Python: docs/guide/paraview.md.

ParaView loads the file at `plugin_path()`: Tools, Manage Plugins, Load New, or `paraview.simple.LoadPlugin`. The
module `reading` needs neither ParaView nor VTK; `algorithm` needs VTK only.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["plugin_path"]


def plugin_path() -> str:
    """The path of the plug-in, for `LoadPlugin` and `PV_PLUGIN_PATH`."""
    return str(Path(__file__).with_name("drystone_plugin.py"))
