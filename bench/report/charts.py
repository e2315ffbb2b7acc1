"""The charts of one work: timelines, the ladder of capacities, the drift of long runs. Maps of
addresses: maps.py."""
import matplotlib.pyplot as plt
import numpy

from data import completes, is_measured, of_size, resident_ratio
from look import ACCENT, FAINT, INK, style_of, svg_of

PANEL = (3.6, 1.9)  # inches
PAGE = 10.8
LIVE_EDGE = "#767676"
MOST_SHOWN = 2.5    # times the peak of live bytes; curves above this leave the panel
LONG_RUN = 100      # iterations


def timelines(study, work, memory, name):
    """Live and resident memory over the run: (allocator, its chart) one by one; y is times peak live, the
    same scale for all."""
    drawn = [(a, study.timelines.get((work, a, memory))) for a in study.allocators]
    drawn = [(a, t) for a, t in drawn if t and t["buckets"]["event"]]
    tops = [max(t["buckets"]["resident"]) / t["peak_live_bytes"] for _, t in drawn]
    top = 1.06 * max([1.0] + [t for t in tops if t <= MOST_SHOWN])
    return [(a, svg_of(one_timeline(t, top), f"{name}-{i}",
                       f"{work}: live and resident memory over time under {a}{of_size(memory)}"))
            for i, (a, t) in enumerate(drawn)]


def x_axis(timeline):
    """The beginning of each bucket and the end of the last one, and the name of the axis."""
    events = numpy.array(timeline["buckets"]["event"] + [timeline["n_events"]], dtype=float)
    if timeline.get("n_iterations", 0) >= 2:
        # A bucket is a stretch of events; iterations are spread evenly over them.
        return events / timeline["n_events"] * timeline["n_iterations"], "iteration"
    return events / 1000, "thousands of events"


def closed(values):
    return numpy.array(values + values[-1:])


def one_timeline(timeline, top):
    figure, axis = plt.subplots(figsize=PANEL)
    buckets = timeline["buckets"]
    peak = timeline["peak_live_bytes"]
    x, x_name = x_axis(timeline)
    # The last bucket ends with the run: without its end its step has no width.
    live = closed(buckets["live"]) / peak
    resident = closed(buckets["resident"]) / peak
    axis.fill_between(x, live, color=FAINT, linewidth=0, step="post")
    axis.step(x, live, where="post", color=LIVE_EDGE, linewidth=0.7, label="live")
    axis.axhline(live.max(), color=LIVE_EDGE, linewidth=0.7, linestyle=(0, (1, 2)))
    axis.plot((x[live.argmax()] + x[live.argmax() + 1]) / 2, live.max(), "v", color=INK, markersize=5,
              markerfacecolor="white", zorder=4)
    axis.step(x, resident, where="post", color=INK, linewidth=1.1, label="resident")
    if (resident > top).any():
        # The curve left the panel: draw a dashed line along the edge for that time.
        axis.step(x, numpy.where(resident > top, top * 0.985, numpy.nan), where="post", color=INK,
                  linewidth=1.6, linestyle=(0, (4, 2)))
    failures = closed(buckets["failures"]) > 0
    failures[-1] = False
    if failures.any():
        axis.plot(x[failures], numpy.full(failures.sum(), top * 0.95), "x", color=ACCENT,
                  markersize=4)
    axis.set_ylim(0, top)
    axis.set_ylabel("x peak live", fontsize=8)
    axis.set_xlabel(x_name, fontsize=8)
    figure.tight_layout()
    return figure


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
    figure, axis = plt.subplots(figsize=(PAGE * 0.72, 0.3 * len(allocators) + 1.0))
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
            axis.plot(fit, row, "|", color=INK, label="the least", markersize=14, markeredgewidth=2)
        needs = study.cell(work, allocator, "unlimited")
        if completes(needs):
            axis.annotate(f"holds {resident_ratio(needs):.3f} x without limit", (1.01, row),
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
        axis.plot(x, row, "o", color=INK, markersize=6, label="completes")
        return
    axis.plot(x, row, "x", color=ACCENT, label=f"fails {cell['oom_count']} times", markersize=6, markeredgewidth=1.5)
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
    figure, axes = plt.subplots(1, n_axes, figsize=(PAGE, 2.9))
    for allocator, timeline in drawn:
        one_drift(axes, style_of(allocator, study.allocators), allocator, timeline)
    for axis, title in zip(axes, ("resident / peak live", "device operations / 1,000 events",
                                  "own ns / event")):
        axis.set_title(title, loc="left", fontsize=9)
        axis.set_xlabel("iteration")
    axes[0].set_ylim(bottom=0)
    axes[1].set_yscale("symlog", linthresh=0.1)
    axes[1].yaxis.set_major_formatter("{x:g}")  # a power in TeX would be shown as its source
    axes[1].set_ylim(bottom=0)
    if is_timed:
        axes[2].set_yscale("log")
        axes[2].yaxis.set_major_formatter("{x:g}")
        axes[2].yaxis.set_minor_formatter("")
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
    figure, axis = plt.subplots(figsize=(PAGE * 0.78,
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
