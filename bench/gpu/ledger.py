"""The table of finished cells: one CSV file, from which a later run continues.

A row is written, and flushed, as its cell ends; a half-written last line, left by a crash, is cut
off before anything is added. Where a cell has several rows the last one counts. The lines before
the header begin with '#' and describe the machine and the build; rows of two GPUs, two drivers or
two builds are never put into one file. When another machine of the same kind continues, a line
between the rows says so."""
import csv
import io
import os

# Sources may change while a build is measured. Of a machine only the GPU and its driver count:
# machines of one kind differ in the kernel's release and the like.
COMMIT, MACHINE = "commit: ", "machine: "
NOT_COMPARED = (COMMIT, MACHINE)
FINISHED = ("ok", "bound", "failed", "stopped", "skipped")

COLUMNS = (
    "phase", "cell", "status", "seconds", "problem",
    "work", "allocator", "round", "memory", "detail",
    "steps", "steps_per_second", "tokens_per_second", "loss_first", "loss_last",
    "largest_batch", "least_failed_batch", "tries",
    "peak_allocated_bytes", "peak_reserved_bytes", "driver_peak_bytes", "driver_base_bytes",
    "total_bytes", "alloc_retries", "ooms",
    "peak_live_bytes", "events", "device_ops", "n_taken_granules", "ops_unmap",
    "host_syncs", "stream_waits", "driver_us",
    "hazards")


class OtherRun(Exception):
    """The file holds rows of another machine or build."""


def read_rows(path):
    """(the notes on machine and build, the last row of each cell, in the order of the first)."""
    text = path.read_text(encoding="utf-8")
    notes = [line[2:] for line in text.splitlines() if line.startswith("# ")]
    table = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#"))
    rows = {}
    for row in csv.DictReader(io.StringIO(table)):
        rows[row["phase"], row["cell"]] = row
    return notes, list(rows.values())


def header_of(text):
    return next((line for line in text.splitlines() if not line.startswith("#")), "")


def compared(notes):
    return [note for note in notes if not note.startswith(NOT_COMPARED)]


def text_of(value):
    if isinstance(value, float):
        return f"{value:.6g}"
    return " ".join(str(value).split())


class Ledger:
    """No lock: one process writes a file."""

    def __init__(self, path, notes):
        self.path = path
        self.rows = {}
        if path.exists() and path.stat().st_size > 0:
            self._go_on(notes)
        else:
            self._begin(notes)
        self.file = open(path, "a", encoding="utf-8", newline="")
        self.writer = csv.DictWriter(self.file, COLUMNS, restval="", lineterminator="\n")

    def _begin(self, notes):
        with open(self.path, "w", encoding="utf-8", newline="") as file:
            file.writelines(f"# {note}\n" for note in notes)
            csv.DictWriter(file, COLUMNS, lineterminator="\n").writeheader()

    def _go_on(self, notes):
        whole = self.path.read_bytes()
        whole = whole[:whole.rfind(b"\n") + 1]
        os.truncate(self.path, len(whole))
        found, rows = read_rows(self.path)
        if header_of(whole.decode()) != ",".join(COLUMNS):
            raise OtherRun(f"{self.path} has other columns: give another --out")
        if compared(found) != compared(notes):
            differ = [f"{theirs!r} there, {ours!r} here"
                      for theirs, ours in zip(compared(found), compared(notes)) if theirs != ours]
            raise OtherRun(f"{self.path} holds another run: {'; '.join(differ) or 'other notes'}; "
                           "give another --out")
        self.rows = {(row["phase"], row["cell"]): row for row in rows}
        moved = [note for note in notes if note.startswith(MACHINE) and note not in found]
        with open(self.path, "a", encoding="utf-8", newline="") as file:
            file.writelines(f"# {note}\n" for note in moved)

    def status_of(self, cell):
        """One of FINISHED, or None: the cell has not run to its end."""
        row = self.rows.get((cell.phase, cell.name))
        return row["status"] if row and row["status"] in FINISHED else None

    def add(self, row):
        unknown = set(row) - set(COLUMNS)
        assert not unknown, f"no such column: {sorted(unknown)}"
        shown = {key: text_of(value) for key, value in row.items() if value is not None}
        self.writer.writerow(shown)
        self.file.flush()
        os.fsync(self.file.fileno())
        self.rows[row["phase"], row["cell"]] = shown

    def close(self):
        self.file.close()
