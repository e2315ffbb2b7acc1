/* host.h - limits and counts the host memory of a work, where its arrays grow. */
#ifndef PLEAT_BENCH_HOST_H
#define PLEAT_BENCH_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* For any file without `memory=SIZE` after its name. */
#define BENCH_MOST_HOST_BYTES (UINT64_C(8) << 30)

typedef struct bench_host {
    uint64_t most_bytes; /* 0 = no limit */
    uint64_t n_bytes;
    bool is_over; /* more was asked for than is allowed */
    char problem[96];
} bench_host;

/* Like realloc: `array` has `before` bytes. NULL: `array` stays as before. The reason is in
 * bench_host_problem. */
void *bench_host_resize(bench_host *host, void *array, size_t before, size_t bytes);
void bench_host_free(bench_host *host, void *array, size_t bytes);
/* Why there was no memory. */
const char *bench_host_problem(bench_host *host);

#endif
