/* verdict_test.c - the verdict on small made-up rows. All rows are checked by the rules, some by
 * exact words. */
/* labels: unit long */
#include <stdlib.h>
#include <string.h>

#include "bench/ab/verdict.h"
#include "tests/support/suite.h"

#define GIB (UINT64_C(1) << 30)

enum { N_SETTINGS = 3, NOWHERE = BENCH_VERDICT_NOWHERE };

static bench_verdict_input in;
static bench_verdict verdict;

/* "+" completes, "-" fails, "?" was not measured. */
static void set_outcomes(bench_outcome *out, const char *text)
{
    for (unsigned i = 0; text[i]; i++) {
        out[i] = text[i] == '+'   ? BENCH_OUTCOME_COMPLETES
                 : text[i] == '-' ? BENCH_OUTCOME_FAILS
                                  : BENCH_OUTCOME_UNKNOWN;
    }
}

static void add_setting(const char *allocator, const char *on, const char *near)
{
    bench_verdict_setting *s = &in.settings[in.n_settings++];
    *s = (bench_verdict_setting){ .allocator = allocator, .held_bytes = 32 * GIB };
    set_outcomes(s->on, on);
    set_outcomes(s->near, near);
}

/* A job of 30 GiB, cards of 24, 40 and 48 GB, multiples of 1.02 and 1.10. */
static void set_up(void)
{
    in = (bench_verdict_input){ .work = "run.pickle",
                                .need_bytes = 30 * GIB,
                                .peak_event = 41,
                                .n_events = 1234567,
                                .worst = "run",
                                .mean_need = 30.0 * GIB,
                                .own_conf = "",
                                .n_devices = 3,
                                .n_near = 2 };
    in.devices[0] = (bench_verdict_device){ .label = "24 GB", .bytes = 22 * GIB };
    in.devices[1] = (bench_verdict_device){ .label = "40 GB", .bytes = 39 * GIB };
    in.devices[2] = (bench_verdict_device){ .label = "48 GB", .bytes = 44 * GIB };
    in.near[0] = (bench_verdict_device){ .label = "1.02x", .bytes = 306 * GIB / 10 };
    in.near[1] = (bench_verdict_device){ .label = "1.10x", .bytes = 33 * GIB };
}

static void reach(void)
{
    bench_verdict_reach(&in, &verdict);
}

static void tell(bench_told told)
{
    in.told = told;
    reach();
}

#define HAS(line, words)                                                                           \
    ck_assert_msg(strstr(verdict.lines[line], words) != NULL, "%s", verdict.lines[line])
#define IS(line, words) ck_assert_str_eq(verdict.lines[line], words)

enum { RECORDED, DEVICE, NEEDS, GROWS, HELD, RUNS_ON, ADVICE, BACK, TYPE, AT_START, AT_END };

/* ---- by the rules ---- */

static const char *const names[N_SETTINGS] = { "torch-native", "torch-expandable", "pleat" };

static unsigned first(const bench_outcome *outcomes, unsigned n, bench_outcome wanted)
{
    for (unsigned i = 0; i < n; i++) {
        if (outcomes[i] == wanted) {
            return i;
        }
    }
    return NOWHERE;
}

static unsigned least(unsigned s)
{
    return first(in.settings[s].on, in.n_devices, BENCH_OUTCOME_COMPLETES);
}

static unsigned near_least(unsigned s)
{
    return first(in.settings[s].near, in.n_near, BENCH_OUTCOME_COMPLETES);
}

static bool is_sure(const bench_outcome *outcomes, unsigned n)
{
    return first(outcomes, n, BENCH_OUTCOME_UNKNOWN) >= first(outcomes, n, BENCH_OUTCOME_COMPLETES);
}

/* The place of a setting among the candidates. The setting in force comes first. */
static unsigned effort(unsigned s, unsigned in_force)
{
    return s == in_force ? 0 : s + 1;
}

/* Requirements of a kept or advised setting; in_force is one of the three settings. */
static void check_choice(unsigned chosen, unsigned in_force)
{
    unsigned device = verdict.device;
    ck_assert_uint_lt(device, in.n_devices);
    ck_assert_int_eq(
        in.settings[chosen].on[device] == BENCH_OUTCOME_COMPLETES || least(chosen) < device, 1);
    for (unsigned s = 0; s < N_SETTINGS; s++) {
        ck_assert_uint_ge(least(s), device); /* nobody completes on a smaller one */
        bool is_simpler = effort(s, in_force) < effort(chosen, in_force);
        if (verdict.advice == BENCH_ADVICE_SWITCH && is_simpler) {
            ck_assert_uint_gt(least(s), device);
        }
        bool is_eligible = verdict.advice == BENCH_ADVICE_NEARER && least(s) == device;
        if (is_eligible) {
            ck_assert_uint_ge(near_least(s), near_least(chosen));
            ck_assert(!is_simpler || near_least(s) > near_least(chosen));
        }
        if (verdict.advice == BENCH_ADVICE_KEEP && least(s) == device &&
            is_sure(in.settings[in_force].near, in.n_near)) {
            ck_assert_uint_ge(near_least(s), near_least(in_force));
        }
    }
    ck_assert_int_eq(verdict.advice == BENCH_ADVICE_KEEP, chosen == in_force);
    ck_assert_int_eq(verdict.advice == BENCH_ADVICE_SWITCH, least(in_force) > device);
}

static void check_verdict(unsigned in_force, bool is_any_measured)
{
    unsigned best = NOWHERE;
    bool is_provisional = false;
    unsigned chosen = N_SETTINGS;
    for (unsigned s = 0; s < N_SETTINGS; s++) {
        best = least(s) < best ? least(s) : best;
        is_provisional = is_provisional || !is_sure(in.settings[s].on, in.n_devices);
        ck_assert_uint_eq(verdict.least[s], least(s));
        chosen = verdict.setting && strcmp(verdict.setting, names[s]) == 0 ? s : chosen;
    }
    ck_assert_str_eq(verdict.in_force, names[in_force]);
    ck_assert_int_eq(verdict.is_provisional, is_provisional);
    ck_assert_int_eq(verdict.advice == BENCH_ADVICE_UNKNOWN, !is_any_measured);
    if (best == NOWHERE) {
        bool is_too_large = in.need_bytes > in.devices[in.n_devices - 1].bytes;
        ck_assert_ptr_null(verdict.setting);
        ck_assert_uint_eq(verdict.device, NOWHERE);
        ck_assert(!is_any_measured ||
                  verdict.advice == (is_too_large ? BENCH_ADVICE_TOO_LARGE : BENCH_ADVICE_NOBODY));
    } else {
        ck_assert_uint_lt(chosen, N_SETTINGS);
        ck_assert_uint_eq(verdict.device, best);
        check_choice(chosen, in_force);
    }
    ck_assert_uint_eq(strlen(verdict.lines[RECORDED]), 0);
    for (unsigned i = NEEDS; i <= TYPE; i++) {
        ck_assert(strlen(verdict.lines[i]) > 0 || i == BACK || i == GROWS);
    }
}

/* Every outcome of three settings on two devices and two multiples, of every setting in force: the
 * digits of `number` in base 3. */
START_TEST(every_row_of_three_settings_is_judged_by_the_rules)
{
    enum { N_ROWS = 531441 / 9 }; /* 3^(3 x 4) / 9: only one multiple of the third setting */
    static const uint64_t needs[] = { 20, 30, 40 };
    in.n_devices = 2;
    unsigned own = (unsigned)_i % 4;
    in.own = own < N_SETTINGS ? names[own] : NULL;
    in.need_bytes = needs[_i / 4] * GIB;
    /* In part every 11th or 37th row, another one in each test: 3 divides neither. */
    uint64_t share = suite_part(100);
    unsigned step = share >= 100 ? 1 : share >= 10 ? 11 : 37;
    for (unsigned row = (unsigned)_i % step; row < N_ROWS; row += step) {
        unsigned digits = row;
        bool is_any_measured = false;
        in.n_settings = N_SETTINGS;
        for (unsigned s = 0; s < N_SETTINGS; s++) {
            in.settings[s].allocator = names[s];
            for (unsigned d = 0; d < 2; d++, digits /= 3) {
                in.settings[s].on[d] = (bench_outcome)(digits % 3);
                is_any_measured = is_any_measured || digits % 3 != BENCH_OUTCOME_UNKNOWN;
            }
            in.settings[s].near[1] = BENCH_OUTCOME_FAILS;
            for (unsigned d = 0; d < (s == 2 ? 1 : 2); d++, digits /= 3) {
                in.settings[s].near[d] = (bench_outcome)(digits % 3);
            }
        }
        reach();
        check_verdict(own < N_SETTINGS ? own : 0, is_any_measured);
    }
}
END_TEST

/* ---- by the words ---- */

START_TEST(expandable_segments_suffice)
{
    add_setting("pleat", "-++", "++");
    add_setting("torch-native", "--+", "--");
    add_setting("torch-expandable", "-++", "++");
    reach();
    ck_assert_int_eq(verdict.advice, BENCH_ADVICE_SWITCH);
    ck_assert_str_eq(verdict.setting, "torch-expandable");
    IS(NEEDS, "30.00 GiB of live blocks at the peak, event 42 of 1,234,567");
    IS(HELD, "unknown in your own run, which this work does not tell; replayed without limit: "
             "pleat 32.00 GiB, "
             "torch-native 32.00 GiB, torch-expandable 32.00 GiB");
    IS(RUNS_ON, "24 GB: none, it needs more; 40 GB: all but torch-native; 48 GB: all");
    IS(ADVICE, "Turn expandable_segments on: it then completes on 40 GB, with PyTorch's default "
               "(torch-native) only on 48 GB; pleat completes on no smaller one.");
    IS(TYPE, "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");
}
END_TEST

START_TEST(only_pleat_completes)
{
    add_setting("pleat", "-++", "++");
    add_setting("torch-native", "---", "--");
    add_setting("torch-expandable", "--+", "-+");
    add_setting("unpooled", "-++", "++");
    in.own = "torch-native";
    in.own_bytes = 36 * GIB;
    in.own_failed = true;
    reach();
    ck_assert_int_eq(verdict.advice, BENCH_ADVICE_SWITCH);
    HAS(HELD, "36.00 GiB in the recorded run, under PyTorch's default (torch-native): 1.200 times "
              "its need; it ran out of memory");
    HAS(RUNS_ON, "40 GB: pleat, unpooled; 48 GB: all but torch-native");
    IS(ADVICE, "Use pleat: it then completes on 40 GB, with PyTorch's default (torch-native) on "
               "none of these; expandable_segments do not suffice there.");
    IS(TYPE, "python3 -m pleat.torch YOUR_SCRIPT.py");
    in.conf = "growth:frugal"; /* what was measured is what is typed */
    reach();
    IS(TYPE, "python3 -m pleat.torch --conf 'growth:frugal' YOUR_SCRIPT.py");
    in.conf = "policy:./mine.py";
    reach();
    HAS(TYPE, "YOUR_SCRIPT.py  # with the policy in C");
}
END_TEST

START_TEST(a_tie_changes_nothing)
{
    add_setting("pleat", "-++", "++");
    add_setting("torch-native", "-++", "++");
    add_setting("torch-expandable", "-++", "++");
    reach();
    ck_assert_int_eq(verdict.advice, BENCH_ADVICE_KEEP);
    IS(ADVICE, "Change nothing: PyTorch's default (torch-native) completes on 40 GB, and it needs "
               "more than 24 GB.");
    IS(TYPE, "nothing");
}
END_TEST

START_TEST(a_tie_on_devices_is_broken_by_what_is_left)
{
    add_setting("pleat", "-++", "++");
    add_setting("torch-native", "-++", "--");
    add_setting("torch-expandable", "-++", "-+");
    reach();
    ck_assert_int_eq(verdict.advice, BENCH_ADVICE_NEARER);
    ck_assert_str_eq(verdict.setting, "pleat");
    HAS(ADVICE, "completes on 40 GB; for a larger batch there use pleat: it completes in 1.02 "
                "times the need, the other not even in 1.10 times the need.");
    set_outcomes(in.settings[2].near, "++"); /* the simpler setting does as well */
    reach();
    ck_assert_str_eq(verdict.setting, "torch-expandable");
    IS(TYPE, "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");
}
END_TEST

START_TEST(nobody_completes)
{
    add_setting("pleat", "---", "--");
    add_setting("torch-native", "---", "--");
    reach();
    ck_assert_int_eq(verdict.advice, BENCH_ADVICE_NOBODY);
    HAS(RUNS_ON, "24 GB: none, it needs more; 40, 48 GB: none");
    HAS(TYPE, "pleat fit 'run.pickle'");
    in.need_bytes = 50 * GIB;
    reach();
    ck_assert_int_eq(verdict.advice, BENCH_ADVICE_TOO_LARGE);
    HAS(ADVICE, "No setting helps");
    IS(TYPE, "pleat-runtime --card 48GB python3 YOUR_SCRIPT.py");
    in.devices[2].label = "44G";
    reach();
    IS(TYPE, "pleat-runtime --memory 45056M python3 YOUR_SCRIPT.py");
}
END_TEST

START_TEST(what_was_not_measured_is_said)
{
    add_setting("pleat", "???", "??");
    add_setting("torch-native", "??+", "??");
    reach();
    ck_assert(verdict.is_provisional);
    HAS(ADVICE, "(as far as it was measured).");
    HAS(RUNS_ON, "(not measured: pleat, torch-native)");
    set_outcomes(in.settings[1].on, "???");
    reach();
    ck_assert_int_eq(verdict.advice, BENCH_ADVICE_UNKNOWN);
    HAS(ADVICE, "Too little was measured");
}
END_TEST

START_TEST(other_allocators_are_never_advised_to_a_run_of_pytorch)
{
    add_setting("torch-native", "--+", "--");
    add_setting("unpooled", "+++", "++");
    add_setting("cuda-async", "+++", "++");
    reach();
    ck_assert_int_eq(verdict.advice, BENCH_ADVICE_KEEP);
    ck_assert_str_eq(verdict.setting, "torch-native");
    HAS(ADVICE, "no setting that was measured and that PyTorch can have completes on 40 GB");
    in.is_rmm = true;
    reach();
    ck_assert_str_eq(verdict.setting, "cuda-async");
    in.is_rmm = false;
    in.n_settings = 0;
    add_setting("tf-bfc", "-++", "++"); /* nothing else was asked for */
    reach();
    ck_assert_str_eq(verdict.setting, "tf-bfc");
}
END_TEST

START_TEST(other_options_of_the_recorded_run_stay)
{
    add_setting("torch-native", "--+", "--");
    add_setting("torch-expandable", "-++", "++");
    in.own = "torch-native";
    in.own_bytes = 36 * GIB;
    in.own_conf = "expandable_segments:False,roundup_power2_divisions:[256:1,>:8],max_split_size_mb"
                  ":64";
    reach();
    IS(TYPE, "export PYTORCH_CUDA_ALLOC_CONF=roundup_power2_divisions:[256:1,>:8],"
             "max_split_size_mb:64,expandable_segments:True");
}
END_TEST

START_TEST(a_job_names_its_worst_rank)
{
    add_setting("torch-native", "-++", "++");
    in.n_ranks = 8;
    in.worst = "rank3";
    in.mean_need = 24.0 * GIB;
    reach();
    IS(NEEDS, "30.00 GiB in rank rank3, the most of 8 ranks; their mean is 24.00 GiB "
              "(imbalance 1.25)");
}
END_TEST

/* ---- of a part of a run ---- */

static void add_three(void)
{
    add_setting("torch-native", "--+", "--");
    add_setting("torch-expandable", "-++", "++");
    add_setting("pleat", "-++", "++");
}

START_TEST(a_recording_that_ends_out_of_memory_advises_nothing_but_to_record_more)
{
    add_three();
    in.own = "torch-native";
    in.own_bytes = 39 * GIB;
    in.own_failed = true;
    tell((bench_told){ .ends_failed = true, .n_entries = 5000 });
    ck_assert_int_eq(verdict.advice, BENCH_ADVICE_RECORD);
    ck_assert_ptr_null(verdict.setting);
    ck_assert_str_eq(verdict.so_far, "torch-expandable");
    ck_assert_uint_eq(verdict.device, NOWHERE);
    IS(RECORDED,
       "ends out of memory. So the run needs at least what is said here. The whole is recorded by "
       "torch.cuda.memory._record_memory_history(max_entries=10_000_000) before the first tensor "
       "and torch.cuda.memory._dump_snapshot after the last step, under pleat-runtime --memory "
       "1000G python3 YOUR_SCRIPT.py");
    IS(NEEDS, "at least 30.00 GiB of live blocks at the peak, event 42 of 1,234,567");
    IS(RUNS_ON, "unknown beyond what was recorded, which fails on 24 GB under all (it needs more), "
                "and on 40 GB under torch-native");
    IS(ADVICE,
       "Record the whole run before you choose: what is missing may need more. 24 GB is not "
       "enough, whatever the setting. On 40 GB what was recorded fails with PyTorch's "
       "default (torch-native), and not with expandable_segments:True.");
    IS(TYPE, "pleat-runtime --memory 1000G python3 YOUR_SCRIPT.py");
    IS(AT_START, "torch.cuda.memory._record_memory_history(max_entries=10_000_000)  # before the "
                 "first tensor");
    IS(AT_END, "torch.cuda.memory._dump_snapshot(\"whole.pickle\")  # after the last step");
    in.told.refused_on_bytes = UINT64_C(12800) << 20; /* no device of these */
    reach();
    HAS(ADVICE, ". Would another setting have served the refused request? pleat ab 'run.pickle' "
                "--memory 12800M.");
    in.told.refused_on_bytes = in.devices[0].bytes;
    reach();
    ck_assert_ptr_null(strstr(verdict.lines[ADVICE], "Would another setting"));
    in.told.refused_on_bytes = 0;
    in.told.has_run_over = true;
    reach();
    HAS(RECORDED, "its ring of 5,000 entries is full; ends out of memory. ");
    HAS(AT_START, "max_entries=10_000_000");
    set_outcomes(in.settings[2].on, "?++"); /* then not every setting fails on 24 GB */
    reach();
    ck_assert_ptr_null(strstr(verdict.lines[ADVICE], "24 GB is not enough"));
}
END_TEST

START_TEST(a_ring_that_ran_over_hides_what_was_needed_before)
{
    add_three();
    in.own = "torch-native";
    in.own_bytes = 41 * GIB;
    tell((bench_told){ .begins_late = true,
                       .has_run_over = true,
                       .n_entries = 5000,
                       .live_before_bytes = GIB / 2,
                       .held_before_bytes = 41 * GIB });
    ck_assert_int_eq(verdict.advice, BENCH_ADVICE_RECORD);
    HAS(RECORDED, "begins in the middle: its ring of 5,000 entries is full; 512.0 MiB lived and "
                  "41.00 GiB were held before its first entry. So the run needs at least what is "
                  "said here. The whole is recorded by torch.cuda.memory._record_memory_history(");
    HAS(NEEDS, "at least 30.00 GiB");
    ck_assert_ptr_null(strstr(verdict.lines[HELD], "times its need"));
    HAS(RUNS_ON, "unknown beyond what was recorded");
    IS(TYPE, "python3 YOUR_SCRIPT.py");
    HAS(AT_START, "max_entries=10_000_000");
    HAS(AT_END, "_dump_snapshot(\"whole.pickle\")  # after the last step");
}
END_TEST

/* Whatever else is said of the recording. */
START_TEST(lines_that_keep_more_with_each_step_are_told)
{
    add_three();
    tell((bench_told){ .n_steps = 9, .growth = "by 1 block, 2.0 MiB a step, from nano/f.py:3 g" });
    IS(GROWS, "by 1 block, 2.0 MiB a step, from nano/f.py:3 g");
    tell((bench_told){ .ends_early = true, .growth = "by 1 block, 1.0 MiB a step, from f.py:3 g" });
    IS(GROWS, "by 1 block, 1.0 MiB a step, from f.py:3 g");
    tell((bench_told){ .n_steps = 9 });
    IS(GROWS, "");
}
END_TEST

START_TEST(a_steady_rise_is_told_with_the_steps_that_are_left)
{
    add_three();
    tell((bench_told){ .rise_bytes = GIB / 512, .n_rise_steps = 1058 });
    IS(RECORDED, "what lives between two steps rises by 2.0 MiB a step, on the mean of 1,058 "
                 "steps. So the run needs at least what is said here. Each further step needs that "
                 "much more. Only a run tells which device is enough");
    HAS(NEEDS, "at least 30.00 GiB");
    ck_assert_int_eq(verdict.advice, BENCH_ADVICE_RECORD); /* no recording is ever the whole */
    HAS(ADVICE, "Only a run tells which device is enough. 24 GB is not enough, ");
    HAS(ADVICE, ". By the rise, 4,608 further steps fill 40 GB.");
    IS(TYPE, "pleat-runtime --card 40GB python3 YOUR_SCRIPT.py");
    IS(AT_START, "");
    in.told.ends_early = true;
    reach();
    HAS(RECORDED, "than between two steps before; what lives between two steps rises");
    HAS(RECORDED, ". The whole is recorded by torch");
    ck_assert_int_eq(verdict.advice, BENCH_ADVICE_RECORD);
    HAS(AT_END, "# after more steps, and between two");
}
END_TEST

/* Nothing is known to be missing, so it is steps that are to be recorded. */
START_TEST(steps_that_were_not_seen_to_repeat_leave_a_doubt)
{
    add_three();
    tell((bench_told){ .is_unrepeated = true });
    IS(RECORDED, "no step was seen to repeat, so a longer run may need more. So the run needs at "
                 "least what is said here");
    IS(NEEDS, "at least 30.00 GiB of live blocks at the peak, event 42 of 1,234,567");
    ck_assert_int_eq(verdict.advice, BENCH_ADVICE_RECORD);
    HAS(ADVICE, "Record more steps before you choose: later ones may need more. 24 GB is not ");
    IS(TYPE, "python3 YOUR_SCRIPT.py");
    HAS(AT_END, "# after more steps, and between two");
    in.told.n_steps = 12;
    reach();
    HAS(RECORDED, "the largest step was not seen to repeat often enough, so a longer run may need");
    HAS(NEEDS,
        "at least 30.00 GiB in the 12 steps that were recorded, by the rises of live memory, of ");
    tell((bench_told){ .is_unrepeated = true, .n_steps = 1 });
    HAS(NEEDS, "30.00 GiB in the step that was recorded, by the rises of live memory, of live");
    tell((bench_told){ .is_growing = true, .n_steps = 6 });
    HAS(RECORDED, "its steps grow, so a longer run may need more. So the run needs at least ");
    tell((bench_told){ .is_growing = true, .begins_late = true });
    HAS(RECORDED, "its first entry; its steps grow, so a longer run may need more. So ");
    HAS(RECORDED, ". The whole is recorded by ");
}
END_TEST

/* A run may have another kind of step later. */
START_TEST(the_need_of_a_whole_recording_is_that_of_its_steps)
{
    add_three();
    tell((bench_told){ .n_steps = 1234 });
    IS(RECORDED, "");
    IS(NEEDS, "at least 30.00 GiB in the 1,234 steps that were recorded, by the rises of live "
              "memory, of live blocks at the peak, event 42 of 1,234,567");
    HAS(RUNS_ON, "(the 1,234 recorded steps) 24 GB: none, it needs more; ");
    HAS(ADVICE, "it then completes the 1,234 recorded steps on 40 GB, with ");
    in.own = "torch-expandable";
    reach();
    HAS(ADVICE, "Change nothing: expandable_segments:True completes the 1,234 recorded steps on ");
    set_outcomes(in.settings[1].near, "-+");
    reach();
    HAS(ADVICE, "expandable_segments:True completes the 1,234 recorded steps on 40 GB; for a ");
    HAS(ADVICE, "; other steps may need more.");
}
END_TEST

START_TEST(kinds_of_entries_that_a_history_lacks_are_told_with_the_need)
{
    add_three();
    tell((bench_told){ .lacks_requests = true });
    HAS(NEEDS, "; less if blocks waited for other streams, which are counted, as the history lacks "
               "free_requested");
    ck_assert_str_eq(verdict.lines[RECORDED], ""); /* a bound above is no part */
    tell((bench_told){ .lacks_ends = true });
    HAS(NEEDS, "; how much waits for other streams is unknown, as the history lacks "
               "free_completed");
}
END_TEST

/* ---- of one device of several ---- */

START_TEST(other_devices_of_a_snapshot_are_named)
{
    add_three();
    reach();
    IS(DEVICE, "");
    in.of = (bench_devices){
        .judged = 1, .n_others = 2, .others = { 0, 3 }, .needs = { 2 * GIB, GIB / 2 }
    };
    reach();
    IS(DEVICE, "device 1 is judged, which needs most; with memory, too: 0 (at least 2.00 GiB), 3 "
               "(at least 512.0 MiB). Type pleat ab 'run.pickle:device=0', and so on");
    in.work = "a:b/run.pickle:memory=4G,device=3,failures=drop";
    in.of = (bench_devices){
        .judged = 3, .is_asked = true, .n_others = 1, .others = { 2 }, .needs = { GIB }
    };
    reach();
    IS(DEVICE, "device 3 is judged, as asked for; with memory, too: 2 (at least 1.00 GiB). Type "
               "pleat ab 'a:b/run.pickle:device=2,memory=4G,failures=drop'");
    in.of.have_failed[0] = true;
    reach();
    HAS(DEVICE, "with memory, too: 2 (out of memory; at least ");
    in.of.is_asked = false;
    in.of.has_failed = true;
    reach();
    HAS(DEVICE, "device 3 is judged, which ran out of memory; with memory, too: 2 (out of memory, "
                "too; at least ");
    in.of.has_failed = false;
    in.n_ranks = 8;
    in.worst = "rank3";
    reach();
    HAS(DEVICE, "of rank rank3, device 3 is judged, which needs most; ");
}
END_TEST

/* Each way to be a part, alone. Some of these settings complete on all devices, and no word says
 * that a device is enough, or how much is needed at most. */
START_TEST(no_part_of_a_run_calls_a_device_enough)
{
    static const bench_told parts[] = {
        { .has_no_history = true },
        { .begins_late = true, .held_before_bytes = 44 * GIB },
        { .has_run_over = true },
        { .ends_failed = true },
        { .has_gone_on = true, .most_refused_bytes = 300 * GIB },
        { .has_gone_on = true, .refused_on_bytes = 1000 * GIB },
        { .ends_early = true },
        { .is_unrepeated = true, .n_steps = 3 },
        { .is_growing = true, .n_steps = 6 },
        { .rise_bytes = GIB / 512, .n_rise_steps = 9, .n_steps = 10 },
        { .n_pools = 2, .pool_bytes = GIB, .n_steps = 10 },
        { .unexplained_bytes = 40 * GIB, .replayed_bytes = GIB, .n_steps = 10 },
    };
    static const char *const words[] = { "completes", "suffices",      "all but", "Change nothing",
                                         "Turn ",     "perhaps",       "at most", "40, 48 GB: all",
                                         "(✓)",       "times its need" };
    const bench_told *told = &parts[_i];
    for (unsigned row = 0; row < 3; row++) {
        in.n_settings = 0;
        add_setting("torch-native", row == 0 ? "-++" : "--+", "--");
        add_setting("torch-expandable", row == 2 ? "--+" : "-++", "++");
        add_setting("pleat", "-++", "++");
        in.own = "torch-native";
        in.own_bytes = 36 * GIB;
        in.told = *told;
        reach();
        ck_assert_int_eq(verdict.advice, BENCH_ADVICE_RECORD);
        ck_assert_ptr_null(verdict.setting);
        ck_assert_uint_eq(verdict.device, NOWHERE);
        HAS(NEEDS, "at least 30.00 GiB");
        ck_assert_str_ne(verdict.lines[RECORDED], "");
        for (unsigned line = 0; line < BENCH_VERDICT_LINES; line++) {
            for (unsigned w = 0; w < sizeof words / sizeof words[0]; w++) {
                ck_assert_msg(strstr(verdict.lines[line], words[w]) == NULL, "%s: %s", words[w],
                              verdict.lines[line]);
            }
        }
        ck_assert_str_eq(verdict.so_far, row == 2 ? "pleat" : "torch-expandable");
        ck_assert_int_eq(strstr(verdict.lines[ADVICE], "24 GB is not enough, ") != NULL,
                         !told->has_gone_on);
        ck_assert_int_eq(
            strstr(verdict.lines[ADVICE], ". On 40 GB what was recorded fails ") != NULL, row > 0);
        ck_assert_int_eq(strncmp(verdict.lines[TYPE], "pleat-runtime --card 40GB ", 26) == 0,
                         !bench_told_wants_recording(told));
        ck_assert_int_eq(verdict.lines[AT_START][0] != '\0', bench_told_wants_recording(told));
    }
}
END_TEST

/* A search for a batch takes what a device has. More room for the recording changes nothing,
 * and what does not fit a card may take less there. */
START_TEST(a_run_that_takes_what_a_device_has_is_not_recorded_again)
{
    add_setting("torch-native", "---", "--");
    in.need_bytes = 998 * GIB;
    tell((bench_told){ .has_gone_on = true,
                       .most_refused_bytes = 2 * GIB,
                       .refused_on_bytes = 999 * GIB,
                       .n_steps = 9 });
    ck_assert_int_eq(verdict.advice, BENCH_ADVICE_RECORD);
    IS(RECORDED,
       "goes on after a refused request of 2.00 GiB, which is not counted: it takes what "
       "a device has, so the need is that on its own. Only a run tells which device is enough");
    IS(ADVICE, "Only a run tells which device is enough.");
    IS(TYPE, "pleat-runtime --card 48GB python3 YOUR_SCRIPT.py");
    in.told.refused_on_bytes = 80 * GIB;
    bench_verdict_explain(&in);
    reach();
    HAS(RECORDED, "a larger device would have served it, a smaller one refuses more. The whole ");
    HAS(NEEDS, "at least 998.00 GiB, on the recorded device, in the 9 steps");
    HAS(RUNS_ON, "which rules out none of these sizes");
    IS(TYPE, "pleat-runtime --memory 1000G python3 YOUR_SCRIPT.py");
    bench_told job = in.told;
    in.told.refused_on_bytes = 999 * GIB; /* another rank */
    bench_told_unite(&job, &in.told);
    ck_assert(bench_told_wants_room(&job));
}
END_TEST

/* What a gap has freed may count as live, so even a need above all devices rules none out. */
START_TEST(a_history_with_a_gap_rules_nothing_out)
{
    add_three();
    in.told = (bench_told){ .is_apart = true, .n_steps = 12 };
    for (unsigned row = 0; row < 2; row++) {
        in.need_bytes = row == 0 ? 30 * GIB : 300 * GIB;
        bench_verdict_explain(&in);
        reach();
        ck_assert_int_eq(verdict.advice, BENCH_ADVICE_RECORD);
        ck_assert_ptr_null(verdict.so_far);
        HAS(NEEDS, row == 0 ? "at least 30.00 GiB, if its" : "at least 300.00 GiB, if its");
        IS(RUNS_ON, "unknown beyond what was recorded, which rules out none of these sizes");
        IS(ADVICE, "Record the whole run before you choose: what is missing may need more.");
    }
}
END_TEST

/* What fails on a part fails on the whole. */
START_TEST(a_part_that_is_too_large_is_enough_to_say_so)
{
    add_setting("torch-native", "---", "--");
    in.need_bytes = 50 * GIB;
    tell((bench_told){ .ends_failed = true });
    ck_assert_int_eq(verdict.advice, BENCH_ADVICE_TOO_LARGE);
    in.need_bytes = 40 * GIB;
    reach();
    HAS(ADVICE,
        "None of these sizes suffices for what was measured: what was recorded fails on all");
}
END_TEST

START_TEST(everything_that_is_missing_is_said)
{
    add_three();
    tell((bench_told){ .has_no_history = true });
    HAS(RECORDED, "no history, only the blocks that lived at the moment of the snapshot. So ");
    tell((bench_told){ .is_apart = true });
    HAS(RECORDED, "its entries and the blocks of the snapshot disagree, as after a gap. So the run "
                  "may need less or more than is said here. The whole is recorded by ");
    tell((bench_told){ .ends_early = true });
    HAS(RECORDED, "ends in the middle of a step, or still grows: more lives at its end than "
                  "between two steps before. So ");
    tell((bench_told){ .begins_late = true, .live_before_bytes = 12 * GIB });
    HAS(RECORDED, "begins in the middle: 12.00 GiB lived before its first entry. So ");
    tell((bench_told){ .has_run_over = true, .may_run_over = true, .n_entries = 1000 });
    HAS(RECORDED, "begins in the middle: its ring of 1,000 entries is perhaps full. So ");
    tell((bench_told){ .has_gone_on = true });
    HAS(RECORDED, "goes on after a refused request, which is not counted: a larger device would ");
    ck_assert_int_eq(verdict.advice, BENCH_ADVICE_RECORD);
}
END_TEST

/* Ten graphs keep 30 GiB apart; a replay shares them. */
START_TEST(what_private_pools_keep_is_a_need)
{
    add_setting("torch-native", "+++", "++");
    add_setting("pleat", "+++", "++");
    in.settings[0].held_bytes = in.settings[1].held_bytes = 5 * GIB;
    in.own = "torch-native";
    in.own_bytes = 31 * GIB;
    in.live_bytes = 4 * GIB;
    in.told = (bench_told){ .n_pools = 10, .pool_bytes = 27 * GIB, .pool_need_bytes = 30 * GIB };
    bench_verdict_explain(&in);
    reach();
    IS(RECORDED, "10 private pools of graphs or MemPools hold 27.00 GiB apart from all else, which "
                 "a replay does not; the run held 31.00 GiB, its replay 5.00 GiB. So the run needs "
                 "at least what is said here. Only a run tells which device is enough");
    IS(NEEDS, "at least 30.00 GiB with what private pools keep; 4.00 GiB of live blocks at the "
              "peak, event 42 of 1,234,567");
    IS(RUNS_ON, "unknown beyond what was recorded, which fails on 24 GB under all (it needs more)");
    HAS(ADVICE, "24 GB is not enough, whatever the setting; torch-expandable was not measured.");
    IS(TYPE, "pleat-runtime --card 40GB python3 YOUR_SCRIPT.py");
    ck_assert_int_eq(in.settings[1].on[0], BENCH_OUTCOME_FAILS);
    ck_assert_int_eq(in.settings[1].near[1], BENCH_OUTCOME_COMPLETES);
}
END_TEST

START_TEST(more_held_than_the_replay_holds_is_not_explained)
{
    add_setting("torch-native", "-++", "++");
    in.own = "torch-native";
    in.own_bytes = 40 * GIB;
    in.settings[0].held_bytes = 36 * GIB; /* a tenth less */
    bench_verdict_explain(&in);
    ck_assert(bench_told_is_whole(&in.told));
    in.settings[0].held_bytes--;
    bench_verdict_explain(&in);
    reach();
    HAS(RECORDED, "the run held 40.00 GiB, its replay 36.00 GiB, so the history does not explain "
                  "the rest (a private pool, a rounding?). So the run needs at least");
    HAS(NEEDS, "at least 30.00 GiB of live");
    IS(RUNS_ON, "unknown beyond what was recorded, which fails on 24 GB under all (it needs more)");
    ck_assert_ptr_null(strstr(verdict.lines[HELD], "times its need"));
    in.told = (bench_told){ .begins_late = true, .held_before_bytes = GIB };
    bench_verdict_explain(&in); /* the cache from before explains it */
    ck_assert_uint_eq(in.told.unexplained_bytes, 0);
}
END_TEST

START_TEST(pending_memory_is_told_apart)
{
    add_three();
    in.pending_bytes = 23 * GIB;
    reach();
    HAS(NEEDS,
        "30.00 GiB of live blocks at the peak, event 42 of 1,234,567; up to 23.00 GiB more are "
        "freed and wait for other streams, which is no need");
}
END_TEST

START_TEST(a_run_under_pleat_is_one_and_its_options_are_its_own)
{
    add_three();
    in.own = "pleat";
    in.own_bytes = 31 * GIB;
    in.own_conf = "allocator:pleat,growth:frugal";
    reach();
    ck_assert_str_eq(verdict.in_force, "pleat");
    HAS(HELD,
        "31.00 GiB in the recorded run, under pleat with growth:frugal: 1.033 times its need");
    IS(ADVICE, "Change nothing: pleat completes on 40 GB, and it needs more than 24 GB.");
    set_outcomes(in.settings[2].on, "--+"); /* PyTorch does not know pleat's options */
    reach();
    IS(TYPE, "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");
}
END_TEST

START_TEST(no_text_overflows_its_line)
{
    static char conf[4096];
    memset(conf, 'c', sizeof conf - 1);
    in.own = "torch-native";
    in.own_conf = conf;
    add_setting("torch-native", "--+", "--");
    add_setting("torch-expandable", "-++", "++");
    reach();
    ck_assert_uint_eq(strlen(verdict.lines[TYPE]), BENCH_VERDICT_BYTES - 1);
}
END_TEST

SUITE(bench_verdict)
{
    TCase *rules = tcase_create("rules");
    tcase_add_checked_fixture(rules, set_up, NULL);
    tcase_add_loop_test(rules, every_row_of_three_settings_is_judged_by_the_rules, 0, 12);
    suite_add_tcase(suite, rules);
    TCase *words = tcase_create("words");
    tcase_add_checked_fixture(words, set_up, NULL);
    tcase_add_test(words, expandable_segments_suffice);
    tcase_add_test(words, only_pleat_completes);
    tcase_add_test(words, a_tie_changes_nothing);
    tcase_add_test(words, a_tie_on_devices_is_broken_by_what_is_left);
    tcase_add_test(words, nobody_completes);
    tcase_add_test(words, what_was_not_measured_is_said);
    tcase_add_test(words, other_allocators_are_never_advised_to_a_run_of_pytorch);
    tcase_add_test(words, other_options_of_the_recorded_run_stay);
    tcase_add_test(words, a_job_names_its_worst_rank);
    tcase_add_test(words, no_text_overflows_its_line);
    suite_add_tcase(suite, words);
    TCase *parts = tcase_create("parts");
    tcase_add_checked_fixture(parts, set_up, NULL);
    tcase_add_test(parts, a_recording_that_ends_out_of_memory_advises_nothing_but_to_record_more);
    tcase_add_test(parts, a_ring_that_ran_over_hides_what_was_needed_before);
    tcase_add_test(parts, lines_that_keep_more_with_each_step_are_told);
    tcase_add_test(parts, a_steady_rise_is_told_with_the_steps_that_are_left);
    tcase_add_test(parts, steps_that_were_not_seen_to_repeat_leave_a_doubt);
    tcase_add_test(parts, the_need_of_a_whole_recording_is_that_of_its_steps);
    tcase_add_test(parts, kinds_of_entries_that_a_history_lacks_are_told_with_the_need);
    tcase_add_test(parts, other_devices_of_a_snapshot_are_named);
    tcase_add_loop_test(parts, no_part_of_a_run_calls_a_device_enough, 0, 12);
    tcase_add_test(parts, a_history_with_a_gap_rules_nothing_out);
    tcase_add_test(parts, a_run_that_takes_what_a_device_has_is_not_recorded_again);
    tcase_add_test(parts, a_part_that_is_too_large_is_enough_to_say_so);
    tcase_add_test(parts, everything_that_is_missing_is_said);
    tcase_add_test(parts, what_private_pools_keep_is_a_need);
    tcase_add_test(parts, more_held_than_the_replay_holds_is_not_explained);
    tcase_add_test(parts, pending_memory_is_told_apart);
    tcase_add_test(parts, a_run_under_pleat_is_one_and_its_options_are_its_own);
    suite_add_tcase(suite, parts);
}
