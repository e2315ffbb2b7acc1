"""The report of an A/B run is one page that needs no other file, shows its charts, and no figure that
its rows do not have (report_figures.py).

Usage: report_page.py PLEAT

Runs `pleat ab` on a small work and a long one and checks the page as text. If a Chromium is
installed, opens the page there and checks the size of each chart."""
import html.parser
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).parents[2] / "bench" / "report"))
import report_figures  # noqa: E402  pylint: disable=wrong-import-position

# In the last one pleat fails on the small device, and completes there with short:compact.
WORKS = ("gpt2s_tiny", "churn:iterations=400,allocations=40",
         "churn:iterations=20,allocations=400,least=23488102,most=46976204,keep=0.2")
ALLOCATORS = ("pleat", "torch-native")
MEMORIES = ("1.02x", "unlimited")
PANELS = ("timeline", "timeline-tight", "map-peak", "map-failure")  # one an allocator
PAGES = ("closer.html", "blocks.html")  # beside the report
SKIP = 77
LEAST_PIXELS = 100

MEASURE = """<script>
const charts = [...document.querySelectorAll('[data-chart]')].map(chart => {
  const box = chart.getBoundingClientRect(), map = chart.querySelector('img.map');
  return [chart.dataset.chart, Math.round(box.width), Math.round(box.height),
          map ? map.naturalWidth : chart.querySelectorAll('path').length];
});
const out = document.createElement('pre');
out.id = 'measured';
out.textContent = JSON.stringify(charts);
document.body.appendChild(out);
</script>"""


class Page(html.parser.HTMLParser):
    """Collects the tags that load something from outside, and the charts."""

    def __init__(self):
        super().__init__()
        self.outside = []
        self.charts = []
        self.ids = []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        if tag in ("script", "link", "iframe", "object", "embed"):
            self.outside.append(tag)
        for name in ("src", "href", "xlink:href"):
            value = values.get(name) or ""
            if value and not value.startswith(("#", "data:")) and value not in PAGES:
                self.outside.append(f"{tag} {name}={value}")
        if "data-chart" in values:
            self.charts.append(values["data-chart"])
        if "id" in values:
            self.ids.append(values["id"])


def expected_charts():
    charts = {"overview"} | {f"ladder-{i}" for i in range(len(WORKS))}
    charts |= {f"{kind}-{i}-{k}" for i in range(len(WORKS)) for kind in PANELS
               for k in range(len(ALLOCATORS))}
    return charts | {"drift-1"}  # only the second work is long


def draw(pleat, folder, *options):
    command = [pleat, "ab", *options, *WORKS, "--allocator", ",".join(ALLOCATORS), "--driver", "sim",
               "--memory", ",".join(MEMORIES), "--out", str(folder)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        print(f"pleat ab: exit status {result.returncode}\n{result.stderr}")
        # Without the drawing libraries there is nothing to test.
        sys.exit(SKIP if result.returncode == 1 and "install python3-matplotlib" in result.stderr
                 else 1)
    assert result.stdout.endswith(f"written: {folder}/report.html\n"), result.stdout[-200:]
    return (folder / "report.html").read_text(encoding="utf-8")


def check_text(text):
    page = Page()
    page.feed(text)
    # `pleat ab` replaces only pages with this mark.
    assert '<meta name="generator" content="pleat ab">' in text[:4095]
    assert not page.outside, f"the page reaches outside: {page.outside}"
    assert set(page.charts) == expected_charts(), sorted(page.charts)
    doubled = {i for i in page.ids if page.ids.count(i) > 1} if len(page.ids) < 5000 else \
        len(page.ids) - len(set(page.ids))
    assert not doubled, f"ids occur twice: {doubled}"
    for name in ALLOCATORS + ("pleat short:compact", "simulated GPU", "gpt2s_tiny"):
        assert name in text, f"{name} is not on the page"


def check_headings(text):
    """docs/benchmarks.md walks through the page by its headings, in their order."""
    docs = (pathlib.Path(__file__).parents[2] / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    walk = docs.partition("**3. Read the page**")[2].partition("\n`blocks.html`")[0]
    named = re.findall(r"^\* \*([^*]+)\*", walk, re.MULTILINE)
    found = [re.sub(r"<[^>]*>", "", heading) for heading in re.findall(r"<h[23]>(.*?)</h[23]>", text)]
    rest = iter(found)
    in_order = all(any(heading.startswith(name) for heading in rest) for name in named)
    assert len(named) >= 6 and in_order, (named, found)


def check_charts(charts, folder):
    """--charts: each one as SVG and PDF, with its numbers. All maps of a moment are one chart."""
    names = {re.sub(r"^(map-\w+-\d+)-\d+$", r"\1", name) for name in charts}
    assert {path.stem for path in folder.iterdir()} == names, names
    for name in names:
        assert (folder / f"{name}.svg").read_text(encoding="utf-8").rstrip().endswith("</svg>"), name
        assert (folder / f"{name}.pdf").read_bytes().startswith(b"%PDF"), name
        rows = (folder / f"{name}.csv").read_text(encoding="utf-8").splitlines()
        assert len(rows) > 2 and len({row.count(",") for row in rows}) <= 2, (name, rows[:3])
    ladder = (folder / "ladder-0.csv").read_text(encoding="utf-8")
    assert re.search(r",completes,1\.0\d+,pleat\n", ladder), ladder


def check_closer(page):
    """Where there is one: a way back, and pleat's line above all others."""
    if not page.exists():
        print("no Bokeh here: no page to look closer")
        return
    body = page.read_text(encoding="utf-8").rpartition("<body>")[2]
    assert '<a href="report.html">' in body, "no way back"
    legends = re.findall(r'"label":\{"type":"value","value":"([^"]+)"\}', body)
    assert legends and legends[0] == "pleat" and legends[-1] == "live", legends  # drawn from the end


def check_browser(browser, text, folder):
    page = folder / "measured.html"
    page.write_text(text.replace("</body>", MEASURE + "</body>"), encoding="utf-8")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1240,2000",
               f"--user-data-dir={folder / 'profile'}", "--dump-dom", page.as_uri()]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r'<pre id="measured">(.*?)</pre>', result.stdout, re.DOTALL)
    assert found, f"the browser did not run the page:\n{result.stderr[-2000:]}"
    charts = json.loads(found.group(1))
    assert {c[0] for c in charts} == expected_charts(), charts
    for name, width, height, shapes in charts:
        assert width >= LEAST_PIXELS and height >= LEAST_PIXELS, f"{name}: {width} x {height}"
        assert shapes > 5, f"{name} is empty"
    print(f"{browser}: {len(charts)} charts, all of them visible")


def main():
    with tempfile.TemporaryDirectory(prefix="pleat-report-") as name:
        folder = pathlib.Path(name)
        text = draw(sys.argv[1], folder / "out", "--charts")
        check_charts(expected_charts(), folder / "out" / "charts")
        check_text(text)
        check_headings(text)
        assert "mathdefault" not in text, "a label shows the source of its formula"
        check_closer(folder / "out" / "closer.html")
        n_figures = report_figures.check(text, folder / "out")
        assert n_figures > 100, n_figures
        assert "own ns" not in text, "a time that nobody measured"
        timed = draw(sys.argv[1], folder / "timed", "--time", "2")
        check_text(timed)
        report_figures.check(timed, folder / "timed")
        n_spreads = len(re.findall(r">[\d,]+ to [\d,]+</span>", timed))
        assert n_spreads == (len(WORKS) * len(ALLOCATORS) + 1) * len(MEMORIES), n_spreads
        print(f"report.html: {len(text) // 1024} KiB, {len(expected_charts())} charts, "
              f"{n_figures} figures")
        browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser",
                                                       "google-chrome"))), None)
        if browser:
            check_browser(browser, text, folder)
        else:
            print("no Chromium here: the page was not opened")


if __name__ == "__main__":
    main()
