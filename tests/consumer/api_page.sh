#!/usr/bin/env bash
# Compiles and runs the examples of docs/api.md, those in C as one program and those in C++ as
# another, for an installed tree. Each language has as many. Usage: api_page.sh PREFIX WORK_DIR
set -euo pipefail
prefix=$1
work=$2
page=$(cd "$(dirname "$0")/../../docs" && pwd)/api.md
lib=$(dirname "$(find "$prefix" -name libpleat_sim.so)")

# program KIND: the page's code. The first block stands above main, the second in main, and each of
# the others in braces. What the page takes for granted comes before.
program() {
    awk -v start="\`\`\`$1" -v inside="$work/inside.$1" '
        $0 == "```" { if (on && n > 2) print "}"; on = 0 }
        on { print }
        $0 == start {
            on = 1
            if (++n == 2) while ((getline line < inside) > 0) print line
            if (n > 2) print "{"
        }
        END { print "return 0;\n}" }' "$page"
}

rm -rf "$work"
mkdir -p "$work"
cat >"$work/cuda.h" <<'TEXT'
#include <stddef.h>
typedef void *CUgraph;
enum { CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1 };
#ifdef __cplusplus
extern "C" {
#endif
int cuInit(unsigned flags);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxSetCurrent(void *context);
int cuStreamCreate(void **stream, unsigned flags);
int cuStreamBeginCapture_v2(void *stream, int mode);
int cuStreamEndCapture(void *stream, CUgraph *graph);
#ifdef __cplusplus
}
#endif
#define cuStreamBeginCapture cuStreamBeginCapture_v2
TEXT
read -r -d '' opened <<'TEXT' || true
void *context, *stream, *other;
cuInit(0);
cuDevicePrimaryCtxRetain(&context, 0);
cuCtxSetCurrent(context);
cuStreamCreate(&stream, 1);
cuStreamCreate(&other, 1);
TEXT
printf '%s\n' '#include "cuda.h"' '#include <stdbool.h>' 'static int cached;' \
    'static bool evict(pleat of, int device, size_t bytes, void *context) {' \
    'return of.slot != 0 && device < 0 && bytes == 0 && context == &cached;' '}' \
    'int main(void) {' 'pleat host;' \
    'must(pleat_create("memory:host", &host));' "$opened" >"$work/inside.c"
printf '%s\n' '#include <vector>' '#include "cuda.h"' 'int main() {' \
    'struct { bool evict(std::size_t bytes) { return bytes == 0; } } cached;' \
    'pleat_cxx::instance host("memory:host");' "$opened" >"$work/inside.cpp"
[ "$(grep -c '^```c$' "$page")" = "$(grep -c '^```cpp$' "$page")" ]
program c >"$work/page.c"
program cpp >"$work/page.cpp"
flags=(-Wall -Wextra -Werror -Wno-unused-variable -Wno-unused-but-set-variable
    "-I$work" "-I$(dirname "$(find "$prefix" -name pleat.h)")" "-L$lib" "-Wl,-rpath,$lib")
cc "${flags[@]}" "$work/page.c" -lpleat -lpleat_sim -o "$work/page_c"
c++ -std=c++17 "${flags[@]}" "$work/page.cpp" -lpleat -lpleat_sim -o "$work/page_cpp"
for program in page_c page_cpp; do
    PLEAT_CONF='driver:sim,sim:[capacity:512M]' "$work/$program"
done
