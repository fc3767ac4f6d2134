"""A container with one variable of every sort that a page may meet, served."""

import drystone as dry
import headless
import numpy as np
import pytest
from drystone.view import Server

STEPS, NZ, NY, NX = 3, 6, 40, 60


def field(step):
    """What `fields/temperature` holds at a step."""
    z, y, x = np.meshgrid(np.arange(NZ), np.arange(NY), np.arange(NX), indexing="ij")
    return (280 + 5 * step + np.sin(x / 7 + step) * 8 + y / 4 - z).astype("f4")


def fill(path):
    c = dry.create(path)
    c.attrs.update(title="what a page shows", numbers=np.arange(3.0), evil="<img src=x onerror=alert(1)>")
    dims = ("z", "lat", "lon")
    c.create_variable(
        "fields/temperature",
        "f4",
        (NZ, NY, NX),
        dims,
        True,
        False,
        "shuffle,zstd:1",
        (3, 20, 30),
        attrs={"units": "K"},
    )
    c.create_variable("fields/velocity", [("x", "f4"), ("name", "S4"), ("w", "f8", (2,))], (NY, NX), dims[1:])
    c.create_variable("fields/wave", "c16", (NY, NX), dims[1:])
    c.create_variable("lat", "f8", (NY,), ("lat",), attrs={"units": "degrees_north"})
    c.create_variable("lon", "f8", (NX,), ("lon",), attrs={"units": "degrees_east"})
    attrs = {"scale_factor": 0.5, "add_offset": 10.0, "_FillValue": np.int16(-99)}
    c.create_variable("packed", "i2", (NY, NX), dims[1:], attrs=attrs, fill_value=-99)
    c.create_variable("series", "f8", (500,))
    c.create_variable("wide", "f4", (3000, 2100))
    c.create_variable("whole", "i8", ())
    c.create_variable("texts", str, (3,))
    c.create_variable("each", "f4", local=True)
    c.create_variable("empty", "f4", (0, 4))
    writers = [c.writer(rank=rank, nranks=2) for rank in range(2)]
    for step in range(STEPS):
        for rank, writer in enumerate(writers):
            with writer.step(step):
                part = slice(rank * NY // 2, (rank + 1) * NY // 2)
                writer.put("fields/temperature", field(step)[:, part], offset=(0, part.start, 0))
        c.commit()
    for writer in writers:
        writer.close()
    with c.writer() as w:
        record = np.zeros((NY, NX), [("x", "f4"), ("name", "S4"), ("w", "f8", (2,))])
        record["x"], record["name"], record["w"] = field(0)[0], b"ab", [1.5, 2.5]
        w.put("fields/velocity", record)
        w.put("fields/wave", field(0)[0].astype("c16") + 1j * field(1)[0])
        w.put("lat", np.linspace(-39, 39, NY))
        w.put("lon", np.linspace(0, 354, NX))
        packed = np.arange(NY * NX, dtype="i2").reshape(NY, NX)
        packed[3:6, 4:9] = -99
        w.put("packed", packed)
        series = np.cumsum(np.sin(np.arange(500.0)))
        series[7] = np.nan
        w.put("series", series)
        w.put("wide", np.arange(3000 * 2100, dtype="f4").reshape(3000, 2100))
        w.put("whole", np.int64(2**60 + 1))
        w.put("texts", np.array(["plain", "<b>bold</b>", "ünï\ncode"], object))
        w.put("each", np.arange(4, dtype="f4"))
    with c.writer() as w:
        w.put("each", np.arange(7, dtype="f4"))
    c.commit()
    return c


@pytest.fixture(scope="session")
def served(tmp_path_factory):
    """The container and its server."""
    c = fill(tmp_path_factory.mktemp("view") / "run42.dry")
    with Server(c).start() as server:
        yield c, server


@pytest.fixture(scope="session")
def window():
    """A browser, for all tests of the page."""
    if headless.program() is None:
        pytest.skip(
            "no Chromium in PATH: apt-get install chromium-headless-shell, or name one in DRYSTONE_BROWSER"
        )
    with headless.Browser() as browser:
        yield browser
