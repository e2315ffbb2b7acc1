/* command_verify.c - `pleat verify`: compares recordings with the allocators rebuilt here. */
#include <jansson.h>
#include <string.h>

#include "bench/base/conf.h"
#include "bench/command/commands.h"
#include "bench/command/parse_options.h"
#include "bench/measure/verify.h"
#include "bench/works/files.h"
#include "segments/base/allocator.h"

enum { KEY_ALLOCATOR = 0x200, CONF_BYTES = BENCH_SNAPSHOT_CONF_BYTES + 64 };

typedef struct verify_command {
    bench_options options;
    const char *allocator; /* NULL = as in each recording's settings */
    bench_failure failure;
} verify_command;

/* One recording. */
typedef struct subject {
    char path[4096];
    bench_file_options file;
    bench_snapshot snapshot;
    bench_recording recording;
    bench_work work;
    bench_setup setup;
} subject;

static error_t parse(int key, char *arg, struct argp_state *state)
{
    verify_command *c = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &c->options;
        return 0;
    case KEY_ALLOCATOR:
        bench_parse_allocators(state, arg, &c->options);
        if (c->options.n_allocators != 1) {
            argp_error(state, "--allocator: one at a time");
        }
        c->allocator = c->options.allocators[0];
        return 0;
    case ARGP_KEY_ARGS:
        c->options.works = state->argv + state->next;
        c->options.n_works = (unsigned)(state->argc - state->next);
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "SNAPSHOT is missing: a file of torch.cuda.memory._dump_snapshot");
        return 0;
    case ARGP_KEY_END:
        if (c->options.target.has_driver && c->options.target.driver == PL_DRIVER_CUDA) {
            argp_error(state, "--driver: verify runs on the simulator");
        }
        c->options.target.has_driver = true;
        c->options.target.driver = PL_DRIVER_SIM;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options_list[] = {
    { .name = "allocator",
      .key = KEY_ALLOCATOR,
      .arg = "A",
      .doc = "The allocator to check (default: torch-expandable if the recording's settings or "
             "events say so, else torch-native)" },
    { 0 },
};

static const struct argp_child children[] = { { .argp = &bench_driver_argp }, { 0 } };

static const struct argp verify_argp = {
    .options = options_list,
    .parser = parse,
    .children = children,
    .args_doc = "SNAPSHOT...",
    .doc = "Replay PyTorch memory snapshots on the simulated GPU and compare what the allocator "
           "asks of the device with what PyTorch asked, in order and size.\vSNAPSHOT:device=N "
           "chooses one of its devices. The allocator is configured with the recording's own "
           "settings, or with --conf instead. Exit status: 0; 1 if the calls differ; 2 for bad "
           "input or usage, or where no such call was recorded.",
};

static bool open_subject(verify_command *c, const char *spec, subject *s)
{
    char found[4096];
    if (!bench_file_find(spec, found, sizeof found)) {
        return bench_fail(&c->failure, "%.96s: no such file", spec);
    }
    if (!bench_file_split(found, s->path, sizeof s->path, &s->file, &c->failure) ||
        !bench_file_check_snapshot(s->path, &c->failure) ||
        !bench_snapshot_read(s->path, &s->file.limits, s->file.rank[0] ? s->file.rank : NULL,
                             s->file.device, &s->snapshot, &c->failure)) {
        return false;
    }
    bench_tape *tape = &s->work.tape;
    bench_tape_init(tape);
    if (!bench_recording_write(s->path, &s->snapshot, false, tape, &s->recording, &c->failure)) {
        return false;
    }
    const char *slash = strrchr(spec, '/');
    const char *name = slash ? slash + 1 : spec;
    bench_text_clean(name, strlen(name), s->work.name, sizeof s->work.name);
    s->work.n_events = tape->n_events;
    s->work.n_slots = tape->n_slots;
    s->work.n_streams = tape->n_streams;
    s->work.n_uses = tape->n_uses;
    s->work.peak_live_bytes = tape->peak_live_bytes;
    return true;
}

static void close_subject(subject *s)
{
    bench_recording_free(&s->recording);
    bench_snapshot_free(&s->snapshot);
    bench_work_close(&s->work);
}

static bool set_up(verify_command *c, subject *s)
{
    char conf[CONF_BYTES];
    char sim[PL_SIM_CONF_BYTES];
    bench_conf_modelled(s->snapshot.conf, conf, sizeof conf);
    snprintf(sim, sizeof sim, "%s%slog:full", c->options.target.sim,
             c->options.target.sim[0] ? "," : "");
    bench_options options = c->options;
    options.target.conf = options.target.conf[0] ? options.target.conf : conf;
    options.target.sim = sim;
    return bench_setup_init(&s->setup, &options.target, &c->failure);
}

static bool print_json(const char *name, const bench_verify_result *r)
{
    json_t *object = json_pack(
        "{s:s, s:s, s:i, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:I}", "recording", name,
        "allocator", r->allocator, "device", r->device, "calls",
        r->is_mapping ? "segment_map" : "segment_alloc", "live_before", (json_int_t)r->n_before,
        "events", (json_int_t)r->n_events, "recorded", (json_int_t)r->n_recorded, "made",
        (json_int_t)r->n_made, "same_from_first", (json_int_t)r->n_first, "same_to_last",
        (json_int_t)r->n_last, "is_same", bench_verify_is_same(r), "not_compared",
        (json_int_t)r->n_other);
    if (object && r->has_difference) {
        json_object_set_new(object, "first_difference",
                            json_pack("{s:I, s:I, s:I, s:I, s:I}", "index", (json_int_t)r->n_first,
                                      "recorded_bytes", (json_int_t)r->recorded.bytes,
                                      "recorded_event", (json_int_t)r->recorded.event, "made_bytes",
                                      (json_int_t)r->made.bytes, "made_event",
                                      (json_int_t)r->made.event));
    }
    bool ok = object && json_dumpf(object, stdout, JSON_COMPACT) == 0 && putchar('\n') != EOF &&
              fflush(stdout) == 0;
    json_decref(object);
    return ok;
}

static void print_side(const char *what, const bench_verify_call *call)
{
    if (call->bytes) {
        printf("%s %llu bytes before event %llu", what, (unsigned long long)call->bytes,
               (unsigned long long)call->event);
    } else {
        printf("%s nothing more", what);
    }
}

static void print_text(const char *name, const bench_verify_result *r)
{
    unsigned long long n_same = r->n_first + r->n_last;
    printf("%s, device %d, %s: %llu of %llu %s repeated in order and size (%llu made; %llu blocks "
           "live before %llu events)\n",
           name, r->device, r->allocator, n_same, (unsigned long long)r->n_recorded,
           r->is_mapping ? "mappings" : "segment allocations", (unsigned long long)r->n_made,
           (unsigned long long)r->n_before, (unsigned long long)r->n_events);
    if (r->n_other) {
        printf("  %llu recorded calls of another kind are not compared\n",
               (unsigned long long)r->n_other);
    }
    if (r->n_recorded == 0) {
        printf("  none was recorded: there is nothing to compare\n");
    } else if (r->has_difference) {
        printf("  the first %llu and the last %llu are the same; then, at %llu, ",
               (unsigned long long)r->n_first, (unsigned long long)r->n_last,
               (unsigned long long)r->n_first);
        print_side("recorded", &r->recorded);
        print_side(", made", &r->made);
        printf("\n");
    }
}

static int result_status(const bench_verify_result *r)
{
    if (r->n_recorded == 0) {
        return BENCH_EXIT_USAGE;
    }
    return bench_verify_is_same(r) ? BENCH_EXIT_OK : BENCH_EXIT_FAILED;
}

/* Returns the exit status of one recording. */
static int run_one(verify_command *c, const char *spec)
{
    subject s = { .file = { .device = BENCH_ANY_DEVICE } };
    bench_verify_result result;
    int status = BENCH_EXIT_USAGE;
    char own[32] = "";
    if (open_subject(c, spec, &s) && set_up(c, &s)) {
        const char *allocator = c->allocator ? c->allocator : bench_verify_allocator(&s.snapshot);
        bench_snapshot_name_allocator(&s.snapshot, own, sizeof own);
        if (!c->allocator && strcmp(own, "pleat") == 0) {
            bench_fail(
                &c->failure,
                "%s: recorded under pleat, whose calls PyTorch's caches do not repeat; `pleat "
                "ab` compares it with them, and --allocator torch-native what they would ask",
                s.work.name);
        } else if (!pl_allocator_find(allocator)) {
            bench_fail(&c->failure, "%s: recorded under %s, which is not there", s.work.name,
                       allocator);
        } else if (bench_verify(&s.work, &s.snapshot, &s.recording, &s.setup, allocator, &result,
                                &c->failure)) {
            status = result_status(&result);
        } else {
            status = BENCH_EXIT_FAILED;
        }
    }
    if (c->failure.text[0]) {
        fprintf(stderr, "pleat: %s\n", c->failure.text);
    } else if (!c->options.json) {
        print_text(s.work.name, &result);
    } else if (!print_json(s.work.name, &result)) {
        status = BENCH_EXIT_USAGE; /* the exit tells (bench/base/out.h) */
    }
    c->failure.text[0] = '\0';
    close_subject(&s);
    return status;
}

int bench_command_verify(int argc, char **argv)
{
    verify_command c = { .allocator = NULL };
    bench_options_init(&c.options);
    if (!bench_parse(&verify_argp, argc, argv, &c)) {
        return BENCH_EXIT_USAGE;
    }
    int status = BENCH_EXIT_OK;
    for (unsigned i = 0; i < c.options.n_works; i++) {
        int one = run_one(&c, c.options.works[i]);
        status = one > status ? one : status;
    }
    return status;
}
