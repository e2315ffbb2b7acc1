#!/usr/bin/env python3
"""Train a GPT-2-medium-like model under one allocator; or, with --search, find its largest batch.

bfloat16 autocast, AdamW, gradient clipping. Weights, data and lengths come from a seed, and sums
are made in one order. So every allocator must give the same losses. Corrupted memory would change
them. The time of each step is recorded. Runs of different length are compared over their common
steps."""
import gc
import os
import sys
import time

import driver
import torch_run

BEGIN = time.monotonic()
SEED = 20
TRY_STEPS = 4           # steps of a try; the last one has the longest sequences
LAST_S = 2              # for the figures, after the last step

# PyTorch is imported only once the allocator has been chosen.
options = driver.options(__doc__, ("--allocator", {"choices": torch_run.NAMES, "default": "pleat"}),
                         ("--batch", {"type": int}), ("--search", {"action": "store_true"}))
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")     # what equal sums ask for
torch = torch_run.begin(options.allocator, *(("time_calls:True",) * (options.allocator == "pleat")))

from models import RUN, TINY_RUN, lengths     # noqa: E402
from search import largest                   # noqa: E402

FIGURES = {"peak_allocated_bytes": "allocated_bytes.all.peak",
           "peak_reserved_bytes": "reserved_bytes.all.peak", "retries": "num_alloc_retries",
           "ooms": "num_ooms", "device_allocs": "num_device_alloc"}


class Trainer:
    """A model, its optimiser and its data."""

    def __init__(self, run, batch):
        torch.manual_seed(SEED)
        self.run = run
        self.batch = batch
        self.model = run.build("cuda")
        self.trained = list(self.model.parameters())
        self.optimizer = torch.optim.AdamW(self.trained, lr=run.learning_rate)
        self.tokens = torch.Generator().manual_seed(SEED)

    def step(self, length):
        # As in a loader that works ahead, nothing waits for the copy.
        tokens = torch.randint(self.run.vocabulary, (self.batch, length + 1),
                               generator=self.tokens, pin_memory=True)
        tokens = tokens.to("cuda", non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = self.model(tokens)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.trained, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()


def figures():
    told = torch.cuda.memory_stats()
    found = {name: told.get(key) for name, key in FIGURES.items()}
    free, total = torch.cuda.mem_get_info()
    found["device_used_bytes"] = total - free
    if options.allocator == "pleat":
        import pleat
        own = pleat.device_stats()
        found |= {"driver_ms": round(own["driver_ns"] / 1e6, 1), "unmaps": own["ops_unmap"],
                  "taken_granules": own["n_taken_granules"], "binding": torch_run.binding()}
    return found


def train(run):
    """Steps until all are made or time is over. Events record the end of each step on the device;
    nothing waits for the events."""
    batch, end = options.batch or run.batch, BEGIN + options.seconds - LAST_S
    drawn = lengths.drawn(run, run.steps, SEED)
    trainer = Trainer(run, batch)
    losses, events = [], [torch.cuda.Event(enable_timing=True)]
    torch.cuda.synchronize()
    events[0].record()
    for length in drawn:
        losses.append(trainer.step(length))
        events.append(torch.cuda.Event(enable_timing=True))
        events[-1].record()
        if len(losses) > 2:
            events[-3].synchronize()        # the host is two steps ahead, not all of them
        if time.monotonic() > end:
            break
    torch.cuda.synchronize()
    found = {"losses": [loss.item() for loss in losses],
             "ms": [round(one.elapsed_time(two), 2) for one, two in zip(events, events[1:])],
             "tokens": [batch * length for length in drawn[:len(losses)]]}
    return {"steps": len(losses)} | ({"not_timed": driver.NO_KERNELS} if torch_run.is_simulated()
                                     else found)


# ---- the largest batch ---------------------------------------------------------------------------

def fails(run, batch, has_completed):
    """None if a new model gets through TRY_STEPS steps, else the reason for the failure. After
    another batch completed, any failure counts as lack of memory: libraries have many texts for
    it."""
    trainer = None
    try:
        trainer = Trainer(run, batch)
        for length in lengths.drawn(run, TRY_STEPS, SEED):
            trainer.step(length)
        torch.cuda.synchronize()
        return None
    except RuntimeError as error:
        if not has_completed and "out of memory" not in str(error).lower():
            raise
        return f"batch {batch}: {(str(error).splitlines() or [repr(error)])[0][:200]}"
    finally:
        if trainer is not None:
            trainer.optimizer.zero_grad(set_to_none=True)
        del trainer


def search(run):
    """Memory stays between tries, since chunks fit any later request. After a library's failure the
    batch gets one more try with nothing kept."""
    out = {"tries": 0, "completes": 0, "fails": None}

    def completes(batch):
        why = fails(run, batch, out["completes"] > 0)
        gc.collect()                    # an error keeps its stack frames alive
        torch.cuda.synchronize()        # fails if more was wrong than lack of memory
        if why and "Tried to allocate" not in why:
            torch.cuda.empty_cache()
            why = fails(run, batch, True)
            gc.collect()
        if why:
            out["said"] = why
        return why is None

    def tell(good, bad):
        out.update(tries=out["tries"] + 1, completes=good, fails=bad)
        driver.tell(out)
    good, bad = largest(completes, options.batch or run.batch, BEGIN + options.seconds - LAST_S,
                        tell)
    return out | {"is_bound": bad is None or bad - good > 1}


def main():
    torch.backends.cuda.enable_cudnn_sdp(False)     # flash attention on every machine
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    run = TINY_RUN if torch_run.is_simulated() else RUN
    out = search(run) if options.search else train(run)
    driver.tell(out | figures() | {"ended_at": time.monotonic()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
