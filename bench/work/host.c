/* host.c - see host.h. */
#include "bench/work/host.h"

#include <stdio.h>
#include <stdlib.h>

#include "bench/base/size.h"

void *bench_host_resize(bench_host *host, void *array, size_t before, size_t bytes)
{
    uint64_t n_bytes = host->n_bytes - before + bytes;
    if (host->most_bytes && n_bytes > host->most_bytes) {
        host->is_over = true;
        return NULL;
    }
    void *resized = realloc(array, bytes);
    host->n_bytes = resized ? n_bytes : host->n_bytes;
    return resized;
}

void bench_host_free(bench_host *host, void *array, size_t bytes)
{
    host->n_bytes -= bytes;
    free(array);
}

const char *bench_host_problem(bench_host *host)
{
    char most[32];
    if (!host->is_over) {
        return "out of host memory";
    }
    snprintf(host->problem, sizeof host->problem,
             "more than %s of host memory; memory=SIZE behind the name allows more",
             bench_size_format(host->most_bytes, most, sizeof most));
    return host->problem;
}
