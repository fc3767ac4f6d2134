"""Where subchunks stand and how their cells are arranged, as docs/format/block-index.md says under "Layouts" and
"Subchunk table". Part of the reader."""

import numpy as np


def layout_of(encoding):
    """What a dictionary item says of its layout, its number or room, place and order of cells; whether it is a replica
    or a part."""
    replica = {"replica": encoding[7]} if 7 in encoding else {}
    if encoding[2] == 2:
        replica |= {"part": encoding[8]}
    if encoding[2] not in (1, 2) or 3 not in encoding:
        return {"layout": 0 if encoding[2] == 2 else encoding[2]} | replica
    order = encoding[5] if 5 in encoding else {1: "morton", 2: "hilbert"}[encoding[6]]
    return {"layout": {"room": encoding[3], "at": encoding[4], "order": order}} | replica


def grid_of(entry):
    """Subchunks along each axis."""
    return [-(-count // max(cut, 1)) for count, cut in zip(entry["count"], entry["cut"])]


def halves(piece):
    """What a subchunk's payload consists of: its front, where that stands apart, and the rest."""
    front = {name: piece.get(f"front_{name}", 0) for name in ("length", "position", "check", "trailer")}
    return [front, piece] if front["length"] else [piece]


def room(layout, width):
    """Bytes of a cell; None if the layout is not known."""
    return layout["room"] if isinstance(layout, dict) else width if layout == 0 else None


def arranged(layout, data, shape, width):
    """Elements of `width` bytes by their place in a subchunk."""
    if layout == 0:
        return np.frombuffer(data, np.uint8).reshape(*shape, width)
    at, order = layout["at"], layout["order"]
    cells = np.frombuffer(data, np.uint8).reshape(-1, layout["room"])[:, at : at + width]
    if isinstance(order, str):
        return cells[along(order, shape)].reshape(*shape, width)
    stored = cells.reshape(*(shape[d] for d in order), width)
    return stored.transpose(*np.argsort(order).astype(int), len(shape))


def along(curve, shape):
    """For every cell, row by row, its place along a curve."""
    x, bits = np.indices(shape).reshape(len(shape), -1), int(max(shape) - 1).bit_length()
    if curve == "hilbert":
        lows = [(1 << b) - 1 for b in range(bits - 1, 0, -1)]
        for low in lows:
            for k in range(len(x)):
                odd = x[k] & (low + 1) > 0
                swap = np.where(odd, 0, (x[0] ^ x[k]) & low)
                x[0] ^= np.where(odd, low, swap)
                x[k] ^= swap
        x = np.bitwise_xor.accumulate(x)
        for flip in [np.where(x[-1] & (low + 1), low, 0) for low in lows]:
            x ^= flip
    keys = [i >> b & 1 for b in range(bits) for i in x[::-1]]
    return np.argsort(np.lexsort([0 * x[0], *keys]))
