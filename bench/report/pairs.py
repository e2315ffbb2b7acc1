#!/usr/bin/env python3
"""The chart of `pleat bench pairs`: what a pair costs, by scenario and row.

Usage: pairs.py PAIRS_CSV OUT_SVG   (results.py calls it; to draw the chart again)"""

from look import draw_file, plt, style_of, write_svg

WIDTH = 8.2    # inches
A_ROW = 0.34   # of a scenario
MARGINS = 1.5


def time_of(row):
    """Wall time where several threads ran, else processor time: ns of a pair or of an event."""
    return float(row["wall_ns"] or row["ns"])


def label_of(scenario, rows):
    unit = next(row["unit"] for row in rows if row["scenario"] == scenario)
    return f"{scenario} (an event)" if unit == "event" else scenario


def draw(rows, path):
    """`rows`: dictionaries as pairs.csv has them."""
    scenarios = list(dict.fromkeys(row["scenario"] for row in rows))
    throughs = list(dict.fromkeys(row["through"] for row in rows))
    figure, axis = plt.subplots(figsize=(WIDTH, A_ROW * len(scenarios) + MARGINS))
    for through in throughs:
        style = style_of(through, throughs)
        points = [(time_of(row), len(scenarios) - 1 - scenarios.index(row["scenario"]))
                  for row in rows if row["through"] == through]
        is_pleat = through == "pleat"
        axis.plot(*zip(*points), linestyle="none", marker=style["marker"], color=style["color"],
                  markersize=7 if is_pleat else 5, zorder=3 if is_pleat else 2, label=through,
                  markerfacecolor=style["color"] if is_pleat else "white")
    axis.set_xscale("log")
    axis.set_xlabel("ns a pair; of threads: wall time")
    axis.xaxis.set_major_formatter("{x:g}")
    axis.set_yticks(range(len(scenarios)), [label_of(s, rows) for s in reversed(scenarios)])
    axis.set_ylim(-0.6, len(scenarios) - 0.4)
    figure.legend(loc="upper center", ncol=min(len(throughs), 5), fontsize=8)
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.55 / figure.get_figheight()))
    write_svg(figure, path)


if __name__ == "__main__":
    draw_file(draw, __doc__)
