"""A growth policy of ten lines, in C and in Python, through `pleat replay`, `fit`, `ab` and
`./dev cards`: both give the same figures, and a judge at the end compares them with pleat's own.

Usage: policy_run.py PLEAT INCLUDE_DIR BUILD_DIR"""
import csv
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[2]
SKIP = 77
WORKS = ("gpt2s_tiny", "churn:iterations=30,allocations=60,least=8M,most=400M,streams=2")
# Every granule alone, no slack, the highest place: as different from pleat's own as can be.
EXTREME = """
#include <pleat_policy.h>
uint64_t pleat_policy_order(const pleat_policy_view *now, uint64_t own) { (void)now; return own * 0; }
uint64_t pleat_policy_slack(const pleat_policy_view *now, uint64_t own) { (void)now; return own * 0; }
uint64_t pleat_policy_place(const pleat_policy_view *now, uint64_t own)
{
    return (UINT64_C(1) << 60) - now->at + own * 0;
}
"""
EXTREME_PY = """
def order(now, own):
    return 0


def slack(now, own):
    return 0


def place(now, own):
    return 2 ** 60 - now.at
"""
WILD = """
def order(now, own):
    return 10 ** 9


def slack(now, own):
    return 10 ** 30


def may_order(now, own):
    return -7.5 if own else float("inf")


def place(now, own):
    return now.at * 31 % 1009 + now.bytes % 7
"""
# Which place alone: the other rules are pleat's.
PLACE = "def place(now, own):\n    return 2 ** 60 - now.at\n"


def run(*words, status=(0,), **more):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False,
                          env={**os.environ, "PLEAT_CONF": "", **more})
    assert done.returncode in status, (words, done.returncode, done.stdout, done.stderr)
    return done


def compiled(folder, include, name, text):
    source = folder / f"{name}.c"
    source.write_text(text, encoding="utf-8")
    out = folder / f"{name}.so"
    run("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-I{include}", source,
        "-o", out)
    return out


def replayed(pleat, policy, *options):
    conf = ("--conf", f"policy:{policy}") if policy else ()
    done = run(pleat, "replay", *WORKS, "--driver", "sim", "--memory", "1.25x,unlimited", "--json",
               *conf, *options, status=(0, 1))
    keys = ("trace", "memory_bytes", "peak_reserved_bytes", "oom_count", "calls", "driver_ms")
    return [{key: row[key] for key in keys} for row in map(json.loads, done.stdout.splitlines())], \
        done.stderr


def check_replays(pleat, of):
    own, said = replayed(pleat, None)
    assert "judge" not in said
    rows = {}
    for name, policy in of.items():
        rows[name], said = replayed(pleat, policy)
        assert re.search(r"judge: the policy, and in parentheses pleat's own, in 4 runs\n"
                         r"  failing +\d+ \(\d+\)\n  held / live", said), said
    assert rows["example.so"] == rows["example.py"]
    assert rows["extreme.so"] == rows["extreme.py"] != own
    assert sum(row["calls"]["cuMemCreate"] for row in rows["extreme.so"]) > \
        2 * sum(row["calls"]["cuMemCreate"] for row in own)
    assert own != rows["place.py"]
    # Answers are bounded: large chunks, and never more than the device has.
    assert all(row["peak_reserved_bytes"] <= row["memory_bytes"] for row in rows["wild.py"])
    _, said = replayed(pleat, of["extreme.so"], "--allocator", "torch-native")
    assert "judge" not in said  # other allocators have no policy


def check_others(pleat, policy, folder):
    found = run(pleat, "fit", WORKS[0], "--driver", "sim", "--conf", f"policy:{policy}")
    assert re.search(r"judge: .* in 1 run\n(.*\n)*  least device / live +1\.\d+ \(1\.\d+\)",
                     found.stdout), found.stdout
    compared = run(pleat, "ab", WORKS[0], "--driver", "sim", "--no-report", "--out", folder / "ab",
                   "--allocator", "pleat,torch-native", "--memory", "1.25x,unlimited", "--conf",
                   f"policy:{policy}")
    assert "in 2 runs\n" in compared.stdout.partition("judge:")[2], compared.stdout


def check_cards(build, policy, folder):
    rows = folder / "rows.csv"
    told = run(sys.executable, "-B", ROOT / "bench" / "cards.py", build, "--runs", 0, "--sizes",
               "1.25x", "--costs", "a100", "--passes", 1, "--conf", f"policy:{policy}", "--out", rows, "--charts",
               folder / "charts")
    ways = {row["allocator"] for row in
            csv.DictReader(line for line in rows.open(encoding="utf-8") if line[0] != "#")}
    assert ways == {"pleat", "pleat, built-in policy", "torch-expandable"}, ways
    assert "| 1.25x, built-in policy | a100 |" in told.stdout, told.stdout
    assert f"| 1.25x, `policy:{policy.name}` | a100 |" in told.stdout, told.stdout
    assert "least device" not in told.stdout
    head = rows.read_text(encoding="utf-8").splitlines()[:3]
    assert head[2] == f"# command: ./dev cards --runs 0 --seed 1 --passes 1 --conf 'policy:{policy}'"
    for row in csv.DictReader(line for line in rows.open(encoding="utf-8") if line[0] != "#"):
        assert row["conf"] == (f"policy:{policy}" if row["allocator"] == "pleat" else ""), row
    chart = (folder / "charts" / "rows.csv").read_text(encoding="utf-8")
    assert "built-in policy" in chart and policy.name in chart, chart[:300]


def check_refusals(pleat, folder, include):
    def refused(policy):
        return run(pleat, "replay", WORKS[1], "--driver", "sim", "--conf", f"policy:{policy}",
                   status=(1, 2)).stderr
    empty = compiled(folder, include, "empty", "int nothing;\n")
    assert "defines none of pleat_policy_order, " in refused(empty)
    assert "/none.so: cannot open shared object file" in refused(folder / "none.so")
    assert "there is no such script" in refused(folder / "none.py")
    assert "a path with a slash" in refused("none.so")
    (folder / "broken.py").write_text("def order(now, own):\n    return now.nothing\n",
                                      encoding="utf-8")
    said = refused(folder / "broken.py")
    assert "has no attribute 'nothing'" in said and "the policy in Python: it ended" in said, said
    for text, wanted in (("def ordr(now, own):\n    return 0\n", "ordr is no rule: did you mean order?"),
                         ("def order(now, own):\n    return 0\ndef slak(now, own):\n    return 0\n",
                          "slak is no rule: did you mean slack?"),
                         ("order = None\n", "it defines none of order, slack, may_order, place"),
                         ("def order(now, own):\n    pass\n",
                          "order(now, own) returned None, no number")):
        (folder / "broken.py").write_text(text, encoding="utf-8")
        said = refused(folder / "broken.py")
        assert wanted in said, (wanted, said)


def main():
    pleat, include, build = sys.argv[1:]
    if not shutil.which("cc"):
        sys.exit(SKIP)
    with tempfile.TemporaryDirectory(prefix="pleat-policy-") as name:
        folder = pathlib.Path(name)
        (folder / "extreme.py").write_text(EXTREME_PY, encoding="utf-8")
        (folder / "wild.py").write_text(WILD, encoding="utf-8")
        (folder / "place.py").write_text(PLACE, encoding="utf-8")
        example = (ROOT / "examples" / "policy.c").read_text(encoding="utf-8")
        of = {"example.so": compiled(folder, include, "example", example),
              "example.py": ROOT / "examples" / "policy.py",
              "extreme.so": compiled(folder, include, "extreme", EXTREME),
              "extreme.py": folder / "extreme.py", "wild.py": folder / "wild.py",
              "place.py": folder / "place.py"}
        check_replays(pleat, of)
        check_others(pleat, of["extreme.py"], folder)
        check_cards(build, of["extreme.so"], folder)
        check_refusals(pleat, folder, include)
    print("policies in C and in Python are the same")


if __name__ == "__main__":
    main()
