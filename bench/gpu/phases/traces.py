"""Three bundled traces through every kind of cache, on the real driver."""
import pathlib

from cells import Cell, last_object

# A training run, one with experts, and a sharded one on two streams: half a million events each.
TRACES = ("gpt2l_amp_var", "moe16_top2_var", "llama8b_fsdp16_var")
TINY_TRACES = ("gpt2s_tiny",)
ALLOCATORS = ("pleat", "torch-native", "torch-expandable", "cuda-async")
LIMIT_S = 20        # 12 cells a turn
ABOUT_S = 6
TURNS = {"unlimited": 1, "1.05x": 3}
ROOT = pathlib.Path(__file__).resolve().parents[3]
KEYS = ("peak_live_bytes", "events", "alloc_retries", "host_syncs", "stream_waits", "hazards",
        "peak_reserved_bytes")


def read(output):
    replay = last_object(output)
    figures = {key: replay[key] for key in KEYS}
    figures["ooms"] = replay["oom_count"]
    figures["driver_us"] = 1000 * replay["driver_ms"]
    figures["device_ops"] = sum(replay["device_ops"].values())
    if replay["oom_count"]:             # a result, not a failure: the cache ran out of memory
        figures["status"] = "ok"
        figures["detail"] = f"{replay['oom_count']} allocations failed"
    return figures


def cells(setup):
    folder = setup.build / "traces"
    if not folder.is_dir():
        folder = ROOT / "bench" / "traces"
    environment = {**setup.library_path(), "PLEAT_TRACES": str(folder)}
    found = []
    for trace in TINY_TRACES if setup.scale == "tiny" else TRACES:
        for memory, turn in TURNS.items():
            for allocator in ALLOCATORS:
                command = (setup.build / "pleat", "replay", trace, "--json", "--driver",
                           setup.driver, "--allocator", allocator, "--memory", memory)
                known = {"work": trace, "allocator": allocator, "memory": memory}
                found.append(Cell("traces", f"{trace} {memory} {allocator}", command, LIMIT_S,
                                  about_s=ABOUT_S, turn=turn, known=known, environment=environment,
                                  read=read))
    return found
