"""Mounts for tests: starts, ends and kills them."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

needs_fuse = pytest.mark.skipif(
    not os.access("/dev/fuse", os.R_OK | os.W_OK), reason="needs /dev/fuse, which this machine does not give"
)
LONG = os.environ.get("DRYSTONE_LONG") == "1"


def command(*words):
    return [sys.executable, "-m", "drystone", *map(str, words)]


def start(run, at, *options):
    """Wait until a mount is ready."""
    at.mkdir(exist_ok=True)
    words = command("mount", run, at, *options)
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    assert line == f"mounted {run} at {at}\n", process.stderr.read()
    return process


def end(process, at):
    """Unmount; returns the mount's standard error."""
    subprocess.run(command("umount", at), check=False, capture_output=True)
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 0, said
    return said


@contextmanager
def mounted(run, at, *options):
    """The folder of a mount."""
    process = start(run, at, *options)
    try:
        yield at
    finally:
        end(process, at)
