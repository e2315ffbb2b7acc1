/* rank.c - which part of a fleet's work a process does. */
#include "bench/ab/fleet/rank.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    const char *rank;
    const char *size; /* NULL = it tells none */
} launchers[] = {
    { "Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE" },
    { "PMI", "PMI_RANK", "PMI_SIZE" },
    { "Slurm", "SLURM_PROCID", "SLURM_NTASKS" },
    { "Kubernetes", "JOB_COMPLETION_INDEX", NULL },
};

/* All of `text`, in decimal digits. */
static bool read_number(const char *text, size_t n, unsigned most, unsigned *out)
{
    unsigned long long value = 0;
    for (size_t i = 0; i < n && value <= most; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        value = 10 * value + (unsigned long long)(text[i] - '0');
    }
    *out = (unsigned)value;
    return n > 0 && value <= most;
}

static bool read_size(const char *text, unsigned *out)
{
    return read_number(text, strlen(text), BENCH_MOST_SHARDS, out) && *out > 0;
}

static bool check(const char *text, const bench_rank *rank, bench_failure *failure)
{
    return rank->index < rank->n ||
           bench_fail(failure,
                      "--shard %.64s: there is no shard %u of %u: they count from 0, so the last "
                      "one is %u",
                      text, rank->index, rank->n, rank->n - 1);
}

/* Tasks of an array job are jobs of their own: each is the only one of its job. */
static bool is_array_task(const char *variable, unsigned n)
{
    const char *task = getenv("SLURM_ARRAY_TASK_ID");
    return strcmp(variable, "SLURM_PROCID") == 0 && task && *task && n == 1;
}

static bool read_variables(unsigned which, unsigned given, const char *text, bench_rank *out,
                           bench_failure *failure)
{
    const char *rank = getenv(launchers[which].rank);
    const char *size = launchers[which].size ? getenv(launchers[which].size) : NULL;
    snprintf(out->source, sizeof out->source, "%s", launchers[which].rank);
    if (!read_number(rank, strlen(rank), BENCH_MOST_SHARDS, &out->index)) {
        return bench_fail(failure, "--shard %.64s: %s is '%.64s', which is no rank", text,
                          launchers[which].rank, rank);
    }
    out->n = given;
    if (size && *size) {
        if (!read_size(size, &out->n)) {
            return bench_fail(failure, "--shard %.64s: %s is '%.64s', which is no number of ranks",
                              text, launchers[which].size, size);
        }
        if (is_array_task(launchers[which].rank, out->n)) {
            return bench_fail(failure,
                              "--shard %.64s: an array of Slurm does not say of how many tasks it "
                              "is one after some were sent again: give --shard "
                              "\"$SLURM_ARRAY_TASK_ID/N\"",
                              text);
        }
        if (given && given != out->n) {
            return bench_fail(failure, "--shard %.64s: %s says that there are %u", text,
                              launchers[which].size, out->n);
        }
    } else if (!given) {
        return bench_fail(failure, "--shard auto: %s does not say of how many: give --shard auto/N",
                          launchers[which].name);
    }
    return check(text, out, failure);
}

static bool find(const char *text, unsigned given, bench_rank *out, bench_failure *failure)
{
    for (unsigned i = 0; i < sizeof launchers / sizeof launchers[0]; i++) {
        const char *rank = getenv(launchers[i].rank);
        if (rank && *rank) {
            return read_variables(i, given, text, out, failure);
        }
    }
    return bench_fail(failure,
                      "--shard %.64s: no launcher has set a rank here (OMPI_COMM_WORLD_RANK, "
                      "PMI_RANK, SLURM_PROCID, JOB_COMPLETION_INDEX): give --shard K/N",
                      text);
}

bool bench_rank_read(const char *text, bench_rank *out, bench_failure *failure)
{
    const char *slash = strchr(text, '/');
    size_t n_first = slash ? (size_t)(slash - text) : strlen(text);
    *out = (bench_rank){ .source = "--shard" };
    bool is_auto = n_first == 4 && memcmp(text, "auto", 4) == 0;
    bool is_good = slash ? read_size(slash + 1, &out->n) : is_auto;
    if (!is_good || (!is_auto && !read_number(text, n_first, BENCH_MOST_SHARDS, &out->index))) {
        return bench_fail(failure,
                          "--shard: '%.64s' is not K/N, such as 0/8 to 7/8, nor auto or auto/N; "
                          "N is at most %d",
                          text, BENCH_MOST_SHARDS);
    }
    return is_auto ? find(text, out->n, out, failure) : check(text, out, failure);
}
