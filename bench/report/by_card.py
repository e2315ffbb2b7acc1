#!/usr/bin/env python3
"""Three charts of what `./dev cards` has measured: memory held and driver time, card by card, and
how many works fail near what lives.

Usage: by_card.py CARDS_CSV OUT_SVG   (cards.py calls it; to draw the charts again)"""
import math

from look import draw_file, plt, style_of, write_svg

SHOWN = ("pleat", "torch-expandable")
BUILT_IN = "pleat, built-in policy"  # only beside a policy of the user's own
WAYS = (*SHOWN, "pleat, short:compact", BUILT_IN)  # short:compact near what lives only
TIGHT = ("1.25x", "1.05x", "1.02x", "1.01x", "1.005x")
SIZES = ("24G", "40G", "80G", "141G", "unlimited", *TIGHT)
SIZE = (10.2, 3.2)  # inches


def mean(values):
    return math.fsum(values) / len(values)


def values(rows, key, allocator, size):
    return [float(row[key]) for row in rows if row["allocator"] == allocator and
            row["memory"] == size and row["costs"] == "a100"]


def name_of(rows, allocator):
    """With the configuration that was given."""
    conf = next((row.get("conf", "") for row in rows if row["allocator"] == allocator), "")
    return f"{allocator}, {conf}" if conf and allocator == SHOWN[0] else allocator


def completed(rows):
    """Without the works of a device that one of the two does not complete."""
    failed = {(row["work"], row["memory"]) for row in rows
              if row["allocator"] in (*SHOWN, BUILT_IN) and row["failures"] != "0"}
    return [row for row in rows if (row["work"], row["memory"]) not in failed]


def draw(rows, path):
    """`rows`: dictionaries as cards.csv has them; those of costs:a100 are drawn."""
    sizes = [size for size in SIZES if values(rows, "resident", SHOWN[0], size)]
    timed = completed(rows)
    figure, (memory, driver, failing) = plt.subplots(1, 3, figsize=SIZE)
    for allocator in WAYS:
        style = style_of(allocator, WAYS)
        look = {"color": style["color"], "marker": style["marker"]}
        failed = {size: values(rows, "failures", allocator, size) for size in TIGHT}
        tight = [size for size in TIGHT if failed[size]]
        if not any(row["allocator"] == allocator for row in rows):
            continue
        failing.plot(tight, [sum(n > 0 for n in failed[size]) for size in tight],
                     label=name_of(rows, allocator), **look)
        if allocator not in (*SHOWN, BUILT_IN):
            continue
        held = [values(rows, "resident", allocator, size) for size in sizes]
        memory.plot(sizes, [100 * (mean(some) - 1) for some in held], label=f"{name_of(rows, allocator)}, mean",
                    **look)
        memory.plot(sizes, [100 * (max(some) - 1) for some in held], linestyle=":",
                    label=f"{name_of(rows, allocator)}, worst", **look)
        driver.plot(sizes, [mean(values(timed, "driver_ms", allocator, size)) / 1000
                            for size in sizes], label=name_of(rows, allocator), **look)
    memory.set_title("held beyond what lives, %: mean, and worst (dotted)", fontsize=8)
    driver.set_title("driver time of the first pass, s a work", fontsize=8)
    failing.set_title("works that fail", fontsize=8)
    for axis in (memory, driver, failing):
        axis.set_ylim(bottom=0)
        axis.tick_params(axis="y", labelsize=7)
        axis.tick_params(axis="x", labelsize=6, rotation=40)
    figure.legend(*failing.get_legend_handles_labels(), loc="upper center", ncol=3, fontsize=8)
    figure.tight_layout(rect=(0, 0, 1, 0.92))
    write_svg(figure, path)


if __name__ == "__main__":
    draw_file(draw, __doc__)
