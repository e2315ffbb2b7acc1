#!/usr/bin/env python3
"""Two charts of what `./dev cards` has measured: memory held and driver time, card by card.

Usage: by_card.py CARDS_CSV OUT_SVG   (cards.py calls it; to draw the charts again)"""
import math

from look import draw_file, plt, style_of, write_svg

SHOWN = ("pleat", "torch-expandable")
SIZES = ("24G", "40G", "80G", "141G", "unlimited", "1.25x", "1.05x", "1.02x")
SIZE = (8.2, 3.2)  # inches


def mean(values):
    return math.fsum(values) / len(values)


def values(rows, key, allocator, size):
    return [float(row[key]) for row in rows if row["allocator"] == allocator and
            row["memory"] == size and row["costs"] == "a100"]


def draw(rows, path):
    """`rows`: dictionaries as cards.csv has them; those of costs:a100 are drawn."""
    sizes = [size for size in SIZES if values(rows, "resident", SHOWN[0], size)]
    figure, (memory, driver) = plt.subplots(1, 2, figsize=SIZE)
    for allocator in SHOWN:
        style = style_of(allocator, SHOWN)
        look = {"color": style["color"], "marker": style["marker"]}
        held = [values(rows, "resident", allocator, size) for size in sizes]
        memory.plot(sizes, [100 * (mean(some) - 1) for some in held], label=allocator, **look)
        memory.plot(sizes, [100 * (max(some) - 1) for some in held], linestyle=":", **look)
        driver.plot(sizes, [mean(values(rows, "driver_ms", allocator, size)) for size in sizes],
                    label=allocator, **look)
    memory.set_title("held beyond what lives, %: mean, and worst (dotted)", fontsize=8)
    driver.set_title("driver time of the first pass, ms a work", fontsize=8)
    for axis in (memory, driver):
        axis.set_ylim(bottom=0)
        axis.tick_params(labelsize=7)
    figure.legend(*memory.get_legend_handles_labels(), loc="upper center", ncol=2, fontsize=8)
    figure.tight_layout(rect=(0, 0, 1, 0.92))
    write_svg(figure, path)


if __name__ == "__main__":
    draw_file(draw, __doc__)
