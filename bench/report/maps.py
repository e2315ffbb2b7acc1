"""Maps of the addresses at one moment, all allocators after the same event: a picture an allocator, row by
row, in which a pixel is the same number of bytes for all of them."""
import base64
import dataclasses
import math
import struct
import zlib

import numpy
from matplotlib import colors

import look

WIDTH = 192          # cells in a row
MIDDLE_ROWS = 28     # of the allocator in the middle, at most,
MOST_ROWS = 140      # and of the largest
ROW_PIXELS = 5
LIVE, PENDING, FREE, HOLE = range(4)
KINDS = ("live", "pending", "free", "hole")
# Neither the darkest nor the lightest colour of the page, light or dark, is that of live memory; free
# memory is light in black and white, and strikes in colour.
LIVE_BY_STREAM = ["#2f6690", "#8a3b54", "#4f7a45", "#8a6b00", "#6a5aa0", "#00798c"]
PENDING_COLOUR = "#a9a9a9"
FREE_COLOUR = "#f7c95c"
HIDDEN = 0.005       # of the shown memory; less is idle chunks and rounding
LARGEST_HOLE = 0.02  # of the resident memory; longer ones are drawn this long


@dataclasses.dataclass
class Map:
    """One picture."""
    moment: dict
    rows: int
    picture: str  # a data URI

    @property
    def idle_bytes(self):
        # An allocator may round blocks to less than live bytes do.
        return max(self.moment["resident_bytes"] - self.moment["live_bytes"], 0)


def pieces_of(moment):
    """(base, bytes, kind, stream) of what the allocator showed, and at the end one free piece for
    what it holds but cannot show: a driver's own pool does not tell where its free memory is."""
    pieces = [piece[:4] for piece in moment["pieces"] if piece[1] > 0]
    shown = sum(p[1] for p in pieces if p[2] != HOLE)
    hidden = moment["resident_bytes"] - shown
    if hidden > shown * HIDDEN:
        pieces.append([0, hidden, FREE, -1])
    return pieces


def laid_out(pieces):
    """Pieces side by side: (start, end, kind, stream), long holes shortened."""
    resident = sum(p[1] for p in pieces if p[2] != HOLE) or 1
    longest = max(resident * LARGEST_HOLE, 1)
    at = 0.0
    out = []
    for _, size, kind, stream in pieces:
        shown = min(size, longest) if kind == HOLE else size
        out.append((at, at + shown, kind, stream))
        at += shown
    return out, at


def cells_of(placed, unit, n_cells):
    """How much of each cell is of which kind and, for live memory, its stream."""
    weight = numpy.zeros((n_cells, 4))
    stream = numpy.zeros(n_cells, dtype=int)
    for start, end, kind, owner in placed:
        first, last = start / unit, end / unit
        for cell in range(int(first), min(int(math.ceil(last)), n_cells)):
            weight[cell, kind] += min(last, cell + 1) - max(first, cell)
            if kind == LIVE:
                stream[cell] = max(owner, 0)
    return weight, stream


def colours_of(weight, stream):
    """Red, green, blue and opacity of each cell: through holes the paper is seen."""
    shares = weight / numpy.maximum(weight.sum(axis=1, keepdims=True), 1e-12)
    table = numpy.array([colors.to_rgb(c) for c in LIVE_BY_STREAM])
    parts = [table[stream % len(table)]] + [numpy.array(colors.to_rgb(c))
                                            for c in (PENDING_COLOUR, FREE_COLOUR)]
    opacity = shares[:, :HOLE].sum(axis=1, keepdims=True)
    mixed = sum(shares[:, [k]] * parts[k] for k in range(HOLE)) / numpy.maximum(opacity, 1e-12)
    return numpy.hstack([mixed, opacity])


def png_of(cells):
    """A picture, rows x columns x 4 from 0 to 1, as a data URI."""
    rows, columns, _ = cells.shape
    lines = numpy.round(cells * 255).astype(numpy.uint8).reshape(rows, columns * 4)
    raw = b"".join(b"\0" + line.tobytes() for line in lines)

    def chunk(kind, body):
        return (struct.pack(">I", len(body)) + kind + body
                + struct.pack(">I", zlib.crc32(kind + body)))
    head = struct.pack(">IIBBBBB", columns, rows, 8, 6, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(raw, 9)) + \
        chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


def cell_bytes(totals):
    """One scale for all maps of a figure, so that areas compare."""
    totals = sorted(totals)
    return max(totals[len(totals) // 2] / MIDDLE_ROWS, totals[-1] / MOST_ROWS) / WIDTH


def cells(moment, unit):
    """The picture: rows x columns x 4 from 0 to 1."""
    placed, total = laid_out(pieces_of(moment))
    n_cells = max(int(math.ceil(total / unit - 1e-9)), 1)
    rows = -(-n_cells // WIDTH)
    image = numpy.zeros((rows * WIDTH, 4))
    image[:n_cells] = colours_of(*cells_of(placed, unit, n_cells))
    return image.reshape(rows, WIDTH, 4)


def one_map(moment, unit):
    image = cells(moment, unit)
    return Map(moment, len(image), png_of(image))


def maps(moments):
    """A map an allocator, addresses row by row, all after the same event."""
    drawn = [m for m in moments if m["pieces"]]
    if not drawn:
        return []
    unit = cell_bytes([laid_out(pieces_of(m))[1] for m in drawn])
    return [one_map(m, unit) for m in drawn]


def save(moments, name):
    """The maps as files of their own, where charts are saved: a panel an allocator. The numbers are
    the pieces."""
    drawn = [m for m in moments if m["pieces"]]
    if not look.charts_folder or not drawn:
        return
    unit = cell_bytes([laid_out(pieces_of(m))[1] for m in drawn])
    figure, axes = look.plt.subplots(len(drawn), 1, squeeze=False)
    for axis, moment in zip(axes[:, 0], drawn):
        axis.imshow(cells(moment, unit), interpolation="nearest", aspect="auto")
        axis.set_title(moment["allocator"], loc="left")
        axis.set_xticks([])
        axis.set_yticks([])
    rows = [(moment["allocator"], KINDS[kind], base, size, stream)
            for moment in drawn for base, size, kind, stream in pieces_of(moment)]
    look.save_chart(figure, look.charts_folder, name,
                    [("allocator", "kind", "address", "bytes", "stream"), *rows])
    look.plt.close(figure)


def key_of(moments):
    """Colours and what they mean, for the line above the maps."""
    n_streams = max((p[3] for m in moments for p in m["pieces"]), default=0) + 1
    shown = min(n_streams, len(LIVE_BY_STREAM))
    labels = [f"live, stream {i}" for i in range(shown)] if shown > 1 else ["live"]
    return list(zip(LIVE_BY_STREAM, labels)) + [
        (PENDING_COLOUR, "pending: freed, not yet settled"), (FREE_COLOUR, "free"),
        ("transparent", "hole: addresses without memory")]
