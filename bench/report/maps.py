"""Maps of the addresses at one moment, all allocators after the same event."""
import math

import matplotlib.pyplot as plt
import numpy
from matplotlib import colors

from charts import panels
from data import sized
from look import INK, svg_of

WIDTH = 192          # cells in a row
MOST_ROWS = 28
LIVE, PENDING, FREE, HOLE = range(4)
KINDS = ["live", "freed, not yet settled", "free", "hole: addresses without memory"]
LIVE_BY_STREAM = ["#22303c", "#2f6690", "#5b2333", "#4f7a45", "#6b5600", "#5a4a8a"]
PENDING_COLOUR = "#a9a9a9"
FREE_COLOUR = "#f7c95c"  # light in black and white, striking in colour
HOLE_COLOUR = "#ffffff"
HIDDEN = 0.005       # of the shown memory; less is idle chunks and rounding
LARGEST_HOLE = 0.02  # of the resident memory; longer ones are drawn this long


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


def cells_of(pieces, n_cells):
    """The kind that holds most of each cell and, for live memory, its stream."""
    placed, total = laid_out(pieces)
    weight = numpy.zeros((n_cells, 4))
    stream = numpy.zeros(n_cells, dtype=int)
    for start, end, kind, owner in placed:
        first, last = start / total * n_cells, end / total * n_cells
        low, high = int(first), min(int(math.ceil(last)), n_cells)
        for cell in range(low, high):
            weight[cell, kind] += min(last, cell + 1) - max(first, cell)
            if kind == LIVE:
                stream[cell] = max(owner, 0)
    return weight, stream


def colours_of(weight, stream):
    shares = weight / numpy.maximum(weight.sum(axis=1, keepdims=True), 1e-12)
    table = [numpy.array(colors.to_rgb(c)) for c in LIVE_BY_STREAM]
    live = numpy.array([table[s % len(table)] for s in stream])
    parts = [live] + [numpy.array(colors.to_rgb(c))
                      for c in (PENDING_COLOUR, FREE_COLOUR, HOLE_COLOUR)]
    return sum(shares[:, [k]] * parts[k] for k in range(4))


def maps(moments, name):
    """One map per allocator, addresses row by row, all after the same event."""
    drawn = [m for m in moments if m["pieces"]]
    if not drawn:
        return None
    unit = cell_bytes(drawn)
    figure, axes = panels(len(drawn), height=1.75)
    for axis, moment in zip(axes, drawn):
        one_map(axis, moment, unit)
    n_streams = max((p[3] for m in drawn for p in m["pieces"]), default=0) + 1
    figure.legend(handles=map_legend(n_streams), loc="upper right", ncol=4, fontsize=8)
    figure.tight_layout(rect=(0, 0, 1, 0.93))
    return svg_of(figure, name, f"{drawn[0]['work']}: what the addresses of each of {len(drawn)} "
                  f"allocators hold after event {drawn[0]['event'] + 1:,}")


def cell_bytes(drawn):
    """One scale for all maps of a work, so that areas compare; but a giant shrinks the others to a
    third of the rows at most."""
    totals = sorted(laid_out(pieces_of(m))[1] for m in drawn)
    middle = totals[len(totals) // 2]
    return max(totals[-1] / 3, middle) / (WIDTH * MOST_ROWS) if totals[-1] > 3 * middle \
        else totals[-1] / (WIDTH * MOST_ROWS)


def title_of(moment):
    """The figures above a map."""
    # An allocator may round blocks to less than live bytes do.
    idle = max(moment["resident_bytes"] - moment["live_bytes"], 0)
    text = f"{sized(moment['resident_bytes'])} held, {sized(idle)} idle"
    return text + ("; refused" if moment["has_failed"] else "")


def one_map(axis, moment, unit):
    pieces = pieces_of(moment)
    _, total = laid_out(pieces)
    wanted = max(int(math.ceil(total / unit)), 1)
    n_cells = min(wanted, WIDTH * MOST_ROWS)
    weight, stream = cells_of(pieces, n_cells)
    image = numpy.full((MOST_ROWS * WIDTH, 3), 0.965)
    image[:n_cells] = colours_of(weight, stream)
    axis.imshow(image.reshape(MOST_ROWS, WIDTH, 3), aspect="auto", interpolation="nearest")
    axis.set_xticks([])
    axis.set_yticks([])
    axis.grid(False)
    text = title_of(moment) + (" (smaller scale)" if n_cells < wanted else "")
    axis.set_title(f"{moment['allocator']} · {text}", loc="left", fontsize=8.5,
                   fontweight="bold" if moment["allocator"] == "pleat" else "normal")


def map_legend(n_streams):
    shown = min(n_streams, len(LIVE_BY_STREAM))
    labels = [f"live, stream {i}" for i in range(shown)] if shown > 1 else ["live"]
    patches = list(zip(LIVE_BY_STREAM, labels))
    patches += list(zip((PENDING_COLOUR, FREE_COLOUR, HOLE_COLOUR), KINDS[1:]))
    return [plt.Rectangle((0, 0), 1, 1, facecolor=c, edgecolor=INK, linewidth=0.4, label=label)
            for c, label in patches]
