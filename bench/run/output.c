/* output.c - records as JSON lines and as tables. */
#include "bench/run/output.h"
#include "bench/base/size.h"

static json_t *integer(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *ops_object(const bench_record *r)
{
    json_t *ops = json_object();
    json_object_set_new(ops, "map", integer(r->ops_map));
    json_object_set_new(ops, "unmap", integer(r->ops_unmap));
    json_object_set_new(ops, "alloc", integer(r->ops_alloc));
    json_object_set_new(ops, "free", integer(r->ops_free));
    return ops;
}

static json_t *calls_object(const bench_record *r)
{
    json_t *calls = json_object();
    for (int i = 0; i < PL_N_ENTRIES; i++) {
        json_object_set_new(calls, pl_entry_symbol((pl_entry)i), integer(r->calls[i]));
    }
    return calls;
}

static json_t *loops_array(const bench_record *r)
{
    json_t *loops = json_array();
    for (unsigned i = 0; i < r->n_loops; i++) {
        json_array_append_new(loops, integer(r->loop_ops[i]));
    }
    return loops;
}

static json_t *own_object(const bench_own_spread *own)
{
    json_t *object = json_object();
    json_object_set_new(object, "least", json_real(own->least_ns));
    json_object_set_new(object, "most", json_real(own->most_ns));
    json_object_set_new(object, "runs", json_integer(own->n_runs));
    return object;
}

void bench_output_set_fit(json_t *object, const bench_record *r)
{
    bool is_found = r && r->least_memory_bytes > 0;
    json_object_set_new(object, "least_memory_bytes",
                        is_found ? integer(r->least_memory_bytes) : json_null());
    json_object_set_new(object, "ratio", is_found ? json_real(r->ratio) : json_null());
}

json_t *bench_output_object(const bench_record *r)
{
    json_t *object = json_object();
    json_object_set_new(object, "trace", json_string(r->trace));
    json_object_set_new(object, "allocator", json_string(r->allocator));
    json_object_set_new(object, "driver", json_string(r->driver));
    if (r->is_host) {
        json_object_set_new(object, "memory_kind", json_string("host"));
    }
    json_object_set_new(object, "memory_bytes", integer(r->memory_bytes));
    json_object_set_new(object, "peak_live_bytes", integer(r->peak_live_bytes));
    json_object_set_new(object, "peak_reserved_bytes", integer(r->peak_reserved_bytes));
    json_object_set_new(object, "first_peak_reserved_bytes", integer(r->first_peak_reserved_bytes));
    json_object_set_new(object, "oom_count", integer(r->oom_count));
    json_object_set_new(object, "events", integer(r->n_events));
    json_object_set_new(object, "device_ops", ops_object(r));
    json_object_set_new(object, "calls", calls_object(r));
    char placement[17];
    snprintf(placement, sizeof placement, "%016llx", (unsigned long long)r->placement);
    json_object_set_new(object, "placement", json_string(placement));
    json_object_set_new(object, "bytes_created", integer(r->bytes_created));
    json_object_set_new(object, "bytes_mapped", integer(r->bytes_mapped));
    json_object_set_new(object, "alloc_retries", integer(r->retries));
    json_object_set_new(object, "host_syncs", integer(r->host_syncs));
    json_object_set_new(object, "stream_waits", integer(r->stream_waits));
    json_object_set_new(object, "hazards", integer(r->hazards));
    json_object_set_new(object, "driver_ms", json_real(r->first_driver_us / 1e3));
    json_object_set_new(object, "later_driver_ms",
                        r->n_later ? json_real(r->later_driver_us / 1e3) : json_null());
    json_object_set_new(object, "longest_driver_ms", json_real(r->longest_driver_us / 1e3));
    if (r->own.n_runs) {
        json_object_set_new(object, "allocator_ns_per_event", own_object(&r->own));
    }
    json_object_set_new(object, "loop_device_ops", loops_array(r));
    if (r->is_compacted) {
        json_object_set_new(object, "compactions", integer(r->n_compactions));
        json_object_set_new(object, "compaction_won_bytes", integer(r->compaction_won_bytes));
    }
    if (r->is_fit) {
        bench_output_set_fit(object, r);
    }
    return object;
}

bool bench_output_line(json_t *object, FILE *file)
{
    int failed = json_dumpf(object, file, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(object);
    return !failed && putc('\n', file) != EOF && fflush(file) == 0;
}

bool bench_output_json(const bench_record *r)
{
    return bench_output_line(bench_output_object(r), stdout);
}

double bench_output_ratio(const bench_record *r)
{
    return (double)r->peak_reserved_bytes / (double)r->peak_live_bytes;
}

double bench_output_per_1000(const bench_record *r)
{
    return r->n_events ? 1000.0 * (double)bench_record_ops(r) / (double)r->n_events : 0.0;
}

void bench_output_heading(bool is_fit, bool is_timed)
{
    if (is_fit) {
        printf("%-*s %-13s %12s %14s %7s %9s %7s %6s\n", BENCH_OUTPUT_NAME, "trace", "allocator",
               "peak live", "least memory", "ratio", "ops", "waits", "syncs");
    } else {
        printf("%-*s %-13s %12s %12s %12s %7s %8s %9s %8s %7s %6s %7s %10s %9s%s\n",
               BENCH_OUTPUT_NAME, "trace", "allocator", "memory", "peak live", "resident", "ratio",
               "failures", "ops", "ops/1000", "waits", "syncs", "hazards", "driver ms", "later ms",
               is_timed ? "  own ns/event" : "");
    }
}

/* Prints a name and a blank, for the tables' first column. */
static void print_name(const char *name)
{
    char shown[4 * BENCH_OUTPUT_NAME + 1];
    bench_text_cut(name, BENCH_OUTPUT_NAME, shown, sizeof shown);
    printf("%s%*s", shown, (int)(BENCH_OUTPUT_NAME + 1 - bench_text_columns(shown)), "");
}

static void fit_row(const bench_record *r)
{
    char live[32];
    char least[32] = "none";
    if (r->least_memory_bytes) {
        bench_size_format(r->least_memory_bytes, least, sizeof least);
    }
    print_name(r->trace);
    printf("%-13s %12s %14s %7.4f %9llu %7llu %6llu\n", r->allocator,
           bench_size_format(r->peak_live_bytes, live, sizeof live), least, r->ratio,
           (unsigned long long)bench_record_ops(r), (unsigned long long)r->stream_waits,
           (unsigned long long)r->host_syncs);
}

static void replay_row(const bench_record *r)
{
    char memory[32];
    char live[32];
    char resident[32];
    char later[32] = "-";
    if (r->n_later) {
        snprintf(later, sizeof later, "%.1f", r->later_driver_us / 1e3);
    }
    char own[64] = "";
    if (r->own.n_runs) {
        char range[48];
        snprintf(range, sizeof range, "%.0f-%.0f", r->own.least_ns, r->own.most_ns);
        snprintf(own, sizeof own, " %13s", range);
    }
    print_name(r->trace);
    printf("%-13s %12s %12s %12s %7.4f %8llu %9llu %8.3f %7llu %6llu %7llu %10.1f %9s%s\n",
           r->allocator, bench_size_format(r->memory_bytes, memory, sizeof memory),
           bench_size_format(r->peak_live_bytes, live, sizeof live),
           bench_size_format(r->peak_reserved_bytes, resident, sizeof resident),
           bench_output_ratio(r), (unsigned long long)r->oom_count,
           (unsigned long long)bench_record_ops(r), bench_output_per_1000(r),
           (unsigned long long)r->stream_waits, (unsigned long long)r->host_syncs,
           (unsigned long long)r->hazards, r->first_driver_us / 1e3, later, own);
}

void bench_output_row(const bench_record *r)
{
    if (r->is_fit) {
        fit_row(r);
    } else {
        replay_row(r);
    }
    fflush(stdout);
}

void bench_output_refusals(const bench_record *r, const char *who)
{
    if (r->oom_count > 0) {
        fprintf(stderr, "pleat: %s, %s: %llu allocations failed; the first: %s\n", r->trace, who,
                (unsigned long long)r->oom_count, r->first_failure);
    }
    if (r->hazards > 0) {
        fprintf(stderr, "pleat: %s, %s: %llu hazards\n", r->trace, who,
                (unsigned long long)r->hazards);
    }
}
