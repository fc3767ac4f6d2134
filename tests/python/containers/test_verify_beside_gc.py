"""`verify` beside commits and garbage collection."""

import threading

import drystone as dry
import numpy as np


def test_a_container_is_sound_beside_commits_and_collections(path):
    """Symptom: `verify` reported damage of pages that a garbage collection had removed with an expired snapshot."""
    stop = threading.Event()
    with dry.create(path) as c:
        c.create_variable("T", "i8", (600,), steps=True)
        with c.writer() as w, w.step(0):
            w.put("T", np.arange(600))
        c.commit()

    def change():
        with dry.open(path, "r+") as own:
            number = 0
            while not stop.is_set():
                own.attrs["x"] = number
                own.gc(keep=1)
                number += 1

    changing = threading.Thread(target=change)
    changing.start()
    try:
        for _ in range(40):
            with dry.open(path) as c:
                report = c.verify()
                assert report.ok, report.damage
    finally:
        stop.set()
        changing.join()
