"""How the charts look: readable in black and white, pleat in front, the others distinguished by
dashes and markers before colour."""
import csv
import io
import pathlib
import re
import sys

import matplotlib
import matplotlib.ticker

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402  pylint: disable=wrong-import-position

INK = "#1a1a1a"
FAINT = "#b9b9b9"
ACCENT = "#b3261e"  # darker than the mid greys in black and white

STYLES = [
    {"color": "#1b6ca8", "linestyle": (0, (6, 2)), "marker": "s"},
    {"color": "#b3261e", "linestyle": (0, (2, 1.5)), "marker": "^"},
    {"color": "#4b7f52", "linestyle": (0, (8, 2, 2, 2)), "marker": "D"},
    {"color": "#8a5a00", "linestyle": (0, (1, 1)), "marker": "v"},
    {"color": "#6a4c93", "linestyle": (0, (4, 1, 1, 1, 1, 1)), "marker": "P"},
    {"color": "#5f5f5f", "linestyle": (0, (10, 3)), "marker": "X"},
    {"color": "#00798c", "linestyle": (0, (3, 3)), "marker": "<"},
    {"color": "#a23b72", "linestyle": (0, (5, 1)), "marker": ">"},
    {"color": "#3d405b", "linestyle": (0, (2, 3)), "marker": "p"},
    {"color": "#c2571a", "linestyle": (0, (7, 1, 1, 1)), "marker": "*"},
    {"color": "#2f2f9e", "linestyle": (0, (3, 1)), "marker": "d"},
    {"color": "#6b7a00", "linestyle": (0, (9, 1, 3, 1)), "marker": "h"},
]
FIRST = {"color": INK, "linestyle": "-", "marker": "o"}

plt.rcParams.update({
    "svg.fonttype": "none",
    "text.parse_math": False,  # a work may be named a$b$
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Helvetica", "Arial", "sans-serif"],
    "font.size": 9,
    "axes.edgecolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.frameon": False,
    "hatch.linewidth": 0.5,
})


def style_of(allocator, allocators):
    """Line and marker of an allocator, the same in every chart of a report."""
    others = [name for name in allocators if name != "pleat"]
    if allocator == "pleat":
        return FIRST
    turn, place = divmod(others.index(allocator), len(STYLES))
    # More names than styles: the markers come again in other colours.
    return {**STYLES[place], "color": STYLES[(place + turn) % len(STYLES)]["color"]}


NUMBER = re.compile(r"-?[0-9]+\.[0-9]+")
PIXELS = 1.42  # per point, so that the widest charts fill the page


def shorten(number):
    return f"{float(number.group()):.1f}"


# Where charts go as files of their own, too; None = nowhere.
charts_folder = None


def panel_name(axis):
    return axis.get_title(loc="left") or axis.get_title() or \
        " by ".join(filter(None, (axis.get_ylabel(), axis.get_xlabel())))


def drawn_rows(figure):
    """What the chart shows, as (panel, series, x, y): points of lines, and marks."""
    for axis in figure.axes:
        names = {}  # of rows, where the axis has names instead of numbers
        if isinstance(axis.yaxis.get_major_locator(), matplotlib.ticker.FixedLocator):
            names = dict(zip(axis.get_yticks(), (t.get_text() for t in axis.get_yticklabels())))
        for number, line in enumerate(axis.get_lines()):
            if line.get_transform() != axis.transData:
                continue  # a line across the whole panel
            label = line.get_label()
            series = label if not label.startswith("_") else f"series {number + 1}"
            for x, y in zip(line.get_xdata(), line.get_ydata()):
                yield panel_name(axis), series, x, names.get(y) or y


def save_chart(figure, folder, name, rows=None):
    """NAME.svg, NAME.pdf and NAME.csv, the drawn numbers. The same figures give the same files."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    plt.rcParams["svg.hashsalt"] = name
    for kind, metadata in (("svg", {"Date": None}), ("pdf", {"CreationDate": None})):
        figure.savefig(folder / f"{name}.{kind}", format=kind, bbox_inches="tight",
                       metadata=metadata, facecolor="white")
    with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows(rows or [("panel", "series", "x", "y"), *drawn_rows(figure)])


def svg_of(figure, name, label):
    """The figure as an element for a page, with unique ids, a name and a text for those who cannot
    see it."""
    if charts_folder:
        save_chart(figure, charts_folder, name)
    out = io.StringIO()
    plt.rcParams["svg.hashsalt"] = name
    figure.savefig(out, format="svg", bbox_inches="tight", metadata={"Date": None}, transparent=True)
    plt.close(figure)
    text = out.getvalue()
    text = text[text.index("<svg"):]
    # A precision of a tenth of a pixel is enough and halves the page's size.
    text = re.sub(r'\bd="[^"]+"', lambda d: NUMBER.sub(shorten, d.group()), text)
    # Ids of figures must not collide in one page, nor their references.
    text = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', text)
    text = re.sub(r'(xlink:href="#|url\(#)', rf'\g<1>{name}-', text)
    width = float(re.search(r'width="([0-9.]+)pt"', text).group(1))
    text = re.sub(r' (width|height)="[0-9.]+pt"', "", text, count=2)
    safe = label.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    return text.replace("<svg", f'<svg class="chart" data-chart="{name}" role="img" '
                        f'aria-label="{safe}" style="max-width:{width * PIXELS:.0f}px"', 1)


def write_svg(figure, path):
    """The figure as a file of its own; the same figures give the same file. A folder gets the chart
    as SVG and PDF, with its numbers."""
    if pathlib.Path(path).is_dir():
        save_chart(figure, path, pathlib.Path(sys.argv[1]).stem)
        plt.close(figure)
        return
    plt.rcParams["svg.hashsalt"] = pathlib.Path(path).stem
    figure.savefig(path, format="svg", bbox_inches="tight", metadata={"Date": None},
                   facecolor="white")
    plt.close(figure)


def draw_file(draw, usage):
    """A chart's command line: draw(rows, OUT_SVG), with the rows of a file of bench/results. OUT may
    be a folder."""
    if len(sys.argv) != 3:
        sys.exit(usage)
    text = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
    draw(list(csv.DictReader(line for line in text if not line.startswith("#"))), sys.argv[2])
