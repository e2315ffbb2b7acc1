"""The page of all blocks over time holds each block of a snapshot with its stack. It is one file, needs no
network, and takes less than 5 MB for 100,000 blocks.

Usage: report_blocks.py PLEAT

Takes the page's arrays apart again and compares them with what the snapshot was made of. If a Chromium is
installed, opens the page there, compares what the page itself computed, and prints how long that took."""
import base64
import json
import pathlib
import pickle
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time

N_BLOCKS, N_SITES, DEPTH = 100_000, 600, 24
MOST_BYTES, MOST_BLOCKS, UNIT = 5_000_000, 120_000, 512
SKIP = 77
KINDS = {"u1": "B", "u2": "H", "u4": "I", "f8": "d"}


class Run:
    """A run of its own making: blocks with sizes, streams and stacks, and when they are freed."""

    def __init__(self, n_blocks):
        draw = random.Random(36)
        common = [{"name": f"layer_{i}", "filename": f"model/part_{i % 9}.py", "line": 10 + i}
                  for i in range(60)]
        self.stacks = [[{"name": f"<forward {i}> & more", "filename": f"model/block_{i}.py", "line": i}]
                       + draw.choices(common, k=DEPTH) for i in range(N_SITES)]
        self.blocks, self.events, live, at = [], [], [], 1 << 40
        while len(self.blocks) < n_blocks:
            if live and draw.random() < 0.48:
                block = live.pop(draw.randrange(max(0, len(live) - 40), len(live)))
                self.events.append(block)
            else:
                size = draw.randrange(1, 40) * draw.choice((100, 4096, 1 << 20))
                self.blocks.append((at, size, draw.randrange(N_SITES)))
                at += -(-size // UNIT) * UNIT
                live.append(len(self.blocks) - 1)
                self.events.append(live[-1])
        self.events += reversed(live)

    def write(self, path):
        born, trace = set(), []
        for i in self.events:
            at, size, site = self.blocks[i]
            entry = {"addr": at, "size": size, "stream": 0, "frames": self.stacks[site]}
            for action in ("free_requested", "free_completed") if i in born else ("alloc",):
                trace.append(entry | {"action": action})
            born.add(i)
        path.write_bytes(pickle.dumps({"segments": [], "device_traces": [trace]}))

    def peak(self):
        live = most = 0
        born = set()
        for i in self.events:
            rounded = -(-self.blocks[i][1] // UNIT) * UNIT
            live += -rounded if i in born else rounded
            born.add(i)
            most = max(most, live)
        return most


def draw_page(pleat, work, folder):
    command = [pleat, "ab", str(work), "--allocator", "pleat", "--memory", "unlimited", "--loops", "1",
               "--driver", "sim", "--out", str(folder)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode == 1 and "install python3-matplotlib" in result.stderr:
        sys.exit(SKIP)
    assert result.returncode == 0, result.stderr
    page = folder / "blocks.html"
    assert page.stat().st_size < MOST_BYTES, page.stat().st_size
    return page


def held_by(page):
    """The works' arrays; and that nothing is loaded from elsewhere."""
    text = page.read_text(encoding="utf-8")
    assert '<meta name="generator" content="pleat ab">' in text[:4095]
    script = re.search(r'<script type="application/json" id="held">(.*?)</script>', text, re.DOTALL)[1]
    outside = re.findall(r'(?:src|href)=["\']?([^"\' >]+)', text.replace(script, ""))
    assert set(outside) == {"report.html"}, outside
    for word in ("fetch(", "XMLHttpRequest", "import(", "http://", "https://", "@import", "url("):
        assert word not in text.replace(script, ""), word
    return [{key: unpacked(value) for key, value in work.items()} for work in json.loads(script)]


def unpacked(value):
    if not isinstance(value, dict):
        return value
    raw = base64.b64decode(value["of"], validate=True)
    kind = KINDS[value["type"]]
    return struct.unpack(f"<{len(raw) // struct.calcsize(kind)}{kind}", raw)


def stack_of(work, block):
    frames, node = [], work["node"][work["stack"][block]]
    while node:
        frames.append(work["frames"][work["frame"][node]])
        node = work["caller"][node]
    return frames


def check_whole(page, run):
    """Every block, its events and its stack are there."""
    (work,) = held_by(page)
    assert work["n_blocks"] == len(run.blocks) and work["n_other"] == 0 and work["steps"] is None
    assert list(work["of"]) == run.events
    assert "a longer run may need more" in work["recorded"], work["recorded"]  # it has no steps
    assert list(work["bytes"]) == [size for _, size, _ in run.blocks]
    known = {}
    for i, (_, _, site) in enumerate(run.blocks):
        known.setdefault(site, i)
        assert work["stack"][i] == work["stack"][known[site]], i
    for site, block in known.items():
        wanted = [f"{f['filename']}:{f['line']} {f['name']}" for f in run.stacks[site]]
        found = stack_of(work, block)
        assert found == wanted, (found[:2], wanted[:2])
        assert work["sites"][work["site"][work["stack"][block]] - 1] == wanted[0]


def peak_of(work):
    live, most, peak, born = 0, 0, 0, set()
    for e, i in enumerate(work["of"]):
        rounded = -(-work["bytes"][i] // UNIT) * UNIT
        live += -rounded if i in born else rounded
        born.add(i)
        all_live = live + (work["other"][e] * UNIT if work["other"] else 0)
        most, peak = max((most, peak), (all_live, e), key=lambda pair: pair[0])
    return most, sum(work["steps"][:peak + 1]) if work["steps"] else peak


def check_many(pleat, folder):
    """Of more blocks than a page holds the largest are there, and the peak is right all the same."""
    page = draw_page(pleat, "churn:iterations=800,allocations=400,least=1K,most=8M,keep=0.1", folder)
    (work,) = held_by(page)
    need = json.loads((folder / "verdicts.jsonl").read_text(encoding="utf-8"))["need_bytes"]
    assert work["n_other"] > 0 and work["n_blocks"] == len(work["bytes"]) == MOST_BLOCKS, work["n_blocks"]
    assert peak_of(work)[0] == need, (peak_of(work), need)
    return page


# Draws parts of the run. Of some pixels it writes the entry, the bytes below them and the block.
SAMPLE = '''<script>
const out = [];
for (const [from, width, low, high] of PARTS) {
  const top = work.live[work.peak];
  Object.assign(view, { t0: from * work.n_events, t1: (from + width) * work.n_events, b0: low * top, b1: high * top });
  sweep(work, size.columns, size.rows);
  const shown = choose(work, size.columns);
  for (let i = 0; i < 60; i++) {
    const x = i * 7919 % size.columns, y = i * 104729 % size.rows;
    out.push([shown[x], view.b0 + (size.rows - y - 0.5) / size.rows * (view.b1 - view.b0), ids[y * size.columns + x]]);
  }
}
document.body.appendChild(Object.assign(document.createElement('pre'), { id: 'sampled', textContent: JSON.stringify(out) }));
</script>'''
PARTS = [[0, 1, 0, 1], [0.3, 0.002, 0, 1], [0.6, 0.01, 0.2, 0.4], [0.7, 0.2, 0, 0.05]]
NOBODY, OTHER = -1, -2


def check_pixels(work, sampled):
    """Stacks the live blocks once more, the oldest lowest, at each entry that a pixel shows."""
    live, done = {}, 0
    for entry, at, found in sorted(sampled):
        for block in work["of"][done:entry + 1]:
            if live.pop(block, None) is None:
                live[block] = -(-work["bytes"][block] // UNIT) * UNIT
        done = max(done, entry + 1)
        top, wanted = work["other"][entry] * UNIT if work["other"] else 0, NOBODY
        if at < top:
            wanted = OTHER
        for block, size in live.items() if wanted == NOBODY else ():
            top += size
            if at < top:
                wanted = block
                break
        assert found == wanted or abs(top - at) < 1e-6 * top, (entry, at, found, wanted)
    assert len({found for _, _, found in sampled}) > 40


def load(browser, page, folder):
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1280,900",
               f"--user-data-dir={folder / 'profile'}", "--dump-dom", page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def open_page(browser, page, folder):
    start = time.monotonic()
    result = load(browser, page, folder)
    seconds = time.monotonic() - start
    told = dict(re.findall(r'data-([a-z-]+)="([\d.]+)"', re.search("<html[^>]*>", result.stdout)[0]))
    assert "drawn" in told, f"the page drew nothing:\n{result.stderr[-2000:]}"
    (work,) = held_by(page)
    most, event = peak_of(work)
    assert (int(told["blocks"]), int(told["peak"]), int(told["peak-event"])) == \
        (work["n_blocks"], most, event), told
    assert 0.1 < int(told["lit"]) / int(told["pixels"]) < 1, told
    asked = page.with_name("asked.html")
    script = SAMPLE.replace("PARTS", json.dumps(PARTS))
    asked.write_text(page.read_text(encoding="utf-8").replace("</body>", script + "</body>"), encoding="utf-8")
    sampled = re.search('<pre id="sampled">(.*?)</pre>', load(browser, asked, folder).stdout)[1]
    check_pixels(work, json.loads(sampled))
    print(f"{page.parent.name}: {page.stat().st_size / 1e6:.2f} MB, {work['n_blocks']:,} blocks; drawn "
          f"{int(told['drawn'])} ms after it was opened, {seconds:.1f} s with the browser's start and end")


def main():
    with tempfile.TemporaryDirectory(prefix="pleat-blocks-") as name:
        folder = pathlib.Path(name)
        run = Run(N_BLOCKS)
        run.write(folder / "big.pickle")
        page = draw_page(sys.argv[1], folder / "big.pickle", folder / "whole")
        check_whole(page, run)
        assert peak_of(held_by(page)[0])[0] == run.peak()
        many = check_many(sys.argv[1], folder / "many")
        print(f"blocks.html: {page.stat().st_size:,} bytes for {N_BLOCKS:,} blocks, {N_SITES} stacks; "
              f"{many.stat().st_size:,} for the most that it holds")
        browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser",
                                                       "google-chrome"))), None)
        for one in (page, many) if browser else ():
            open_page(browser, one, folder)
        if not browser:
            print("no Chromium here: the page was not opened")


if __name__ == "__main__":
    main()
