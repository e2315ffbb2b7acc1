#!/usr/bin/env bash
# Installs the build into an empty prefix. Usage: install.sh CMAKE BUILD_DIR PREFIX
set -euo pipefail
rm -rf "$3"
"$1" --install "$2" --prefix "$3" >/dev/null
for pattern in libpleat.so libpleat.so.0 libpleat.a libpleat_sim.so pleat.h pleat_types.h \
    pleat_pool.h pleat_checkpoint.h pleat_snapshot.h pleat_watch.h pleat_torch.h pleat_torch.hpp \
    pleat_frameworks.h pleat_sim.h pleat-config.cmake pleat.pc pleat a100.cost \
    gpt2s_tiny.trace.gz; do
    if [ -z "$(find "$3" -name "$pattern" ! -type d)" ]; then
        echo "not installed: $pattern" >&2
        exit 1
    fi
done
