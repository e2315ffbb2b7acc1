/* tool.h - libpleat_test_tool.so plays a tool that NVTX injects, as compute-sanitizer is one, and
 * keeps what it is told. What breaks a rule ends the process with a line that names the rule:
 *
 *   heaps are disjoint, named and well described, and go without regions
 *   regions are disjoint, each inside of the heap that it names, and known when they go
 *
 * Suites take its functions with dlsym; a build without NVTX's headers has no such library. */
#ifndef PLEAT_TESTS_TOOL_H
#define PLEAT_TESTS_TOOL_H

#include <stdint.h>

typedef struct tool_counts {
    unsigned n_heaps; /* now */
    unsigned n_regions;
    uint64_t n_heaps_ever;
    uint64_t n_regions_ever;
    uint64_t region_bytes; /* now */
} tool_counts;

tool_counts tool_count(void);
uint64_t tool_region_bytes(uint64_t ptr); /* of the region that begins there; 0 = none */
const char *tool_heap_name(uint64_t ptr); /* of the heap around it; NULL = none */

#endif
