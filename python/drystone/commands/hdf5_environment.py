"""`drystone hdf5-env`: the two variables that make HDF5 programs use Drystone, for `eval "$(drystone hdf5-env)"`."""

from __future__ import annotations

import shlex

from drystone import errors, hdf5
from drystone.commands.outcome import Outcome


def run(*, options: list[str], off: bool) -> Outcome:
    """Print them for a shell of the Bourne family."""
    if off:
        lines = [f"unset {hdf5.CONNECTOR_VARIABLE}", f"unset {hdf5.PATH_VARIABLE}"]
        return Outcome("\n".join(lines), {})
    for word in options:
        if not word.partition("=")[1] or word.startswith("="):
            raise errors.InvalidArgumentError(f"{word} is not KEY=VALUE, as publish=1")
    if not hdf5.plugin().exists():
        raise errors.NotFoundError(
            f"the plug-in for HDF5 is not at {hdf5.plugin()}: this package was built without it "
            "(in a checkout: make setup; otherwise install a wheel)"
        )
    variables = hdf5.environment(";".join(options))
    lines = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    return Outcome("\n".join(lines), variables)
