"""The phases, in the order in which they run."""
from phases import probe, suites, training, traces

PHASES = {
    "probe": probe.cells,
    "suites": suites.cells,
    "traces": traces.cells,
    "gpt2": training.gpt2_cells,
    "lora": training.lora_cells,
    "moe": training.moe_cells,
    "batch": training.batch_cells,
    "batch_lora": training.lora_batch_cells,
}
