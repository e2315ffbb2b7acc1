/* timed.c - an allocator's own time, from separate replays. */
#include "bench/measure/timed.h"

static void add(bench_own_spread *spread, double ns)
{
    spread->least_ns = spread->n_runs == 0 || ns < spread->least_ns ? ns : spread->least_ns;
    spread->most_ns = ns > spread->most_ns ? ns : spread->most_ns;
    spread->n_runs++;
}

bool bench_timed(const bench_work *work, const bench_replay_options *options, unsigned n_runs,
                 bench_record *record, bench_failure *failure)
{
    static bench_record run;
    bench_replay_options timed = *options;
    timed.is_timed = true;
    timed.dump = NULL;
    timed.later_passes = 0;
    record->own = (bench_own_spread){ .n_runs = 0 };
    for (unsigned i = 0; i < n_runs; i++) {
        if (timed.progress) {
            bench_progress_label(timed.progress, work->n_events * timed.loops, "%s: %s, timed",
                                 timed.allocator, work->name);
        }
        if (!bench_replay(work, &timed, &run, failure)) {
            return false;
        }
        add(&record->own, run.own.least_ns);
        timed.timeline = NULL;
    }
    return true;
}
