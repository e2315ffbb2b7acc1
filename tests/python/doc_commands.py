"""Runs every command line of `pleat` and `pleat-runtime` in README, docs, the other READMEs and the
manual pages (which are --help). So their options and words are known to the present command.

The command is run as written, in a folder with the pages' files, but shortened. SHORTER adds
options, or replaces a large work by a small one. ELSEWHERE lists the commands that cannot run here,
each with a test that runs it.

Usage: doc_commands.py PLEAT PLEAT_RUNTIME"""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[2]
PAGES = ["README.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").glob("*.md")),
         "bench/README.md", "examples/README.md"]
# A line of C ends with ";", and what a command says begins with "pleat check:".
COMMAND = re.compile(r"^ {4}(?:build/)?(pleat(?:-runtime)? +(?![a-z]+:)[a-z\-].*[^;])$")
IN_HELP = re.compile(r"^ {2}(pleat +[a-z].*)$")
SMALL = "gpt2s_tiny"
QUICK = "churn:iterations=3,allocations=20"

# What stands for a file, an option's value or a work.
WORDS = {"WORK": QUICK, "WORK...": QUICK, "[WORK...]": QUICK, "SNAPSHOT...": "snapshot.pickle",
         "OUT": "out.trace", "llama8b_fsdp16_var": SMALL, "snapshot.pickle:device=1":
         "snapshot.pickle:device=0", "rank*.pickle": "rank0.pickle rank1.pickle", "0/4": "0/1", "PID": "it.prom",
         "/var/lib/node_exporter/pleat.4242.prom": "it.prom"}
# Without limits these would run for minutes. The last of an option given twice counts.
SHORTER = [
    (r"^pleat bench pairs", "hot --no-callgrind --runs 1"),
    (r"^pleat bench pairs(?!.*--host)", "--through pleat"),
    (r"^pleat bench resident", "--no-callgrind --pairs 1000 --blocks 1024"),
    (r"^pleat bench sleep", "--bytes 32M --rounds 1"),
    (r"^pleat bench tail", "--rounds 1 --blocks 1000"),
    (r"^pleat bench driver(?!.*pickle)", QUICK),
    (r"^pleat probe .*memory:host", "--seconds 1 --sim backing:memory"),
    (r"^pleat ab(?!.*--merge)", "--allocator pleat,torch-native --loops 1"),
]
SIZES = [(r"iterations=\d+", "iterations=2"), (r"layers=32", "layers=1"),
         (r"--passes 5", "--passes 2")]
ELSEWHERE = {
    r"^pleat top .*4242$": "tests/bench/top_test.c",
    r"^pleat-runtime .*--check": "python/tests/check_test.py",
    r"^pleat .*--conf policy:": "tests/python/policy_run.py",
    r"^pleat-runtime .*torchrun": "python/tests/distributed_test.py",
    r"^pleat-runtime .*(-m pleat\.torch|--fit|--allocator pleat)": "tests/python/torch_on_sim",
    r"^pleat-runtime .*examples/(numba_arrays|pytorch_training)\.py": "the tests of examples",
}


def commands_of(text, pattern):
    """What follows a hash between blanks is not part of a command."""
    for line in text.splitlines():
        found = pattern.match(line)
        if found:
            yield re.sub(r"\s+#\s.*$", "", found.group(1)).strip()


def all_commands(pleat):
    """(where, command), each command once."""
    seen = {}
    for page in PAGES:
        for command in commands_of((ROOT / page).read_text(encoding="utf-8"), COMMAND):
            seen.setdefault(command, page)
    usage = subprocess.run([pleat, "--help"], capture_output=True, text=True, check=True).stdout
    for line in usage.splitlines():
        words = re.match(r"^  (\w+(?: \w+)?) {2,}\S", line)
        if words:
            shown = subprocess.run([pleat, *words.group(1).split(), "--help"], capture_output=True,
                                   text=True, check=True).stdout
            for command in commands_of(shown, IN_HELP):
                seen.setdefault(command, f"pleat {words.group(1)} --help")
    return [(where, command) for command, where in seen.items()]


def shortened(command):
    """The words to run."""
    words = []
    for word in shlex.split(command):
        words += WORDS.get(word, word).split()
    text = " ".join(words)
    for pattern, shorter in SIZES:
        text = re.sub(pattern, shorter, text)
    for pattern, options in SHORTER:
        text += f" {options}" if re.search(pattern, command) else ""
    return text.split()


def make_files(pleat, folder):
    """What the pages speak of as the reader's own."""
    def run(*words, **environment):
        subprocess.run([pleat, *words], cwd=folder, check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, env={**os.environ, **environment})
    (folder / "jobs" / "7").mkdir(parents=True)
    for name in ("snapshot.pickle", "rank0.pickle", "rank1.pickle", "jobs/a.pickle",
                 "jobs/7/rank0.pickle"):
        run("replay", QUICK, "--allocator", "torch-native", "--driver", "sim", "--snapshot", name,
            "--snapshot-at", "end")
    run("replay", QUICK, "--driver", "sim", PLEAT_CONF="metrics:it.prom")
    run("convert", QUICK, "log.csv")
    (folder / "problem.csv").write_text("id,lower,upper,size\na,0,4,4096\nb,2,8,8192\n")
    (folder / "traces").mkdir()
    trace = ROOT / "bench" / "traces" / f"{SMALL}.trace.gz"
    (folder / "traces" / trace.name).symlink_to(trace)
    (folder / "train.py").write_text("print('trained')\n")


def run_one(pleat, runtime, folder, command):
    """None, or the error."""
    words = shortened(command)
    words[0] = runtime if words[0] == "pleat-runtime" else pleat
    for out in folder.glob("out.trace*"):
        out.unlink()
    env = dict(os.environ)
    if words[1] == "demo":  # it takes every bundled trace
        env["PLEAT_TRACES"] = str(folder / "traces")
    ended = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, env=env,
                           timeout=300)
    has_failed = ended.returncode == 1 and "allocations failed" in ended.stderr  # of replay
    if ended.returncode == 0 or has_failed:
        return None
    return f"{' '.join(words[1:])}: exit status {ended.returncode}\n{ended.stderr[-2000:]}"


def main():
    pleat, runtime = (str(pathlib.Path(p).resolve()) for p in sys.argv[1:3])
    wrong, n_run = [], 0
    for name in [key for key in os.environ if key in ("PLEAT_CONF", "PLEAT_SIM")]:
        del os.environ[name]
    commands = all_commands(pleat)
    with tempfile.TemporaryDirectory(prefix="pleat-docs-") as folder:
        make_files(pleat, pathlib.Path(folder))
        for where, command in commands:
            if any(re.search(pattern, command) for pattern in ELSEWHERE):
                continue
            problem = run_one(pleat, runtime, pathlib.Path(folder), command)
            n_run += 1
            if problem:
                wrong.append(f"{where}: {problem}")
    print(f"{n_run} commands of {len(commands)} were run here, {len(wrong)} are wrong")
    print("\n".join(wrong))
    assert n_run >= 30 and not wrong


if __name__ == "__main__":
    main()
