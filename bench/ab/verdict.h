/* verdict.h - from outcomes (a setting completes on a device, or fails) to a few lines of text. The
 * lines tell gaps in the recording, the device, the need, the memory held, where the job runs, what
 * to do and what to type. Lines with nothing to tell are empty.
 *
 * Pure: figures in, texts out. The rules:
 *
 * R1  A setting's device is the smallest one on which it completes.
 * R2  The setting in force is the recorded run's; without a recording PyTorch's default.
 * R3  Candidates, from the simplest: the one in force, torch-native, torch-expandable, pleat, and
 *     pleat with short:compact, which was measured only if pleat fails somewhere. The others stand
 *     for other programs or, like cuda-async on the simulator, are models: they are told about and
 *     never advised. (Of a log of RMM: cuda-async, pleat.) Where no candidate was measured, all
 *     settings are candidates in their order.
 * R4  If the one in force has the smallest device of all candidates, nothing has to change (KEEP),
 *     unless another candidate completes nearer to the need (NEARER): on the smallest multiple of
 *     it, the simplest of those.
 * R5  Else the simplest of the candidates with the smallest device is advised (SWITCH).
 * R6  If the need exceeds all devices, no setting helps (TOO_LARGE); if it does not, and no
 *     candidate completes anywhere, the devices are too small by what is lost (NOBODY).
 * R7  What was not measured counts as neither. Nothing is said of a setting that was not measured
 *     but this: the advice names such candidates, and ends that were left out.
 * R8  Of a recording that is not whole (told.h) the need is a least one, and no device is called
 *     enough: what fails on a part fails on the whole, but what completes only leaves a device
 *     possible. The lines tell the devices that are ruled out, and under which settings. Instead of
 *     R4 and R5 the advice is what would tell more (RECORD): a longer recording, or a run. R6
 *     stays.
 * R9  A recording is whole only if its steps were seen to repeat without a rise. Even then others
 *     may follow, such as an evaluation. So the need is "at least" that of the recorded steps, and
 *     the advice, which is about these steps, says that others may need more.
 * R10 Where the run held much more than the replay of its own setting, the history does not explain
 *     what was held, as of private pools of CUDA graphs: the recording is not whole. Below the need
 *     all fail, whatever a replay says.
 * R11 Where the history does not lead to the snapshot's blocks, blocks that a gap has freed may
 *     count as live. A run that goes on after a refused request takes less on a smaller device. So
 *     the need may be less, too, and no device is ruled out. */
#ifndef PLEAT_BENCH_VERDICT_H
#define PLEAT_BENCH_VERDICT_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/base/line.h"
#include "bench/work/origin.h"

/* pleat with short:compact, measured where pleat fails (compacted.h). */
#define BENCH_SETTING_COMPACT "pleat short:compact"

enum {
    BENCH_VERDICT_DEVICES = 24,
    BENCH_VERDICT_SETTINGS = 17,
    BENCH_VERDICT_LINES = 11,
    BENCH_VERDICT_TYPED = 8, /* this line and the following are typed as they stand */
    BENCH_VERDICT_BYTES = BENCH_LINE_BYTES,
    BENCH_VERDICT_NOWHERE = BENCH_VERDICT_DEVICES,
    BENCH_VERDICT_CANDIDATES = 5,
};

typedef enum bench_outcome {
    BENCH_OUTCOME_UNKNOWN, /* 0: not measured */
    BENCH_OUTCOME_COMPLETES,
    BENCH_OUTCOME_FAILS,
} bench_outcome;

/* Of two ranks: a job fails if any rank fails. */
static inline bench_outcome bench_outcome_worse(bench_outcome a, bench_outcome b)
{
    if (a == BENCH_OUTCOME_FAILS || b == BENCH_OUTCOME_FAILS) {
        return BENCH_OUTCOME_FAILS;
    }
    return a == BENCH_OUTCOME_UNKNOWN || b == BENCH_OUTCOME_UNKNOWN ? BENCH_OUTCOME_UNKNOWN
                                                                    : BENCH_OUTCOME_COMPLETES;
}

typedef struct bench_verdict_device {
    const char *label; /* "80 GB", "1.05x" */
    uint64_t bytes;
} bench_verdict_device;

typedef struct bench_verdict_setting {
    const char *allocator;
    uint64_t held_bytes;                     /* the most, without limit; 0 = not known */
    bench_outcome on[BENCH_VERDICT_DEVICES]; /* by device */
    bench_outcome near[BENCH_VERDICT_DEVICES];
    double driver_ms[BENCH_VERDICT_DEVICES]; /* in a first pass; 0 = not known */
} bench_verdict_setting;

typedef struct bench_verdict_input {
    const char *work;       /* as it is typed */
    uint64_t need_bytes;    /* of a job, of the neediest rank: the peak of live bytes, or more */
    uint64_t live_bytes;    /* this peak; 0 = need_bytes */
    uint64_t pending_bytes; /* the most freed bytes still used by other streams */
    bench_told told;        /* of a job: of all ranks */
    bench_devices of;       /* of the snapshot; of a job, of the neediest rank's */
    uint64_t peak_event;    /* the number of the peak's event */
    uint64_t n_events;      /* among so many */
    unsigned n_ranks;       /* 0 = no job of ranks */
    unsigned n_unknown;     /* of the ranks: nothing could be measured */
    const char *worst;      /* the neediest rank */
    double mean_need;       /* bytes, over the ranks */
    const char *own;        /* the recorded run's allocator; NULL = no recording */
    uint64_t own_bytes;     /* bytes held by the recorded run; 0 = not known */
    bool own_failed;        /* the recorded run ran out of memory */
    const char *own_conf;   /* its PYTORCH_CUDA_ALLOC_CONF, or "" */
    const char *conf;       /* of the measurements (--conf); NULL or "" = none was given */
    bool is_rmm;
    bool is_simulated;  /* the driver's time is modelled */
    unsigned n_devices; /* by size, the smallest first */
    bench_verdict_device devices[BENCH_VERDICT_DEVICES];
    unsigned n_near; /* multiples of the need, the smallest first; may be 0 */
    bench_verdict_device near[BENCH_VERDICT_DEVICES];
    unsigned n_settings;
    bench_verdict_setting settings[BENCH_VERDICT_SETTINGS];
} bench_verdict_input;

typedef enum bench_advice {
    BENCH_ADVICE_UNKNOWN, /* no measurement tells */
    BENCH_ADVICE_KEEP,
    BENCH_ADVICE_NEARER,
    BENCH_ADVICE_SWITCH,
    BENCH_ADVICE_TOO_LARGE,
    BENCH_ADVICE_NOBODY,
    BENCH_ADVICE_RECORD, /* R8 */
} bench_advice;

typedef struct bench_verdict {
    bench_advice advice;
    const char *setting;  /* advised or kept; NULL = none */
    const char *in_force; /* R2 */
    unsigned device;      /* of `setting`; BENCH_VERDICT_NOWHERE = none */
    const char *so_far;   /* of RECORD: the setting that R4 and R5 choose; NULL = none */
    unsigned least[BENCH_VERDICT_SETTINGS]; /* R1; BENCH_VERDICT_NOWHERE = none */
    bool is_provisional;                    /* R7 */
    char lines[BENCH_VERDICT_LINES][BENCH_VERDICT_BYTES];
} bench_verdict;

extern const char *const bench_verdict_titles[BENCH_VERDICT_LINES]; /* "recorded", "needs", ... */
const char *bench_advice_name(bench_advice advice);                 /* "keep", ... */

/* R10. Call once, after all else is filled in. */
void bench_verdict_explain(bench_verdict_input *input);
void bench_verdict_reach(const bench_verdict_input *input, bench_verdict *out);

#endif
