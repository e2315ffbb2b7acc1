"""Run a model in ONNX Runtime's CUDA provider, its memory from pleat.

    python onnxruntime_session.py model.onnx
"""

import sys

import numpy as np
import onnxruntime
import pleat
import pleat.onnxruntime

options = pleat.onnxruntime.cuda_provider_options(device=0)
session = onnxruntime.InferenceSession(
    sys.argv[1], providers=[("CUDAExecutionProvider", options), "CPUExecutionProvider"]
)

# Ones in the shapes of the model's inputs; a dimension left open by the model is 1.
inputs = {
    wanted.name: np.ones(
        [size if isinstance(size, int) else 1 for size in wanted.shape],
        np.int64 if "int64" in wanted.type else np.float32,
    )
    for wanted in session.get_inputs()
}
for output in session.run(None, inputs):
    print("output of shape", output.shape)

stats = pleat.memory_stats(0)
print("allocated", stats["allocated_bytes.all.current"], "bytes in",
      stats["allocation.all.current"], "blocks, at most",
      stats["allocated_bytes.all.peak"])  # fmt: skip
