#!/usr/bin/env python3
"""Train one model under one allocator and print its figures, as one JSON object on the last line.

  train.py --model gpt2|lora|moe --allocator native|expandable|async|pleat|pleat-...
  train.py --model gpt2 --allocator pleat --search-batch

run.py starts it for each cell; it can be run by hand, also on the CPU (--device cpu), without
figures of memory. bfloat16 autocast, AdamW, gradient clipping; weights, data and lengths come from
a seed and are the same under every allocator, so the losses must be, too."""
import argparse
import dataclasses
import gc
import json
import sys
import time

import allocators
import present

BEGIN = time.monotonic()
SEED = 20
LOSSES = 5              # so many first and last ones are averaged
TRY_STEPS = 4           # steps that a batch must get through; the last has the longest sequences


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--model", required=True, choices=("gpt2", "lora", "moe"))
    parser.add_argument("--allocator", required=True, choices=allocators.NAMES)
    parser.add_argument("--scale", default="full", choices=("full", "small", "tiny"))
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--batch", type=int, help="sequences a step (default: by the scale)")
    parser.add_argument("--steps", type=int, help="steps on the clock (default: by the scale)")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--search-batch", action="store_true",
                        help="find the largest batch instead")
    parser.add_argument("--within", type=int, default=1, metavar="N",
                        help="sequences between what completes and what does not, at most")
    parser.add_argument("--limit-s", type=float, default=float("inf"),
                        help="of the search, from the start of the process")
    parser.add_argument("--simulator", metavar="LIBRARY",
                        help="the device is this simulator's and computes nothing: print no speed "
                             "and no losses, but the modelled time of driver calls")
    return parser.parse_args()


# PyTorch is imported only once the allocator has been chosen.
options = parse()
present.need_pytorch()
if options.device == "cuda":
    try:
        allocators.choose(options.allocator)
    except Exception as problem:            # any failure goes into the row
        print(json.dumps({"problem": f"the allocator: {problem}"[:300]}))
        sys.exit(1)

import torch                                # noqa: E402
from meter import Meter                     # noqa: E402
from models import RUNS, lengths            # noqa: E402
import search                               # noqa: E402


class Trainer:
    """One model, its optimiser and its data."""

    def __init__(self, run, batch, device, seed):
        torch.manual_seed(seed)
        self.run = run
        self.batch = batch
        self.device = device
        self.model = run.build(device)
        self.trained = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(self.trained, lr=run.learning_rate)
        self.tokens = torch.Generator().manual_seed(seed)

    def step(self, length):
        # Like a loader that works ahead: nothing waits for the copy.
        tokens = torch.randint(self.run.vocabulary, (self.batch, length + 1),
                               generator=self.tokens, pin_memory=self.device.type == "cuda")
        tokens = tokens.to(self.device, non_blocking=True)
        with torch.autocast(self.device.type, dtype=torch.bfloat16):
            loss = self.model(tokens)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.trained, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()


def mean_of(losses):
    return sum(loss.item() for loss in losses) / len(losses)


def measure(run, meter, device, out):
    """One training run. After a failure `out` has the figures so far."""
    batch = options.batch or run.batch
    n_steps = options.steps or run.steps
    drawn = lengths.drawn(run, run.warm_up + n_steps, options.seed)
    trainer = Trainer(run, batch, device, options.seed)
    out["steps"] = 0
    losses = []
    begin, begin_us = 0.0, None
    for i, length in enumerate(drawn):
        if i == run.warm_up:
            meter.synchronize()
            begin_us, begin = meter.driver_us(), time.monotonic()
        losses.append(trainer.step(length))
        if i < run.warm_up or options.simulator:
            meter.sample()
        out["steps"] = i + 1
    meter.synchronize()
    seconds = time.monotonic() - begin
    meter.sample()
    if begin_us is not None:
        out["driver_us"] = meter.driver_us() - begin_us
    if not options.simulator:
        out["steps_per_second"] = n_steps / seconds
        out["tokens_per_second"] = batch * sum(drawn[run.warm_up:]) / seconds
        out["loss_first"] = mean_of(losses[:LOSSES])
        out["loss_last"] = mean_of(losses[-LOSSES:])


@dataclasses.dataclass(frozen=True)
class Failure:
    said: str
    is_out_of_memory: bool
    is_own: bool            # of the allocator; else of a library that found no memory for itself


def failure_of(run, meter, device, batch, has_completed):
    """None if a model gets through TRY_STEPS steps of that batch. Once another batch did, any
    failure counts as lack of memory: libraries word it in many ways when they find none for their
    kernels or handles."""
    trainer = None
    try:
        trainer = Trainer(run, batch, device, options.seed)
        for length in lengths.drawn(run, TRY_STEPS, options.seed):
            trainer.step(length)
            meter.sample()
        meter.synchronize()
        return None
    except RuntimeError as error:
        said = f"batch {batch}: {(str(error).splitlines() or [repr(error)])[0][:300]}"
        print(said)
        is_out_of_memory = allocators.is_out_of_memory(error)
        if not is_out_of_memory and not has_completed:
            raise
        return Failure(said, is_out_of_memory, isinstance(error, torch.OutOfMemoryError))
    finally:
        if trainer is not None:
            trainer.optimizer.zero_grad(set_to_none=True)
        del trainer


def find_largest(run, meter, device, out):
    """Each try prints its figures on a line; if the process is stopped, the last one counts. If the
    allocator keeps memory between tries, a library may have found none only for that reason: then
    the batch gets a try with nothing kept."""
    keeps = allocators.keeps_between_tries(options.allocator)

    def attempt(batch):
        failure = failure_of(run, meter, device, batch, "largest_batch" in out)
        gc.collect()                        # an error keeps the frames that it passed alive
        meter.synchronize()                 # fails if more was wrong than lack of memory
        if not keeps:
            meter.empty()
        return failure

    def gets_through(batch):
        begin = time.monotonic()
        failure = attempt(batch)
        if failure and keeps and not failure.is_own and out.get("tries"):
            meter.empty()
            failure = attempt(batch)
        if failure and not failure.is_out_of_memory:
            out["detail"] = failure.said
        print(f"batch {batch}: {'does not complete' if failure else 'completes'}, "
              f"{time.monotonic() - begin:.1f} s")
        return failure is None

    def tell(found):
        out["tries"] = found.tries
        if found.good:
            out["largest_batch"] = found.good
        if found.bad is not None:
            out["least_failed_batch"] = found.bad
        print(json.dumps(out), flush=True)

    found = search.largest(gets_through, options.batch or run.batch, options.within,
                           BEGIN + options.limit_s, tell)
    out["largest_batch"] = found.good
    if not found.is_within(options.within):
        out["status"] = "bound"
        out["problem"] = "time ran out"


def main():
    if options.device == "cuda":
        present.need_gpu(torch)
    device = torch.device(options.device)
    torch.backends.cuda.enable_cudnn_sdp(False)     # flash attention on every machine
    run = RUNS[options.model, options.scale]
    meter = Meter(device, options.allocator, options.simulator)
    out = {}
    try:
        (find_largest if options.search_batch else measure)(run, meter, device, out)
    except RuntimeError as error:
        if not allocators.is_out_of_memory(error):
            raise
        out["problem"] = f"out of memory at step {out.get('steps', 0)}: " \
                         f"{str(error).splitlines()[0]}"[:300]
    meter.sample()
    out |= meter.figures()
    print(json.dumps(out))
    return 1 if "problem" in out and out.get("status") != "bound" else 0


if __name__ == "__main__":
    sys.exit(main())
