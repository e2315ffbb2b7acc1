/* dump.c - see dump.h. */
#include "bench/run/dump.h"

#include <string.h>

/* An event makes one or two entries, and driver calls add more. A ring that runs over keeps the
 * newest. */
enum { MORE_ENTRIES = 1 << 16, MOST_ENTRIES = 1 << 24 };

static const char *const names[] = {
    [BENCH_DUMP_PEAK] = "peak",
    [BENCH_DUMP_END] = "end",
    [BENCH_DUMP_FAILURE] = "failure",
};

bool bench_dump_parse(const char *text, bench_dump_at *out)
{
    for (bench_dump_at at = BENCH_DUMP_PEAK; at <= BENCH_DUMP_FAILURE; at++) {
        if (strcmp(text, names[at]) == 0) {
            *out = at;
            return true;
        }
    }
    return false;
}

bool bench_dump_start(bench_dump *dump, pleat instance, uint64_t n_events, bench_failure *failure)
{
    uint64_t n = n_events < MOST_ENTRIES / 2 ? 2 * n_events + MORE_ENTRIES : MOST_ENTRIES;
    n = n < MOST_ENTRIES ? n : MOST_ENTRIES;
    dump->taken = NULL;
    dump->has_failed = false;
    if (pleat_history_record(instance, (size_t)n, 0) != PLEAT_OK) {
        return bench_fail(failure, "%s: no history: %s", dump->path, pleat_last_error()->text);
    }
    return true;
}

/* At the end the peak's snapshot is taken after all, if the peak never came or came after
 * failures. */
static bool is_wanted(const bench_dump *dump, bench_dump_at moment)
{
    switch (dump->at) {
    case BENCH_DUMP_NATURAL:
        return (moment == BENCH_DUMP_FAILURE && !dump->has_failed) || !dump->taken;
    case BENCH_DUMP_PEAK:
        return moment != BENCH_DUMP_FAILURE && !dump->taken;
    case BENCH_DUMP_FAILURE:
        return moment == BENCH_DUMP_FAILURE && !dump->has_failed;
    case BENCH_DUMP_END:
        break;
    }
    return moment == BENCH_DUMP_END;
}

bool bench_dump_take(bench_dump *dump, pleat instance, bench_dump_at moment, bench_failure *failure)
{
    static const char *const words[] = {
        [BENCH_DUMP_PEAK] = "at the peak of live bytes",
        [BENCH_DUMP_END] = "at the end",
        [BENCH_DUMP_FAILURE] = "at the first failed allocation",
    };
    bool is_it = is_wanted(dump, moment);
    dump->has_failed = dump->has_failed || moment == BENCH_DUMP_FAILURE;
    if (!is_it) {
        return true;
    }
    if (pleat_snapshot_dump(instance, dump->path) != PLEAT_OK) {
        return bench_fail(failure, "%s", pleat_last_error()->text);
    }
    dump->taken = words[moment];
    return true;
}
