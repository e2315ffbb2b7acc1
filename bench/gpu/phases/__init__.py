"""The phases, in the order in which they run."""
from phases import driver_calls, probe, suites, training, traces

PHASES = {
    "handles": driver_calls.handle_cells,
    "stalls": driver_calls.stall_cells,
    "probe": probe.cells,
    "takes": driver_calls.take_cells,
    "captures": driver_calls.capture_cells,
    "lora": training.lora_cells,
    "gpt2": training.gpt2_cells,
    "suites": suites.cells,
    "traces": traces.cells,
    "costs": probe.cost_cells,
    "moe": training.moe_cells,
    "batch": training.batch_cells,
    "batch_lora": training.lora_batch_cells,
}
