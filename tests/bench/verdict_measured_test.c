/* verdict_measured_test.c - a verdict speaks of what was measured, and says what was not. */
/* labels: unit */
#include <string.h>

#include "bench/ab/verdict.h"
#include "bench/base/cards.h"
#include "tests/support/suite.h"

#define GIB (UINT64_C(1) << 30)

enum { N_SETTINGS = 3, NEEDS = 2, HELD = 4, RUNS_ON = 5, ADVICE = 6, BACK = 7, TYPE = 8 };

static const char *const names[N_SETTINGS] = { "torch-native", "torch-expandable", "pleat" };
static bench_verdict_input in;
static bench_verdict verdict;

/* A job of 30 GiB, cards of 24, 40 and 48 GB. */
static void set_up(void)
{
    in = (bench_verdict_input){
        .work = "run.pickle",
        .need_bytes = 30 * GIB,
        .n_events = 42,
        .worst = "run",
        .mean_need = 30.0 * GIB,
        .own_conf = "",
        .n_devices = 3,
        .devices = { { "24 GB", 22 * GIB }, { "40 GB", 39 * GIB }, { "48 GB", 44 * GIB } }
    };
}

static void reach(void)
{
    bench_verdict_reach(&in, &verdict);
}

static void has(const char *words)
{
    ck_assert_msg(strstr(verdict.lines[ADVICE], words) != NULL, "%s", verdict.lines[ADVICE]);
}

/* "+" completes, "-" fails, "?" was not measured. */
static void add_setting(const char *allocator, const char *on)
{
    bench_verdict_setting *s = &in.settings[in.n_settings++];
    *s = (bench_verdict_setting){ .allocator = allocator, .held_bytes = 32 * GIB };
    for (unsigned d = 0; on[d]; d++) {
        s->on[d] = on[d] == '+'   ? BENCH_OUTCOME_COMPLETES
                   : on[d] == '-' ? BENCH_OUTCOME_FAILS
                                  : BENCH_OUTCOME_UNKNOWN;
    }
}

/* Names the advice the settings that were not measured, and says it nothing else of them? */
static void check_claims(unsigned present)
{
    const char *advice = verdict.lines[ADVICE];
    bool is_choice = verdict.setting || verdict.advice == BENCH_ADVICE_NOBODY;
    bool has_left_out = false;
    const char *tail = strstr(advice, " not measured");
    for (unsigned s = 0; s < N_SETTINGS; s++) {
        bool is_known = false;
        for (unsigned i = 0; i < in.n_settings; i++) {
            is_known = is_known || (strcmp(in.settings[i].allocator, names[s]) == 0 &&
                                    (in.settings[i].on[0] || in.settings[i].on[1]));
        }
        const char *named = tail ? strstr(strrchr(advice, ';'), names[s]) : NULL;
        ck_assert_msg(!is_choice || (named != NULL) == !is_known, "%u: %s", present, advice);
        has_left_out = has_left_out || !is_known;
        if (!is_known && s == 0) {
            ck_assert_msg(!strstr(advice, ", with "), "%s", advice);
        } else if (!is_known && s == 1) {
            ck_assert_msg(!strstr(advice, "do not suffice"), "%s", advice);
        } else if (!is_known) {
            ck_assert_msg(!strstr(advice, "pleat completes on no"), "%s", advice);
        }
    }
    if (has_left_out) {
        ck_assert_msg(!strstr(advice, "no other setting"), "%s", advice);
        ck_assert_msg(!strstr(advice, "suffices,"), "%s", advice);
    }
}

/* Of each set of settings, whatever the outcomes on two devices: the digits of a row in base 3. */
START_TEST(nothing_is_said_of_what_was_not_measured)
{
    enum { N_ROWS = 729 };
    in.n_devices = 2;
    for (unsigned present = 1; present < 1U << N_SETTINGS; present++) {
        for (unsigned row = 0; row < N_ROWS; row++) {
            unsigned digits = row;
            in.n_settings = 0;
            for (unsigned s = 0; s < N_SETTINGS; s++, digits /= 9) {
                if (present & 1U << s) {
                    add_setting(names[s], "");
                    in.settings[in.n_settings - 1].on[0] = (bench_outcome)(digits % 3);
                    in.settings[in.n_settings - 1].on[1] = (bench_outcome)(digits / 3 % 3);
                }
            }
            reach();
            check_claims(present);
        }
    }
}
END_TEST

START_TEST(a_part_rules_out_no_device_for_what_was_not_measured)
{
    add_setting("pleat", "--+");
    in.told.has_run_over = true;
    reach();
    ck_assert_int_eq(verdict.advice, BENCH_ADVICE_RECORD);
    has("24 GB is not enough, whatever the setting; torch-native, torch-expandable were not");
    ck_assert_ptr_null(strstr(verdict.lines[ADVICE], "40 GB"));
    ck_assert_ptr_null(strstr(verdict.lines[ADVICE], "fails with"));
    add_setting("torch-native", "---");
    add_setting("torch-expandable", "--+");
    reach();
    has("40 GB is not enough, whatever the setting. On 48 GB what was recorded fails with");
    ck_assert_ptr_null(strstr(verdict.lines[ADVICE], "measured"));
}
END_TEST

/* A replay has no pools, so it may hold less than a run. */
START_TEST(what_is_replayed_without_pools_is_a_least)
{
    add_setting(names[2], "-++");
    for (uint64_t n = 0; n < 2; n++) {
        in.told.n_pools = n;
        reach();
        ck_assert_ptr_nonnull(strstr(verdict.lines[HELD], "pleat 32.00 GiB"));
        ck_assert_int_eq(strstr(verdict.lines[HELD], "without pools, at least: ") != NULL, n > 0);
    }
}
END_TEST

START_TEST(short_compact_is_advised_only_where_pleat_alone_does_not_do)
{
    static const char type[] = "python3 -m pleat.torch --conf short:compact YOUR_SCRIPT.py";
    add_setting("torch-native", "--+");
    add_setting("torch-expandable", "--+");
    add_setting("pleat", "--+");
    add_setting(BENCH_SETTING_COMPACT, "-++");
    reach();
    ck_assert_str_eq(verdict.setting, BENCH_SETTING_COMPACT);
    ck_assert_str_eq(verdict.lines[ADVICE],
                     "Use pleat with short:compact: it then completes on 40 GB, with PyTorch's "
                     "default (torch-native) only on 48 GB; without short:compact pleat does so "
                     "only on 48 GB; expandable_segments do not suffice there; no other thread may "
                     "launch work during a request (growth:frugal needs no such promise, but more "
                     "time in the driver: --conf growth:frugal measures it).");
    ck_assert_str_eq(verdict.lines[TYPE], type);
    in.own = "pleat"; /* in force, so it is named once */
    reach();
    has("Use pleat with short:compact: it then completes on 40 GB, with pleat only on 48 GB; exp");
    in.own = NULL;
    in.settings[2].on[1] = BENCH_OUTCOME_COMPLETES;
    reach();
    ck_assert_str_eq(verdict.setting, "pleat");
    ck_assert_ptr_null(strstr(verdict.lines[ADVICE], "compact"));
}
END_TEST

START_TEST(short_compact_may_be_the_one_that_completes_nearest)
{
    in.n_near = 2;
    in.near[0] = (bench_verdict_device){ .label = "1.02x", .bytes = 306 * GIB / 10 };
    in.near[1] = (bench_verdict_device){ .label = "1.10x", .bytes = 33 * GIB };
    add_setting("torch-native", "-++");
    add_setting("torch-expandable", "-++");
    add_setting("pleat", "-++");
    add_setting(BENCH_SETTING_COMPACT, "-++");
    in.settings[3].near[0] = in.settings[3].near[1] = BENCH_OUTCOME_COMPLETES;
    for (int s = 0; s < 3; s++) {
        in.settings[s].near[0] = BENCH_OUTCOME_FAILS;
        in.settings[s].near[1] = s == 2 ? BENCH_OUTCOME_COMPLETES : BENCH_OUTCOME_FAILS;
    }
    reach();
    has("for a larger batch there use pleat with short:compact: it completes in 1.02 times the "
        "need, the other not even in 1.10 times the need; without short:compact pleat does so only "
        "in 1.10 times the need; no other thread may launch work during a request (growth:frugal "
        "needs no such promise, but more time in the driver: --conf growth:frugal measures it).");
}
END_TEST

static unsigned card_of(const char *label)
{
    unsigned i = 0;
    while (strcmp(bench_cards[i].label, label) != 0) {
        i++;
    }
    return i;
}

/* Real cards: the advice tells how much memory they leave, and what does on a larger one of that
 * name. */
START_TEST(a_card_tells_its_memory_and_that_others_of_its_name_have_more)
{
    const bench_card *card = &bench_cards[card_of("24 GB")];
    in.need_bytes = 21 * GIB;
    in.devices[0] = (bench_verdict_device){ .label = card->label, .bytes = card->bytes };
    add_setting("torch-native", "-++");
    add_setting("torch-expandable", "-++");
    add_setting("pleat", "+++");
    reach();
    has("; 24 GB are 21.50 GiB for tensors (L4, A10G).");
    in.settings[1].held_bytes = 23 * GIB; /* less than an RTX 4090 leaves */
    reach();
    has("; 24 GB are 21.50 GiB for tensors (L4, A10G), and 23.10 GiB on others (RTX 4090): there "
        "expandable_segments:True suffices.");
    in.settings[1].held_bytes = 32 * GIB;
    in.n_near = 1;
    in.near[0] = (bench_verdict_device){ .label = "1.05x", .bytes = 22 * GIB };
    in.settings[0].near[0] = in.settings[1].near[0] = BENCH_OUTCOME_COMPLETES;
    reach();
    has("(RTX 4090): there PyTorch's default (torch-native) suffices.");
    in.near[0].bytes = 24 * GIB;
    reach();
    has("(L4, A10G).");
    in.devices[0].bytes += GIB; /* a size of the user's, whatever it is called */
    reach();
    ck_assert_ptr_null(strstr(verdict.lines[ADVICE], "for tensors"));
}
END_TEST

/* As the user counts, where the stacks tell: of two micro-steps each. */
START_TEST(steps_are_those_of_the_optimizer_where_they_are_known)
{
    add_setting("torch-native", "--+");
    add_setting("pleat", "-++");
    in.told = (bench_told){ .n_steps = 60, .n_optimizer_steps = 30 };
    reach();
    const char *needs = verdict.lines[NEEDS];
    ck_assert_ptr_nonnull(strstr(needs, "in the 30 optimizer steps that were recorded, of live"));
    ck_assert_ptr_nonnull(strstr(verdict.lines[RUNS_ON], "(the 30 recorded optimizer steps) 24"));
    has("it then completes the 30 recorded optimizer steps on 40 GB, with ");
    in.told.n_optimizer_steps = 0;
    reach();
    ck_assert_ptr_nonnull(strstr(needs, "the 60 steps that were recorded, by the rises of live"));
}
END_TEST

START_TEST(a_change_tells_the_driver_s_time_and_the_way_back)
{
    add_setting("torch-native", "-++");
    add_setting("pleat", "+++");
    reach();
    ck_assert_ptr_null(strstr(verdict.lines[ADVICE], "driver calls"));
    in.settings[1].driver_ms[0] = 681;
    in.settings[1].driver_ms[1] = 5;
    reach();
    has("; driver calls take 0.68 s there in a first pass.");
    in.settings[0].driver_ms[1] = 290;
    in.is_simulated = true;
    reach();
    has("; driver calls take 0.68 s there in a first pass, modelled (torch-native, on 40 GB: 0.29 "
        "s).");
    ck_assert_ptr_nonnull(strstr(verdict.lines[BACK], "start the program again"));
    in.settings[0].on[0] = BENCH_OUTCOME_COMPLETES;
    reach();
    ck_assert_str_eq(verdict.lines[BACK], "");
    ck_assert_ptr_null(strstr(verdict.lines[ADVICE], "driver calls"));
}
END_TEST

SUITE(bench_verdict_measured)
{
    TCase *all = suite_case(suite, "all", set_up, NULL);
    tcase_add_test(all, nothing_is_said_of_what_was_not_measured);
    tcase_add_test(all, a_part_rules_out_no_device_for_what_was_not_measured);
    tcase_add_test(all, short_compact_is_advised_only_where_pleat_alone_does_not_do);
    tcase_add_test(all, short_compact_may_be_the_one_that_completes_nearest);
    tcase_add_test(all, a_card_tells_its_memory_and_that_others_of_its_name_have_more);
    tcase_add_test(all, steps_are_those_of_the_optimizer_where_they_are_known);
    tcase_add_test(all, a_change_tells_the_driver_s_time_and_the_way_back);
    tcase_add_test(all, what_is_replayed_without_pools_is_a_least);
}
