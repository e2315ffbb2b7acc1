#!/usr/bin/env python3
"""The chart of README's first screen: the least device with which each trace completes.

Usage: least.py AB_CSV OUT_SVG   (results.py calls it; to draw the chart again)"""

from look import draw_file, plt, style_of, write_svg

WIDTH = 8.2    # inches
A_TRACE = 0.3
MARGINS = 1.1
SHOWN = ("pleat", "torch-expandable", "torch-native", "tf-bfc", "cuda-async")


def draw(rows, path):
    """`rows`: dictionaries as ab.csv has them, of all sizes; those without limit tell the least."""
    least = {(row["work"], row["allocator"]): float(row["least_ratio"]) for row in rows
             if row["memory"] == "unlimited" and row["least_ratio"]}
    works = list(dict.fromkeys(work for work, _ in least))
    figure, axis = plt.subplots(figsize=(WIDTH, A_TRACE * len(works) + MARGINS))
    for allocator in SHOWN:
        points = [(100 * (least[work, allocator] - 1), len(works) - 1 - i)
                  for i, work in enumerate(works) if (work, allocator) in least]
        style = style_of(allocator, SHOWN)
        is_pleat = allocator == "pleat"
        axis.plot(*zip(*points), linestyle="none", marker=style["marker"], color=style["color"],
                  markersize=8 if is_pleat else 6, zorder=3 if is_pleat else 2, label=allocator,
                  markerfacecolor=style["color"] if is_pleat else "white")
    axis.set_xlabel("memory that a device must have beyond what lives at the peak, in per cent")
    axis.set_xlim(left=-0.4)
    axis.set_yticks(range(len(works)), list(reversed(works)))
    axis.set_ylim(-0.6, len(works) - 0.4)
    figure.legend(loc="upper center", ncol=len(SHOWN), fontsize=8)
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.3 / figure.get_figheight()))
    write_svg(figure, path)


if __name__ == "__main__":
    draw_file(draw, __doc__)
