"""Questions to the driver that may crash the process, hang it, or break its context. So other
processes ask them, several at a time. A program brings groups of questions and a function that
answers a question."""
import concurrent.futures
import os
import select
import subprocess
import sys
import time

import driver

AT_ONCE = 6
SILENCE_S = 6       # longer without an answer: the question hangs
END_S = 2           # a process whose context hangs may not even end


def lines_of(process, seconds):
    """Lines of a process's output. None after its end or a long silence."""
    held = b""
    while True:
        ready, _, _ = select.select([process.stdout], [], [], seconds)
        piece = os.read(process.stdout.fileno(), 65536) if ready else None
        if not piece:
            yield None if piece is None else ""
            return
        held += piece
        *whole, held = held.split(b"\n")
        yield from (line.decode() for line in whole if line)


def fate_of(process, is_silent):
    """How the process ended without an answer. A hanging context keeps its process from ending at
    once. Later run.py ends the process with its group."""
    if is_silent:
        process.kill()
    try:
        _, errors = process.communicate(timeout=END_S)
    except subprocess.TimeoutExpired:
        errors = b""
    if is_silent:
        return f"nothing within {SILENCE_S} s"
    if process.returncode and process.returncode < 0:
        return f"died of signal {-process.returncode}"
    said = errors.decode(errors="replace").strip().splitlines()
    return f"failed: {said[-1] if said else 'without a word'}"[:200]


def ask_group(program, group, questions, end):
    """{question: answer}. If a question ends its process, the end is the answer, and a new process
    gets the remaining questions."""
    answers = {}
    while len(answers) < len(questions) and time.monotonic() < end:
        rest = [name for name in questions if name not in answers]
        process = subprocess.Popen([sys.executable, "-B", program, "--group", group, *rest],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        said = None
        for said in lines_of(process, min(SILENCE_S, max(end - time.monotonic(), 0.1))):
            if said:
                name, _, answer = said.partition("\t")
                answers[name] = answer
        missing = next((name for name in rest if name not in answers), None)
        fate = fate_of(process, said is None)
        if missing is not None:
            answers[missing] = fate
    return answers | {name: "not asked: no time was left" for name in questions
                      if name not in answers}


def ask_all(program, groups, seconds):
    """Print {group: {question: answer}} after each group."""
    end = time.monotonic() + seconds
    found = {}
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        asked = {pool.submit(ask_group, program, group, questions, end): group
                 for group, questions in groups.items()}
        for future in concurrent.futures.as_completed(asked):
            found[asked[future]] = future.result()
            driver.tell({"answers": {group: found[group] for group in groups if group in found}})


def answer_all(answer, group, questions):
    """In the child: print an answer per line."""
    cuda = driver.Driver()
    for name in questions:
        try:
            said = answer(cuda, group, name)
        except driver.DriverError as error:
            said = f"failed: {error}"
        print(f"{name}\t{said}", flush=True)


def main(program, document, groups, answer):
    """`groups`: {group: questions}. answer(cuda, group, question) returns the answer in words."""
    options = driver.options(document, ("--group", {}), ("questions", {"nargs": "*"}))
    if options.group is not None:
        answer_all(answer, options.group, options.questions)
    else:
        ask_all(program, groups, options.seconds)
    return 0
