/* verify_log.c - makes the simulator write its log to a file, and reads the file. */
#include "bench/measure/verify_log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The number after `"key": `. */
static bool find_number(const char *line, const char *key, uint64_t *out)
{
    char quoted[32];
    snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    const char *at = strstr(line, quoted);
    if (!at) {
        return false;
    }
    char *end;
    *out = strtoull(at + strlen(quoted), &end, 10);
    return end != at + strlen(quoted);
}

/* Reads the last n of all matching calls; bytes[] is a ring until the end. */
static bool read_lines(FILE *file, const char *symbol, uint64_t *bytes, size_t n, size_t *n_found)
{
    char call[64];
    char line[1024];
    snprintf(call, sizeof call, "\"call\": \"%s\"", symbol);
    *n_found = 0;
    while (fgets(line, sizeof line, file)) {
        uint64_t size;
        uint64_t result;
        if (strstr(line, call) && find_number(line, "result", &result) && result == 0 &&
            find_number(line, "bytes", &size)) {
            bytes[(*n_found)++ % n] = size;
        }
    }
    return !ferror(file);
}

/* Moves the oldest to the front. */
static void unroll(uint64_t *bytes, size_t n, size_t n_found, uint64_t *scratch)
{
    for (size_t i = 0; i < n; i++) {
        scratch[i] = bytes[(n_found + i) % n];
    }
    memcpy(bytes, scratch, n * sizeof *bytes);
}

static bool read_file(const char *path, const char *symbol, uint64_t *bytes, size_t n,
                      bench_failure *failure)
{
    uint64_t *scratch = calloc(n, sizeof *scratch);
    FILE *file = fopen(path, "r");
    size_t n_found = 0;
    bool ok = scratch && file && read_lines(file, symbol, bytes, n, &n_found);
    if (!ok) {
        bench_fail(failure, "the simulator's log: %s",
                   scratch ? strerror(errno) : "out of host memory");
    } else if (n_found < n) {
        ok = bench_fail(failure, "the simulator's log holds %zu calls of %s instead of %zu",
                        n_found, symbol, n);
    } else {
        unroll(bytes, n, n_found, scratch);
    }
    if (file) {
        fclose(file);
    }
    free(scratch);
    return ok;
}

bool bench_verify_log_read(const pl_driver *drv, pl_entry entry, uint64_t *bytes, size_t n,
                           bench_failure *failure)
{
    int (*write_log)(const char *path);
    *(void **)&write_log = pl_driver_symbol(drv, "pleat_sim_write_log");
    if (!write_log) {
        return bench_fail(failure, "the simulator cannot write its log");
    }
    if (n == 0) {
        return true;
    }
    const char *folder = getenv("TMPDIR");
    char path[1024];
    snprintf(path, sizeof path, "%s/pleat-log-XXXXXX", folder && folder[0] ? folder : "/tmp");
    int descriptor = mkstemp(path);
    if (descriptor < 0) {
        return bench_fail(failure, "%s: %s", path, strerror(errno));
    }
    close(descriptor);
    bool ok = write_log(path) == 0 || bench_fail(failure, "%s: it cannot be written", path);
    ok = ok && read_file(path, pl_entry_symbol(entry), bytes, n, failure);
    unlink(path);
    return ok;
}
