"""The page to look closer: maps of addresses that can be zoomed into, with a block's story on a
click. Bokeh draws it and is carried inside the page. Without Bokeh there is no such page.

Usage: closer.py FOLDER   (report.py calls it; to draw the page alone)"""
import json
import pathlib
import sys

import data
import look

try:
    from bokeh import embed, layouts, models, plotting, resources
except ImportError:
    plotting = None

KINDS = ["live", "pending: freed, not yet settled", "free", "hole"]
COLOURS = ["#2f6690", "#a9a9a9", "#f7c95c", "#f2f2f2"]
HOLE_IN_THE_DARK = "#2a2b2e"
KEY = " &nbsp;".join(f'<span style="background:var(--{kind.split(":")[0]}, {colour}); border:1px solid '
                     f'#888">&emsp;</span> {kind}' for colour, kind in zip(COLOURS, KINDS))
LIVE_LINE = "#8a8a8a"
MOST_DRAWN = 6000  # pieces of one map; smaller ones beyond are left out and said so
HEAD = f'''<meta name="generator" content="pleat ab">
<meta name="viewport" content="width=device-width">
<style>
body {{ background: #fff; color: #1a1a1a; font-family: system-ui, "DejaVu Sans", sans-serif; }}
nav {{ padding: 10px 6px; }}
a {{ color: inherit; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --hole: {HOLE_IN_THE_DARK}; }}
  body {{ background: #1d1e20; color: #e8e6e1; }}
}}
</style>'''
BACK = '<nav><a href="report.html">← the report</a></nav>'
# Bokeh's own parts know no colour scheme: in the dark, those of the plots are changed once they stand.
DARK = '''<script>
if (matchMedia('(prefers-color-scheme: dark)').matches) {
  const ink = '#e8e6e1', soft = '#a5a29b', paper = '#1d1e20';
  const of = { Figure: { background_fill_color: paper, border_fill_color: paper, outline_line_color: '#3b3b3b' },
    Title: { text_color: ink }, Grid: { grid_line_color: '#3b3b3b' },
    LinearAxis: { axis_label_text_color: soft, major_label_text_color: soft, axis_line_color: soft,
                  major_tick_line_color: soft, minor_tick_line_color: soft },
    Legend: { background_fill_color: paper, border_line_color: '#3b3b3b', label_text_color: ink },
    Step: { line_color: colour => DARKER[colour] || colour }, Quad: { line_color: paper },
    ColumnDataSource: { data: data => data.colour ? { ...data, colour: [...data.colour].map(
      colour => DARKER[colour] || colour) } : data } };
  const change = () => {
    const documents = window.Bokeh ? Bokeh.documents : [];
    if (documents.length === 0) { setTimeout(change, 20); return; }
    for (const model of documents[0].all_models) {
      for (const [name, value] of Object.entries(of[model.type] || {})) {
        const old = model[name] && model[name].value !== undefined ? model[name].value : model[name];
        model[name] = typeof value === 'function' ? value(old) : value;
      }
    }
  };
  change();
}
</script>'''
DARKER = {look.INK: "#e8e6e1", COLOURS[3]: HOLE_IN_THE_DARK, LIVE_LINE: "#a0a0a0", "#1b6ca8": "#5aa9e0",
          "#b3261e": "#ff8a80", "#4b7f52": "#7fc98a", "#8a5a00": "#d9a441", "#6a4c93": "#b49be0",
          "#5f5f5f": "#b0b0b0", "#00798c": "#4cc3d6", "#a23b72": "#e58fbc", "#3d405b": "#a3a8d0"}


def rows_of(moment):
    """The columns of one map: pieces along one line of addresses, in MiB, holes shortened."""
    held = sum(p[1] for p in moment["pieces"] if p[2] != 3) or 1
    pieces, at = [], 0.0
    for base, size, kind, stream, is_first, born, stack in moment["pieces"]:
        width = min(size, held / 50) if kind == 3 else size
        pieces.append((at, width, base, size, kind, stream, is_first, born, stack))
        at += width
    smallest = sorted((p[1] for p in pieces), reverse=True)[:MOST_DRAWN][-1]
    kept = [p for p in pieces if p[1] >= smallest][:MOST_DRAWN]
    mib = 1 << 20
    return {
        "left": [p[0] / mib for p in kept],
        "right": [(p[0] + p[1]) / mib for p in kept],
        "colour": [COLOURS[p[4]] for p in kept],
        "what": [KINDS[p[4]] for p in kept],
        "address": [f"{p[2] / mib:,.1f} MiB" for p in kept],
        "size": [data.sized(p[3]) for p in kept],
        "stream": [str(p[5]) if p[5] >= 0 else "none" for p in kept],
        "born": [f"event {p[7]:,}" if p[7] else "" for p in kept],
        "stack": [str(p[8]) if p[8] is not None else "" for p in kept],
    }, len(pieces) - len(kept), at / mib


SHOW = """
const i = source.selected.indices[0];
if (i === undefined) { return; }
const d = source.data;
const clean = text => text.replace(/[&<>]/g, c => ({'&': '&amp;', '<': '&lt;', '>': '&gt;'}[c]));
story.text = '<b>' + clean(name) + ': ' + d.what[i] + ', ' + d.size[i] + '</b> at ' + d.address[i] +
  ', stream ' + d.stream[i] + (d.born[i] ? ', allocated by ' + d.born[i] : '') +
  '<pre>' + clean(stacks[d.stack[i]] || (d.what[i] === 'live' ? 'no stack was recorded' : '')) + '</pre>';
"""


def one_map(moment, ranges, story, stacks):
    columns, n_left_out, _ = rows_of(moment)
    source = models.ColumnDataSource(columns)
    left_out = f"; {n_left_out:,} of the smallest pieces are not drawn" if n_left_out else ""
    plot = plotting.figure(
        height=110, sizing_mode="stretch_width", x_range=ranges, y_range=(0, 1),
        tools="xpan,xwheel_zoom,xbox_zoom,reset,tap,save", active_scroll="xwheel_zoom",
        active_drag="xbox_zoom", output_backend="webgl", toolbar_location=None,
        title=f"{moment['allocator']}: {data.sized(moment['resident_bytes'])} held, "
              f"{data.sized(moment['live_bytes'])} live{left_out}")
    blocks = plot.quad(left="left", right="right", bottom=0, top=1, fill_color="colour",
                       line_color="#ffffff", line_width=0.3, line_alpha=0.5, source=source,
                       nonselection_fill_alpha=0.75)
    plot.add_tools(models.HoverTool(renderers=[blocks], tooltips=[
        ("what", "@what"), ("size", "@size"), ("address", "@address"), ("stream", "@stream"),
        ("allocated by", "@born")]))
    source.selected.js_on_change("indices", models.CustomJS(
        args={"source": source, "story": story, "name": moment["allocator"], "stacks": stacks},
        code=SHOW))
    plot.yaxis.visible = False
    plot.ygrid.visible = False
    plot.xaxis.formatter = models.NumeralTickFormatter(format="0,0")
    plot.title.text_font_size = "12px"
    return plot


def step(plot, timeline, key, *, label, colour, dash, width):
    """One line over the events; the last bucket lasts until the end."""
    buckets = timeline["buckets"]
    x = buckets["event"] + [timeline["n_events"]]
    y = [v / data.GIB for v in buckets[key] + buckets[key][-1:]]
    plot.step(x, y, mode="after", color=colour, line_dash=dash, legend_label=label,
              line_width=width)


def one_timeline(study, work):
    """Live and resident memory of all allocators in one plot; a click on the legend hides one."""
    memory = "unlimited" if "unlimited" in study.memories else study.memories[-1]
    drawn = [(a, study.timelines.get((work, a, memory))) for a in study.allocators]
    drawn = [(a, t) for a, t in drawn if t and t["buckets"]["event"]]
    if not drawn:
        return None
    plot = plotting.figure(height=420, sizing_mode="stretch_width", tools="pan,wheel_zoom,box_zoom,"
                           "reset,save", title=f"{work}: memory over time, {memory}, in GiB")
    step(plot, drawn[0][1], "live", label="live", colour=LIVE_LINE, dash="solid", width=1)
    # pleat above the others and thinner, so that equal lines show below it.
    for allocator, timeline in sorted(drawn, key=lambda one: one[0] == "pleat"):
        style = look.style_of(allocator, study.allocators)
        dash = "solid" if allocator == "pleat" else [round(2 * n) for n in style["linestyle"][1]]
        step(plot, timeline, "resident", label=allocator, colour=style["color"], dash=dash,
             width=1.5 if allocator == "pleat" else 3)
    plot.add_tools(models.HoverTool(tooltips=[("event", "$x{0,0}"), ("GiB", "$y{0.00}")]))
    plot.legend.click_policy = "hide"
    plot.legend.items = plot.legend.items[::-1]
    plot.legend.ncols = 3
    plot.legend.label_text_font_size = "11px"
    plot.add_layout(plot.legend[0], "below")
    plot.toolbar.logo = None
    plot.xaxis.axis_label = "events"
    plot.xaxis.formatter = models.NumeralTickFormatter(format="0,0")
    plot.y_range.start = 0
    return plot


def parts_of(study, work):
    """The plots of one work."""
    parts = [one_timeline(study, work)]
    for kind in ("snapshot", "failure", "peak"):
        moments = [m for m in study.moments_of(work, kind) if m["pieces"]]
        if not moments:
            continue
        first = moments[0]
        what = {"failure": f"Event {first['event'] + 1:,}: {first['of']} fails",
                "peak": f"Event {first['event'] + 1:,}: the peak of live bytes",
                "snapshot": "The moment of the snapshot, as it was recorded"}[kind]
        parts.append(models.Div(text=f"{what}. Drag to zoom, "
                                "wheel to zoom in and out, click on a block. Along each map: MiB "
                                f"from its first address. {KEY}", sizing_mode="stretch_width"))
        widest = max(rows_of(m)[2] for m in moments)
        ranges = models.Range1d(0, widest, bounds=(0, widest))
        story = models.Div(text="<i>Click on a block.</i>", sizing_mode="stretch_width")
        stacks = {key: text for m in moments for key, text in m["stacks"].items()}
        parts += [story] + [one_map(m, ranges, story, stacks) for m in moments]
    return [part for part in parts if part]


def page(study):
    """The page as a text; None without Bokeh, or when there is nothing to show."""
    if plotting is None:
        return None
    tabs = []
    for work in study.works:
        parts = parts_of(study, work)
        if parts:
            tabs.append(models.TabPanel(
                child=layouts.column(*parts, sizing_mode="stretch_width"), title=work))
    if not tabs:
        return None
    body = tabs[0].child if len(tabs) == 1 else models.Tabs(tabs=tabs, sizing_mode="stretch_width")
    text = embed.file_html(body, resources.INLINE, title="pleat ab: a closer look")
    dark = DARK.replace("<script>", f"<script>\nconst DARKER = {json.dumps(DARKER)};", 1)
    # Bokeh's program, which comes before the body, holds such tags in strings.
    before, _, rest = text.rpartition("<body>")
    inside, _, after = rest.rpartition("</body>")
    return before.replace("<head>", f"<head>\n{HEAD}", 1) + \
        f"<body>\n{BACK}{inside}{dark}\n</body>{after}"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if plotting is None:
        sys.exit("closer.py needs the Python library bokeh (PyPI)")
    folder = pathlib.Path(sys.argv[1])
    text = page(data.read_study(folder))
    if text is None:
        sys.exit(f"{folder}: no moments.jsonl with moments in it")
    (folder / "closer.html").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
