"""The charts of one work: timelines, maps, the ladder of capacities, the drift of long runs."""
import math

import matplotlib.pyplot as plt
import numpy
from matplotlib import colors
from matplotlib.lines import Line2D

from data import GIB, completes, is_measured, resident_ratio
from look import ACCENT, FAINT, INK, style_of, svg_of

COLUMNS = 3
PANEL = (3.6, 1.9)  # inches
MOST_SHOWN = 2.5    # times the peak of live bytes; curves above this leave the panel
LONG_RUN = 100      # iterations


def panels(n, height=PANEL[1], **options):
    n_rows = math.ceil(n / COLUMNS)
    figure, axes = plt.subplots(n_rows, COLUMNS, squeeze=False,
                                figsize=(PANEL[0] * COLUMNS, height * n_rows + 0.5), **options)
    flat = list(axes.flat)
    for spare in flat[n:]:
        spare.set_visible(False)
    return figure, flat[:n]


def timelines(study, work, memory, name):
    """Live and resident memory over the run, one panel per allocator; y is times peak live."""
    drawn = [(a, study.timelines.get((work, a, memory))) for a in study.allocators]
    drawn = [(a, t) for a, t in drawn if t and t["buckets"]["event"]]
    if not drawn:
        return None
    figure, axes = panels(len(drawn), sharex=True, sharey=True)
    tops = [max(t["buckets"]["resident"]) / t["peak_live_bytes"] for _, t in drawn]
    top = 1.06 * max([1.0] + [t for t in tops if t <= MOST_SHOWN])
    for axis, (allocator, timeline) in zip(axes, drawn):
        one_timeline(axis, allocator, timeline, top)
    axes[0].set_ylim(0, top)
    for axis in axes[::COLUMNS]:
        axis.set_ylabel("x peak live", fontsize=8)
    for axis in axes[-COLUMNS:]:
        axis.set_xlabel(x_axis(drawn[0][1])[1], fontsize=8)
        axis.tick_params(labelbottom=True)
    handles = [Line2D([], [], color=INK, linewidth=1.3, label="resident"),
               Line2D([], [], color=INK, linewidth=1.6, linestyle=(0, (4, 2)),
                      label="resident, above the panel"),
               plt.Rectangle((0, 0), 1, 1, color=FAINT, label="live"),
               Line2D([], [], color=ACCENT, linestyle="none", marker="x", label="failures")]
    figure.legend(handles=handles, loc="upper right", ncol=4)
    figure.tight_layout(rect=(0, 0, 1, 0.95))
    return svg_of(figure, name, f"{work}: live and resident memory over time on a device of "
                  f"{memory} size, for each of {len(drawn)} allocators")


def x_axis(timeline):
    """The beginning of each bucket, and the name of the axis."""
    events = numpy.array(timeline["buckets"]["event"], dtype=float)
    if timeline.get("n_iterations", 0) >= 2:
        # A bucket is a stretch of events; iterations are spread evenly over them.
        return events / timeline["n_events"] * timeline["n_iterations"], "iteration"
    return events / 1000, "thousands of events"


def one_timeline(axis, allocator, timeline, top):
    buckets = timeline["buckets"]
    peak = timeline["peak_live_bytes"]
    x, _ = x_axis(timeline)
    live = numpy.array(buckets["live"]) / peak
    resident = numpy.array(buckets["resident"]) / peak
    axis.fill_between(x, live, color=FAINT, linewidth=0, step="post")
    axis.step(x, resident, where="post", color=INK, linewidth=1.1)
    if (resident > top).any():
        # The curve left the panel: draw a dashed line along the edge for that time.
        axis.step(x, numpy.where(resident > top, top * 0.985, numpy.nan), where="post", color=INK,
                  linewidth=1.6, linestyle=(0, (4, 2)))
    failures = numpy.array(buckets["failures"]) > 0
    if failures.any():
        axis.plot(x[failures], numpy.full(failures.sum(), top * 0.95), "x", color=ACCENT,
                  markersize=4)
    text = f"{resident.max():.3f} x"
    if failures.any():
        text += f", {sum(buckets['failures']):,} failed"
    axis.set_title(f"{allocator} · {text}", loc="left", fontsize=9,
                   fontweight="bold" if allocator == "pleat" else "normal")


# ---- the map -----------------------------------------------------------------------------------

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


def pieces_of(worst):
    """The pieces that the allocator showed, and at the end one free piece for what it holds but
    cannot show: a driver's own pool does not tell where its free memory is."""
    pieces = [piece for piece in worst["pieces"] if piece[1] > 0]
    shown = sum(p[1] for p in pieces if p[2] != HOLE)
    hidden = worst["resident_bytes"] - shown
    if hidden > shown * HIDDEN:
        pieces.append([0, hidden, FREE, -1, 1])
    return pieces


def laid_out(pieces):
    """Pieces side by side: (start, end, kind, stream), long holes shortened."""
    resident = sum(p[1] for p in pieces if p[2] != HOLE) or 1
    longest = max(resident * LARGEST_HOLE, 1)
    at = 0.0
    out = []
    for _, size, kind, stream, _ in pieces:
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
    return weight, stream, total


def colours_of(weight, stream):
    shares = weight / numpy.maximum(weight.sum(axis=1, keepdims=True), 1e-12)
    table = [numpy.array(colors.to_rgb(c)) for c in LIVE_BY_STREAM]
    live = numpy.array([table[s % len(table)] for s in stream])
    parts = [live] + [numpy.array(colors.to_rgb(c))
                      for c in (PENDING_COLOUR, FREE_COLOUR, HOLE_COLOUR)]
    return sum(shares[:, [k]] * parts[k] for k in range(4))


def maps(study, work, memory, name):
    """Who holds what at the worst moment: one map per allocator, addresses row by row."""
    drawn = [(a, study.timelines.get((work, a, memory))) for a in study.allocators]
    drawn = [(a, t) for a, t in drawn if t and (t.get("worst") or {}).get("pieces")]
    if not drawn:
        return None
    unit = cell_bytes(drawn)
    figure, axes = panels(len(drawn), height=1.75)
    for axis, (allocator, timeline) in zip(axes, drawn):
        one_map(axis, allocator, timeline, unit)
    n_streams = max((p[3] for _, t in drawn for p in t["worst"]["pieces"]), default=0) + 1
    figure.legend(handles=map_legend(n_streams), loc="upper right", ncol=4, fontsize=8)
    figure.tight_layout(rect=(0, 0, 1, 0.93))
    return svg_of(figure, name, f"{work}: what the addresses of each of {len(drawn)} allocators "
                  f"hold at the worst moment on a device of {memory}")


def cell_bytes(drawn):
    """One scale for all maps of a work, so that areas compare; but a giant shrinks the others to a
    third of the rows at most."""
    totals = sorted(laid_out(pieces_of(t["worst"]))[1] for _, t in drawn)
    middle = totals[len(totals) // 2]
    return max(totals[-1] / 3, middle) / (WIDTH * MOST_ROWS) if totals[-1] > 3 * middle \
        else totals[-1] / (WIDTH * MOST_ROWS)


def one_map(axis, allocator, timeline, unit):
    worst = timeline["worst"]
    pieces = pieces_of(worst)
    _, total = laid_out(pieces)
    wanted = max(int(math.ceil(total / unit)), 1)
    n_cells = min(wanted, WIDTH * MOST_ROWS)
    weight, stream, _ = cells_of(pieces, n_cells)
    rows = MOST_ROWS
    image = numpy.full((rows * WIDTH, 3), 0.965)
    image[:n_cells] = colours_of(weight, stream)
    axis.imshow(image.reshape(rows, WIDTH, 3), aspect="auto", interpolation="nearest")
    axis.set_xticks([])
    axis.set_yticks([])
    axis.grid(False)
    idle = worst["resident_bytes"] - sum(p[1] for p in pieces if p[2] == LIVE)
    text = f"{worst['resident_bytes'] / GIB:.2f} GiB, {idle / GIB:.2f} idle"
    if worst["why"] == "failure":
        text += f"; {worst['requested_bytes'] / GIB:.2f} refused"
    if n_cells < wanted:
        text += " (smaller scale)"
    axis.set_title(f"{allocator} · {text}", loc="left", fontsize=9,
                   fontweight="bold" if allocator == "pleat" else "normal")


def map_legend(n_streams):
    shown = min(n_streams, len(LIVE_BY_STREAM))
    labels = [f"live, stream {i}" for i in range(shown)] if shown > 1 else ["live"]
    patches = list(zip(LIVE_BY_STREAM, labels))
    patches += list(zip((PENDING_COLOUR, FREE_COLOUR, HOLE_COLOUR), KINDS[1:]))
    return [plt.Rectangle((0, 0), 1, 1, facecolor=c, edgecolor=INK, linewidth=0.4, label=label)
            for c, label in patches]


# ---- the ladder --------------------------------------------------------------------------------

def device_ratio(cell):
    return cell["memory_bytes"] / cell["peak_live_bytes"]


def ladder(study, work, name):
    """The device sizes on which each allocator completes; and the least size, if it was
    searched."""
    sizes = [m for m in study.memories if m != "unlimited"]
    if not sizes:
        return None
    allocators = list(reversed(study.allocators))
    figure, axis = plt.subplots(figsize=(PANEL[0] * COLUMNS * 0.72, 0.3 * len(allocators) + 1.0))
    seen = []
    for row, allocator in enumerate(allocators):
        for memory in sizes:
            cell = study.cell(work, allocator, memory)
            if not is_measured(cell):
                continue
            seen.append(device_ratio(cell))
            rung(axis, row, cell)
        fit = next((c["ratio"] for c in study.cells_of(trace=work, allocator=allocator)
                    if c.get("ratio")), None)
        if fit:
            seen.append(fit)
            axis.plot(fit, row, "|", color=INK, markersize=14, markeredgewidth=2)
        needs = study.cell(work, allocator, "unlimited")
        if completes(needs):
            axis.annotate(f"takes {resident_ratio(needs):.3f} x if it can", (1.01, row),
                          xycoords=("axes fraction", "data"), va="center", fontsize=8)
    if not seen:
        plt.close(figure)
        return None
    axis.set_yticks(range(len(allocators)), allocators)
    axis.set_ylim(-0.6, len(allocators) - 0.4)
    span = max(seen) - min(1.0, min(seen)) or 0.1
    axis.set_xlim(min(1.0, min(seen)) - 0.04 * span, max(seen) + 0.1 * span)
    axis.axvline(1.0, color=FAINT, linewidth=1)
    axis.set_xlabel("device memory / peak live  (● completes · × fails so often · | the least that completes)")
    figure.tight_layout()
    return svg_of(figure, name, f"{work}: the device sizes on which each allocator completes")


def rung(axis, row, cell):
    x = device_ratio(cell)
    if completes(cell):
        axis.plot(x, row, "o", color=INK, markersize=6)
        return
    axis.plot(x, row, "x", color=ACCENT, markersize=6, markeredgewidth=1.5)
    axis.annotate(f"{cell['oom_count']:,}", (x, row), xytext=(6, 0), textcoords="offset points",
                  va="center", fontsize=7.5, color=ACCENT)


# ---- the drift ---------------------------------------------------------------------------------

def drift(study, work, memory, name):
    """The effect of a long run on each allocator: residency, device operations and, where it was timed, host
    time."""
    drawn = [(a, study.timelines.get((work, a, memory))) for a in study.allocators]
    drawn = [(a, t) for a, t in drawn if t and t.get("n_iterations", 0) >= LONG_RUN]
    if not drawn:
        return None
    is_timed = all("host_ns" in timeline["buckets"] for _, timeline in drawn)
    n_axes = 3 if is_timed else 2
    figure, axes = plt.subplots(1, n_axes, figsize=(PANEL[0] * COLUMNS, 2.9))
    for allocator, timeline in drawn:
        one_drift(axes, style_of(allocator, study.allocators), allocator, timeline)
    for axis, title in zip(axes, ("resident / peak live", "device operations / 1,000 events",
                                  "own ns / event")):
        axis.set_title(title, loc="left", fontsize=9)
        axis.set_xlabel("iteration")
    axes[0].set_ylim(bottom=0)
    axes[1].set_yscale("symlog", linthresh=0.1)
    axes[1].set_ylim(bottom=0)
    if is_timed:
        axes[2].set_yscale("log")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="upper center",
                  ncol=min(len(drawn), 5), handlelength=3.4, fontsize=8)
    figure.tight_layout(rect=(0, 0, 1, 0.86 if len(drawn) > 5 else 0.92))
    return svg_of(figure, name, f"{work}: drift over {drawn[0][1]['n_iterations']:,} iterations")


def one_drift(axes, style, allocator, timeline):
    buckets = {k: numpy.array(v, dtype=float) for k, v in timeline["buckets"].items()}
    groups = numpy.array_split(numpy.arange(len(buckets["event"])), min(60, len(buckets["event"])))
    ends = numpy.append(buckets["event"][1:], timeline["n_events"])
    events = numpy.maximum(ends - buckets["event"], 1)
    x = [timeline["n_iterations"] * g[0] / len(buckets["event"]) for g in groups]
    series = [
        [buckets["resident"][g].max() / timeline["peak_live_bytes"] for g in groups],
        [1000 * buckets["ops"][g].sum() / events[g].sum() for g in groups],
    ]
    if "host_ns" in buckets:
        series.append([buckets["host_ns"][g].sum() / events[g].sum() for g in groups])
    for axis, y in zip(axes, series):
        axis.plot(x, y, color=style["color"], linestyle=style["linestyle"],
                  marker=style["marker"], markersize=4, markevery=max(len(x) // 6, 1),
                  linewidth=1.8 if allocator == "pleat" else 1.1, label=allocator)


# ---- all works ---------------------------------------------------------------------------------

def overview(study, memory, name):
    """Resident over live at their peaks, for every work and allocator: the study in one picture."""
    figure, axis = plt.subplots(figsize=(PANEL[0] * COLUMNS * 0.78,
                                         0.42 * len(study.works) + 1.4))
    works = list(reversed(study.works))
    for allocator in study.allocators:
        style = style_of(allocator, study.allocators)
        points = [(resident_ratio(c), row) for row, work in enumerate(works)
                  for c in [study.cell(work, allocator, memory)] if completes(c)]
        if points:
            axis.plot(*zip(*points), linestyle="none", marker=style["marker"],
                      color=style["color"], label=allocator,
                      markersize=8 if allocator == "pleat" else 6,
                      markerfacecolor=style["color"] if allocator == "pleat" else "white",
                      zorder=3 if allocator == "pleat" else 2)
    if not axis.has_data():
        plt.close(figure)
        return None
    axis.set_xscale("log")
    axis.axvline(1.0, color=FAINT, linewidth=1)
    largest = axis.get_xlim()[1]
    ticks = (1, 1.1, 1.25, 1.5, 2, 3) if largest < 4 else (1, 1.5, 2, 3, 5, 10, 20, 50, 100)
    ticks = [t for t in ticks if t <= largest * 1.05]
    axis.set_xticks(ticks, [f"{t:g}" for t in ticks])
    axis.minorticks_off()
    axis.set_yticks(range(len(works)), [w if len(w) < 34 else w[:32] + "…" for w in works])
    axis.set_xlabel("peak resident / peak live")
    axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.tight_layout()
    return svg_of(figure, name, "peak resident over peak live memory for every work and allocator")
