/* generator_test.c - generated runs match their specs. They are steady, and equal on all machines.
 * With the model of a bundled trace, a generated run resembles the trace. */
/* labels: unit long */
#include <check.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "bench/command/parse_options.h"
#include "bench/generate/generators.h"
#include "bench/generate/lengths.h"
#include "bench/run/replay.h"
#include "bench/run/setup.h"
#include "bench/run/survey.h"
#include "bench/works/work.h"
#include "tests/support/suite.h"

static bench_failure failure;

static void set_up(void)
{
    ck_assert_int_eq(setenv("PLEAT_TRACES", PLEAT_SOURCE_DIR "/bench/traces", 1), 0);
    ck_assert_int_eq(unsetenv("PLEAT_CONF"), 0);
    ck_assert_int_eq(unsetenv("PLEAT_SIM"), 0);
}

static void open_work(const char *spec, bench_work *work)
{
    ck_assert_msg(bench_work_open(spec, work, &failure), "%s", failure.text);
}

static bench_work open_seed(const char *spec, unsigned seed)
{
    char text[512];
    bench_work work;
    snprintf(text, sizeof text, "%s,seed=%u", spec, seed);
    open_work(text, &work);
    return work;
}

static uint64_t peak_of(const char *spec)
{
    bench_work work;
    open_work(spec, &work);
    uint64_t peak = work.peak_live_bytes;
    bench_work_close(&work);
    return peak;
}

/* Short specs, for every generator and every kind of step. */
static const char *const small[] = {
    "decoder:layers=2,hidden=64,heads=4,vocab=500,length=40,sigma=0.5,iterations=6",
    "decoder:layers=2,hidden=64,heads=4,kv_heads=2,vocab=500,length=40,sigma=0.5,checkpoint=yes,"
    "accumulate=2,shards=4,clip=yes,iterations=6",
    "decoder:layers=2,hidden=64,heads=4,vocab=500,length=40,shards=2,ahead=0,optimizer=adamw,"
    "iterations=6",
    "decoder:layers=2,hidden=64,heads=4,vocab=500,length=40,lora=4,checkpoint=yes,dtype=amp,"
    "attention=eager,iterations=6",
    "decoder:family=gpt,layers=2,hidden=64,heads=4,vocab=500,length=40,most_length=64,positions=64,"
    "dtype=amp,dropout=yes,tied=yes,lora=2,optimizer=sgd,iterations=6",
    "decoder:family=gpt,layers=2,hidden=64,heads=4,vocab=500,length=40,most_length=64,positions=64,"
    "dtype=fp32,attention=eager,mlp=gated,checkpoint=yes,optimizer=none,iterations=6",
    "moe:layers=2,hidden=64,heads=4,ff=96,vocab=500,length=40,experts=4,iterations=6",
    "moe:family=gpt,layers=2,hidden=64,heads=4,ff=96,vocab=500,length=40,most_length=64,experts=4,"
    "top_k=4,dtype=amp,checkpoint=yes,iterations=6",
    "conv:width=8,classes=10,batch=2,most_height=320,most_width=320,iterations=6",
    "conv:depth=101,width=4,classes=10,batch=1,workspaces=no,optimizer=adamw,iterations=6",
    "serving:layers=2,hidden=64,heads=4,ff=96,vocab=500,requests=6,prompt=30,output=10,"
    "iterations=20",
    "serving:layers=2,hidden=64,heads=4,kv_heads=1,ff=96,vocab=500,requests=6,prompt=30,output=10,"
    "cache=paged,iterations=20",
    "rlhf:layers=2,hidden=64,heads=4,kv_heads=2,ff=96,vocab=500,prompt=20,output=10,iterations=6",
    "rlhf:layers=2,hidden=64,heads=4,kv_heads=0,ff=96,vocab=500,prompt=20,output=10,cache=paged,"
    "reference=no,"
    "checkpoint=yes,epochs=2,iterations=6",
    "churn:iterations=6",
};
enum { N_SMALL = sizeof small / sizeof small[0] };

/* A number that tells sequences of events apart (FNV-1a). */
static uint64_t digest(const bench_work *work)
{
    bench_cursor cursor;
    const bench_event *entries;
    size_t n;
    uint64_t hash = UINT64_C(14695981039346656037);
    ck_assert_msg(bench_cursor_open(work, &cursor, &failure), "%s", failure.text);
    while ((n = bench_cursor_next(&cursor, &entries, &failure)) != 0) {
        ck_assert_msg(n != SIZE_MAX, "%s", failure.text);
        for (size_t i = 0; i < n; i++) {
            hash = (hash ^ entries[i].bytes) * UINT64_C(1099511628211);
            hash = (hash ^ entries[i].slot) * UINT64_C(1099511628211);
            hash = (hash ^ entries[i].stream) * UINT64_C(1099511628211);
        }
    }
    bench_cursor_close(&cursor);
    return hash;
}

START_TEST(the_same_spec_gives_the_same_events)
{
    bench_work work = open_seed(small[_i], 7);
    uint64_t first = digest(&work);
    ck_assert_uint_eq(digest(&work), first);
    bench_work_close(&work);
    work = open_seed(small[_i], 7);
    ck_assert_uint_eq(digest(&work), first);
    bench_work_close(&work);
}
END_TEST

START_TEST(another_seed_gives_other_events)
{
    static const char *const random[] = {
        "decoder:layers=2,hidden=64,heads=4,vocab=500,length=40,sigma=0.5,iterations=6",
        "decoder:layers=2,hidden=64,heads=4,vocab=500,shards=4,iterations=6",
        "moe:layers=2,hidden=64,heads=4,ff=96,vocab=500,iterations=2",
        "conv:width=8,classes=10,batch=2,iterations=6",
        "serving:layers=2,hidden=64,heads=4,ff=96,vocab=500,iterations=6",
        "rlhf:layers=2,hidden=64,heads=4,kv_heads=0,ff=96,vocab=500,iterations=3",
        "churn:iterations=6",
    };
    for (size_t i = 0; i < sizeof random / sizeof random[0]; i++) {
        bench_work one = open_seed(random[i], 1);
        bench_work other = open_seed(random[i], 2);
        ck_assert_msg(digest(&one) != digest(&other), "%s", random[i]);
        bench_work_close(&one);
        bench_work_close(&other);
    }
}
END_TEST

START_TEST(what_lives_between_iterations_does_not_drift)
{
    bench_work work;
    bench_cursor cursor;
    const bench_event *entries;
    uint64_t live = 0;
    bool is_steady = strncmp(small[_i], "serving", 7) != 0 && strncmp(small[_i], "churn", 5) != 0;
    open_work(small[_i], &work);
    ck_assert_msg(bench_cursor_open(&work, &cursor, &failure), "%s", failure.text);
    for (unsigned i = 0; bench_cursor_next(&cursor, &entries, &failure) != 0; i++) {
        if (i > 0 && is_steady) {
            ck_assert_uint_eq(cursor.tape.live_bytes, live);
        }
        live = cursor.tape.live_bytes;
        ck_assert_uint_gt(live, 0);
        ck_assert_uint_lt(live, work.peak_live_bytes);
    }
    bench_cursor_close(&cursor);
    bench_work_close(&work);
}
END_TEST

/* Host memory in use after so many iterations. */
static size_t use_after(bench_cursor *cursor, unsigned n)
{
    const bench_event *entries;
    for (unsigned i = 0; i < n; i++) {
        ck_assert_uint_ne(bench_cursor_next(cursor, &entries, &failure), 0);
    }
    return (size_t)mallinfo2().uordblks;
}

START_TEST(a_long_run_needs_no_more_host_memory_than_a_short_one)
{
    char spec[512];
    bench_work work;
    bench_cursor cursor;
    snprintf(spec, sizeof spec, "%.*s=800", (int)(strrchr(small[_i], '=') - small[_i]), small[_i]);
    open_work(spec, &work);
    ck_assert_uint_eq(work.n_marks, 800);
    ck_assert_msg(bench_cursor_open(&work, &cursor, &failure), "%s", failure.text);
    size_t early = use_after(&cursor, 400);
    size_t late = use_after(&cursor, 400);
    /* Tables that double at a new peak of events or of live blocks. */
    ck_assert_msg(late <= 2 * early + (1 << 20), "%zu, then %zu", early, late);
    ck_assert_uint_le(cursor.tape.slot_capacity, 4 * (size_t)work.n_slots + 2048);
    bench_cursor_close(&cursor);
    bench_work_close(&work);
}
END_TEST

START_TEST(every_generator_replays_without_failure_or_hazard)
{
    static const char *const allocators[] = { "pleat", "torch-native" };
    bench_options options;
    bench_setup setup;
    bench_work work;
    bench_options_init(&options);
    options.target.has_driver = true;
    options.target.driver = PL_DRIVER_SIM;
    ck_assert_msg(bench_setup_init(&setup, &options.target, &failure), "%s", failure.text);
    open_work(small[_i], &work);
    for (size_t i = 0; i < sizeof allocators / sizeof allocators[0]; i++) {
        bench_record record;
        bench_replay_options run = { .setup = &setup, .allocator = allocators[i], .loops = 1 };
        ck_assert_msg(bench_replay(&work, &run, &record, &failure), "%s", failure.text);
        ck_assert_uint_eq(record.oom_count, 0);
        ck_assert_uint_eq(record.hazards, 0);
        ck_assert_uint_eq(record.n_events, work.n_events);
        ck_assert_uint_eq(record.peak_live_bytes, work.peak_live_bytes);
        ck_assert_uint_ge(record.peak_reserved_bytes, work.peak_live_bytes);
    }
    bench_work_close(&work);
}
END_TEST

/* The models of the bundled traces, as docs/workloads.md gives them. */
#define GPT2S                                                                                      \
    "decoder:family=gpt,layers=12,hidden=768,heads=12,vocab=50257,tied=yes,dtype=fp32,"            \
    "attention=eager,dropout=yes,batch=4,length=512,most_length=1024,optimizer=adamw,clip=yes"
#define GPT2L                                                                                      \
    "decoder:family=gpt,layers=36,hidden=1280,heads=20,vocab=50257,tied=yes,dtype=amp,"            \
    "dropout=yes,batch=8,length=300,sigma=0.8,most_length=1024,optimizer=adamw_foreach,clip=yes"
#define LLAMA3B                                                                                    \
    "decoder:layers=26,hidden=3200,heads=32,ff=8640,batch=2,length=600,sigma=0.9,"                 \
    "most_length=4096,checkpoint=yes,accumulate=4,optimizer=adamw,clip=yes"
#define LLAMA8B                                                                                    \
    "decoder:layers=32,hidden=4096,heads=32,kv_heads=8,ff=14336,vocab=128256,batch=2,"             \
    "length=1100,sigma=0.9,most_length=6144,checkpoint=yes,accumulate=2,shards=16,"                \
    "optimizer=adamw_foreach,clip=yes"
#define MOE                                                                                        \
    "moe:layers=10,hidden=1536,heads=12,ff=2816,experts=16,top_k=2,batch=4,length=700,sigma=0.8,"  \
    "most_length=3072,clip=yes"
#define RESNET "conv:depth=50,batch=32,most_height=640,most_width=640,step=32"
#define SERVE                                                                                      \
    "serving:layers=24,hidden=2560,heads=32,ff=6912,requests=16,prompt=250,prompt_sigma=1,"        \
    "output=50,output_sigma=0.8"

static void check_near(uint64_t generated, const char *trace)
{
    double ratio = (double)generated / (double)peak_of(trace);
    ck_assert_msg(ratio > 0.97 && ratio < 1.03, "%s: %.4f of its peak", trace, ratio);
}

START_TEST(the_models_of_traces_have_their_peaks_at_their_longest_sequences)
{
    static const struct {
        const char *trace;
        const char *spec;
    } models[] = {
        { "gpt2s_tiny", GPT2S ",iterations=3" },
        { "gpt2l_amp_var",
          "decoder:family=gpt,layers=36,hidden=1280,heads=20,vocab=50257,tied=yes,dtype=amp,"
          "dropout=yes,batch=8,length=1024,most_length=1024,optimizer=adamw_foreach,clip=yes,"
          "iterations=2" },
        { "llama3b_ckpt_accum_var",
          "decoder:layers=26,hidden=3200,heads=32,ff=8640,batch=2,length=4096,most_length=4096,"
          "checkpoint=yes,accumulate=4,optimizer=adamw,clip=yes,iterations=2" },
        { "llama8b_fsdp16_var",
          "decoder:layers=32,hidden=4096,heads=32,kv_heads=8,ff=14336,vocab=128256,batch=2,"
          "length=6144,most_length=6144,checkpoint=yes,accumulate=2,shards=16,"
          "optimizer=adamw_foreach,clip=yes,iterations=2" },
        { "moe16_top2_var",
          "moe:layers=10,hidden=1536,heads=12,ff=2816,experts=16,top_k=2,batch=4,length=3072,"
          "most_length=3072,clip=yes,iterations=3" },
        { "resnet50_rect", "conv:depth=50,batch=32,least_height=608,most_height=608,"
                           "least_width=640,most_width=640,iterations=3" },
    };
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        check_near(peak_of(models[i].spec), models[i].trace);
    }
}
END_TEST

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

START_TEST(the_median_peak_over_seeds_is_that_of_the_random_trace)
{
    static const struct {
        const char *trace;
        const char *spec;
    } models[] = {
        { "gpt2l_amp_var", GPT2L ",iterations=60" },
        { "llama3b_ckpt_accum_var", LLAMA3B ",iterations=20" },
        { "serve3b_catcache", SERVE ",iterations=16" },
    };
    enum { N_SEEDS = 21 };
    uint64_t peaks[N_SEEDS];
    for (unsigned seed = 0; seed < N_SEEDS; seed++) {
        bench_work work = open_seed(models[_i].spec, seed + 1);
        peaks[seed] = work.peak_live_bytes;
        bench_work_close(&work);
    }
    qsort(peaks, N_SEEDS, sizeof peaks[0], compare);
    check_near(peaks[N_SEEDS / 2], models[_i].trace);
}
END_TEST

/* An allocation of an iteration, and the frees before the next allocation. */
typedef struct outline {
    uint64_t allocated;
    uint64_t freed_bytes;
    uint64_t n_freed;
} outline;

static size_t read_outline(const char *spec, uint64_t number, outline *out, size_t most)
{
    bench_work work;
    bench_cursor cursor;
    const bench_event *entries;
    size_t n;
    size_t n_out = 0;
    bool is_inside = false;
    open_work(spec, &work);
    uint64_t *sizes = calloc(work.n_slots, sizeof *sizes);
    ck_assert_ptr_nonnull(sizes);
    ck_assert_msg(bench_cursor_open(&work, &cursor, &failure), "%s", failure.text);
    while ((n = bench_cursor_next(&cursor, &entries, &failure)) != 0) {
        for (size_t i = 0; i < n; i++) {
            const bench_event *event = &entries[i];
            if (event->slot == BENCH_MARK) {
                is_inside = event->bytes == number;
                continue;
            }
            if (is_inside && event->bytes) {
                ck_assert_uint_lt(n_out, most);
                out[n_out++] = (outline){ .allocated = event->bytes };
            } else if (is_inside) {
                ck_assert_uint_gt(n_out, 0);
                out[n_out - 1].freed_bytes += sizes[event->slot];
                out[n_out - 1].n_freed++;
            }
            sizes[event->slot] = event->bytes;
        }
    }
    bench_cursor_close(&cursor);
    bench_work_close(&work);
    free(sizes);
    return n_out;
}

/* For traces with random lengths one iteration is compared, as far as the lengths are known. */
START_TEST(iterations_of_traces_are_generated_event_by_event)
{
    static const struct {
        const char *trace;
        const char *spec;
        uint64_t number;
        size_t n; /* allocations to compare; 0 = all */
    } models[] = {
        { "gpt2s_tiny", GPT2S ",iterations=6", 5, 0 },
        { "gpt2l_amp_var",
          "decoder:family=gpt,layers=36,hidden=1280,heads=20,vocab=50257,tied=yes,dtype=amp,"
          "dropout=yes,batch=8,length=784,most_length=1024,optimizer=adamw_foreach,clip=yes,"
          "iterations=3",
          2, 0 },
        { "llama3b_ckpt_accum_var",
          "decoder:layers=26,hidden=3200,heads=32,ff=8640,batch=2,length=352,most_length=4096,"
          "checkpoint=yes,accumulate=4,optimizer=adamw,clip=yes,iterations=3",
          2, 4000 },
    };
    enum { MOST = 20000 };
    static outline recorded[MOST];
    static outline generated[MOST];
    size_t n = read_outline(models[_i].trace, models[_i].number, recorded, MOST);
    ck_assert_uint_eq(read_outline(models[_i].spec, models[_i].number, generated, MOST), n);
    ck_assert_uint_gt(n, 1000);
    for (size_t i = 0; i < (models[_i].n ? models[_i].n : n); i++) {
        ck_assert_msg(memcmp(&recorded[i], &generated[i], sizeof recorded[i]) == 0,
                      "allocation %zu: %llu and %llu bytes, freed %llu and %llu", i,
                      (unsigned long long)recorded[i].allocated,
                      (unsigned long long)generated[i].allocated,
                      (unsigned long long)recorded[i].freed_bytes,
                      (unsigned long long)generated[i].freed_bytes);
    }
}
END_TEST

START_TEST(the_models_have_about_as_many_events_and_blocks_as_their_traces)
{
    static const struct {
        const char *trace;
        const char *spec;
    } models[] = {
        { "gpt2s_tiny", GPT2S ",iterations=12" },
        { "gpt2l_amp_var", GPT2L ",iterations=60" },
        { "llama3b_ckpt_accum_var", LLAMA3B ",iterations=20" },
        { "llama8b_fsdp16_var", LLAMA8B ",iterations=20" },
        { "moe16_top2_var", MOE ",iterations=30" },
        { "resnet50_rect", RESNET ",iterations=150" },
        { "serve3b_catcache", SERVE ",iterations=16" },
    };
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        bench_work trace;
        bench_work work;
        open_work(models[i].trace, &trace);
        open_work(models[i].spec, &work);
        ck_assert_double_eq_tol((double)work.n_events / (double)trace.n_events, 1.0, 0.05);
        ck_assert_double_eq_tol((double)work.n_slots / (double)trace.n_slots, 1.0, 0.05);
        ck_assert_uint_eq(work.n_streams, trace.n_streams);
        bench_work_close(&trace);
        bench_work_close(&work);
    }
}
END_TEST

/* The specs of docs/workloads.md, with seeds whose lengths come near the trace's. */
START_TEST(the_documented_specs_have_the_peaks_of_their_traces)
{
    static const struct {
        const char *trace;
        const char *spec;
    } models[] = {
        { "gpt2s_tiny", GPT2S ",iterations=12" },
        { "gpt2l_amp_var", GPT2L ",iterations=60" },
        { "llama3b_ckpt_accum_var", LLAMA3B ",iterations=20,seed=2" },
        { "llama8b_fsdp16_var", LLAMA8B ",iterations=20,seed=3" },
        { "moe16_top2_var", MOE ",iterations=30,seed=2" },
        { "resnet50_rect", RESNET ",iterations=150,seed=2" },
        { "serve3b_catcache", SERVE ",iterations=16,seed=20" },
    };
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        double ratio = (double)peak_of(models[i].spec) / (double)peak_of(models[i].trace);
        ck_assert_double_eq_tol(ratio, 1.0, 0.03);
    }
}
END_TEST

START_TEST(the_documented_specs_are_the_tested_ones)
{
    static const char *const specs[] = { GPT2S, GPT2L, LLAMA3B, LLAMA8B, MOE, RESNET, SERVE };
    static char text[65536];
    FILE *file = fopen(PLEAT_SOURCE_DIR "/docs/workloads.md", "r");
    ck_assert_ptr_nonnull(file);
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = '\0';
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        ck_assert_msg(strstr(text, specs[i]) != NULL, "%s", specs[i]);
        ck_assert_uint_gt(peak_of(specs[i]), 0);
    }
}
END_TEST

#define BASE "decoder:layers=4,hidden=256,heads=4,vocab=1000,length=256,batch=4,iterations=2"

START_TEST(what_saves_memory_lowers_the_peak)
{
    uint64_t plain = peak_of(BASE);
    ck_assert_uint_lt(peak_of(BASE ",checkpoint=yes"), plain);
    ck_assert_uint_lt(peak_of(BASE ",lora=4"), plain);
    ck_assert_uint_lt(peak_of(BASE ",optimizer=sgd"), plain);
    ck_assert_uint_lt(peak_of("decoder:layers=24,hidden=1024,length=64,optimizer=adamw,shards=8,"
                              "iterations=2"),
                      peak_of("decoder:layers=24,hidden=1024,length=64,optimizer=adamw,"
                              "iterations=2"));
    ck_assert_uint_gt(peak_of(BASE ",attention=eager"), plain);
    ck_assert_uint_gt(peak_of(BASE ",dtype=fp32"), plain);
}
END_TEST

START_TEST(only_a_sharded_run_has_a_communication_stream)
{
    bench_work work;
    open_work(BASE, &work);
    ck_assert_uint_eq(work.n_streams, 1);
    bench_work_close(&work);
    open_work(BASE ",shards=4", &work);
    ck_assert_uint_eq(work.n_streams, 2);
    bench_work_close(&work);
}
END_TEST

START_TEST(caches_of_pages_are_not_copied)
{
    bench_work work;
    bench_survey concatenated;
    bench_survey paged;
    open_work("serving:layers=2,hidden=256,heads=4,iterations=20", &work);
    ck_assert_msg(bench_survey_take(&work, &concatenated, &failure), "%s", failure.text);
    bench_work_close(&work);
    open_work("serving:layers=2,hidden=256,heads=4,iterations=20,cache=paged", &work);
    ck_assert_msg(bench_survey_take(&work, &paged, &failure), "%s", failure.text);
    bench_work_close(&work);
    ck_assert_uint_lt(paged.allocated_bytes * 3 / 2, concatenated.allocated_bytes);
    ck_assert_uint_lt(paged.n_allocations, concatenated.n_allocations);
}
END_TEST

START_TEST(specs_that_make_no_sense_are_refused_with_their_reason)
{
    static const struct {
        const char *spec;
        const char *culprits[3];
    } bad[] = {
        { "decoder:layers=0", { "decoder", "'0' of 'layers'", "from 1 to 1000" } },
        { "decoder:layer=1", { "decoder", "'layer' is not a parameter", "layers" } },
        { "decoder:dtype=fp8", { "'fp8' of 'dtype'", "bf16, fp32, amp", "" } },
        { "decoder:sigma=9", { "'9' of 'sigma'", "from 0 to 4", "" } },
        { "decoder:length=1.5", { "'1.5' of 'length'", "whole", "" } },
        { "decoder:hidden=100,heads=16", { "hidden (100)", "heads (16)", "" } },
        { "decoder:heads=16,kv_heads=3", { "heads (16)", "kv_heads (3)", "" } },
        { "decoder:family=gpt,kv_heads=4,most_length=512", { "family=gpt", "kv_heads", "" } },
        { "decoder:dropout=yes", { "dropout=yes", "family=gpt", "" } },
        { "decoder:family=gpt", { "most_length (8192)", "positions (1024)", "" } },
        { "decoder:length=9000", { "length", "most_length (8192)", "" } },
        { "decoder:shards=2,dtype=amp", { "shards", "dtype=bf16", "" } },
        { "decoder:shards=2,lora=4", { "shards", "lora=0", "" } },
        { "moe:experts=2,top_k=3", { "top_k (3)", "experts (2)", "" } },
        { "moe:shards=2", { "moe", "'shards' is not a parameter", "" } },
        { "conv:least_height=640,most_height=320", { "conv", "least_height", "" } },
        { "serving:first=20", { "serving", "first", "requests" } },
        { "decoder:hidden=1048576,heads=1,ff=16777216,batch=4096,length=262144,most_length=262144,"
          "layers=1",
          { "iteration 0", "larger than 2^47", "" } },
        { "serving:requests=1024,layers=1000,page=1,cache=paged,most_prompt=262144,"
          "most_output=262144",
          { "requests x layers x pages", "at most 67108864", "" } },
        { "rlhf:heads=7", { "rlhf", "hidden (2048)", "heads (7)" } },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        bench_work work;
        ck_assert_msg(!bench_work_open(bad[i].spec, &work, &failure), "accepted: %s", bad[i].spec);
        for (size_t k = 0; k < 3 && bad[i].culprits[k]; k++) {
            ck_assert_msg(strstr(failure.text, bad[i].culprits[k]) != NULL, "'%s' is not in '%s'",
                          bad[i].culprits[k], failure.text);
        }
    }
}
END_TEST

START_TEST(lengths_are_the_same_on_every_machine)
{
    bench_lengths lengths = { .median = 600, .sigma = 0.9, .most = 4096, .multiple = 8 };
    bench_random random = { .state = 1 };
    static const uint32_t known[] = { 2168, 344, 352,  2184, 1016, 176,
                                      1904, 808, 1040, 752,  272,  216 };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        ck_assert_uint_eq(bench_length_draw(&random, &lengths), known[i]);
    }
}
END_TEST

START_TEST(half_of_all_lengths_are_below_the_median)
{
    enum { N = 40000 };
    bench_lengths lengths = { .median = 500, .sigma = 1.0, .most = 100000, .multiple = 1 };
    bench_random random = { .state = 3 };
    unsigned n_below = 0;
    unsigned n_below_deviation = 0;
    for (unsigned i = 0; i < N; i++) {
        uint32_t length = bench_length_draw(&random, &lengths);
        n_below += length < 500;
        n_below_deviation += length < 1359; /* 500 times e */
    }
    ck_assert_double_eq_tol((double)n_below / N, 0.5, 0.01);
    ck_assert_double_eq_tol((double)n_below_deviation / N, 0.8413, 0.01);
}
END_TEST

START_TEST(lengths_keep_to_their_bounds)
{
    bench_lengths lengths = { .median = 100, .sigma = 2.0, .most = 1000, .multiple = 16 };
    bench_random random = { .state = 5 };
    for (unsigned i = 0; i < 20000; i++) {
        uint32_t length = bench_length_draw(&random, &lengths);
        ck_assert(length >= 1 && length <= 1000);
        ck_assert(length % 16 == 0 || length == 1000);
    }
    lengths.sigma = 0.0;
    ck_assert_uint_eq(bench_length_draw(&random, &lengths), 112);
    ck_assert_uint_eq(bench_length_longest(&random, &lengths, 10), 112);
}
END_TEST

SUITE(bench_generator)
{
    TCase *all = tcase_create("all generators");
    tcase_add_checked_fixture(all, set_up, NULL);
    tcase_add_loop_test(all, the_same_spec_gives_the_same_events, 0, N_SMALL);
    tcase_add_test(all, another_seed_gives_other_events);
    tcase_add_loop_test(all, what_lives_between_iterations_does_not_drift, 0, N_SMALL);
    tcase_add_loop_test(all, a_long_run_needs_no_more_host_memory_than_a_short_one, 0, N_SMALL);
    tcase_add_loop_test(all, every_generator_replays_without_failure_or_hazard, 0, N_SMALL);
    tcase_add_test(all, specs_that_make_no_sense_are_refused_with_their_reason);
    suite_add_tcase(suite, all);
    TCase *models = tcase_create("models of traces");
    tcase_add_checked_fixture(models, set_up, NULL);
    tcase_add_test(models, the_models_of_traces_have_their_peaks_at_their_longest_sequences);
    tcase_add_loop_test(models, the_median_peak_over_seeds_is_that_of_the_random_trace, 0, 3);
    tcase_add_loop_test(models, iterations_of_traces_are_generated_event_by_event, 0, 3);
    tcase_add_test(models, the_models_have_about_as_many_events_and_blocks_as_their_traces);
    tcase_add_test(models, the_documented_specs_have_the_peaks_of_their_traces);
    tcase_add_test(models, the_documented_specs_are_the_tested_ones);
    suite_add_tcase(suite, models);
    TCase *effects = tcase_create("effects");
    tcase_add_checked_fixture(effects, set_up, NULL);
    tcase_add_test(effects, what_saves_memory_lowers_the_peak);
    tcase_add_test(effects, only_a_sharded_run_has_a_communication_stream);
    tcase_add_test(effects, caches_of_pages_are_not_copied);
    suite_add_tcase(suite, effects);
    TCase *draws = tcase_create("lengths");
    tcase_add_test(draws, lengths_are_the_same_on_every_machine);
    tcase_add_test(draws, half_of_all_lengths_are_below_the_median);
    tcase_add_test(draws, lengths_keep_to_their_bounds);
    suite_add_tcase(suite, draws);
}
