/* policy.h - policies of the user's own (pleat_policy.h), and how they are judged. */
#ifndef PLEAT_BENCH_POLICY_H
#define PLEAT_BENCH_POLICY_H

#include <stdio.h>

#include "bench/run/replay.h"

/* A script of Python is run by libpleat_policy_python.so beside the command: the configuration
 * names the object, and the setup keeps the script. False and a message when one is missing. */
bool bench_policy_place(bench_setup *setup, bench_failure *failure);
/* Before an instance is made: tell the object its script. */
void bench_policy_tell(const bench_setup *setup);

/* Runs of pleat under the policy, each beside the same run under pleat's own. */
typedef struct bench_judged {
    unsigned n;
    unsigned n_searched;
    unsigned n_both; /* of which the driver's time is compared: both complete */
    struct {
        unsigned n_failing;
        double held; /* sums of ratios, and the largest */
        double most_held;
        double least; /* of `fit` */
        double driver_ms;
    } of[2]; /* the policy, pleat's own */
} bench_judged;

/* Is there a policy to judge in runs of this allocator? */
bool bench_judged_wants(const bench_setup *setup, const char *allocator);
/* Run once more under pleat's own policy; with `is_fit` search. False and a message as the replay's
 * own. */
bool bench_judged_run(bench_judged *judged, const bench_work *work,
                      const bench_replay_options *options, bool is_fit,
                      const bench_record *by_policy, bench_failure *failure);
/* Print the judgement, if there is one. */
void bench_judged_print(const bench_judged *judged, FILE *file);

#endif
