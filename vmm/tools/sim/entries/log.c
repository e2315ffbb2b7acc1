/* log.c - the call log, a ring of the last 4,096 calls, or all calls with log:full.
 *
 *   {"n": 12, "call": "cuMemMap", "thread": 1, "ptr": "0x800000000000", "bytes": 2097152,
 *    "offset": 0, "handle": "0x100000001", "result": 0, "us": 1.5}        (on one line)
 *
 * Addresses and handles are hexadecimal strings, sizes and counts are numbers. */
#include "vmm/tools/sim/entries/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RING = 4096 };

typedef struct log_record {
    uint64_t number;
    uint64_t args[SIM_CALL_ARGS];
    double us;
    int32_t result;
    uint16_t entry;
    uint16_t thread;
} log_record;

static log_record ring[RING];  /* lock */
static log_record *all;        /* lock; with log:full */
static uint64_t n_all, n_room; /* lock */

static log_record *next_record(uint64_t number)
{
    if (!sim.conf.is_log_full) {
        return &ring[number % RING];
    }
    if (n_all == n_room) {
        n_room = n_room == 0 ? RING : 2 * n_room;
        all = sim_grow(all, n_room * sizeof(all[0]));
    }
    return &all[n_all++];
}

void sim_log_add(const sim_call *call)
{
    log_record *record = next_record(call->number);
    record->number = call->number;
    memcpy(record->args, call->args, sizeof(record->args));
    record->us = sim.cost_us - call->cost_us;
    record->result = call->result;
    record->entry = (uint16_t)call->entry;
    record->thread = (uint16_t)sim_thread_self()->number;
}

void sim_log_reset(void)
{
    free(all);
    all = NULL;
    n_all = 0;
    n_room = 0;
}

/* Which arguments are plain numbers? The rest are addresses or handles. */
static bool is_number(const char *name, size_t length)
{
    static const char *const numbers[] = {
        "bytes",    "offset",    "count",      "ordinal",      "device",      "flags", "access",
        "accesses", "alignment", "option",     "handle_types", "handle_type", "fd",    "id",
        "status",   "mode",      "previous",   "free",         "total",       "value", "attribute",
        "seed",     "error",     "operations", "type",         "n",           "least", "priority"
    };
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (strlen(numbers[i]) == length && memcmp(numbers[i], name, length) == 0) {
            return true;
        }
    }
    return false;
}

static void write_record(FILE *file, const log_record *record)
{
    sim_entry entry = (sim_entry)record->entry;
    const char *name = sim_entry_args(entry);
    fprintf(file, "{\"n\": %llu, \"call\": \"%s\", \"thread\": %u",
            (unsigned long long)record->number, sim_entry_symbol(entry), record->thread);
    for (int i = 0; *name != '\0'; i++) {
        size_t length = strcspn(name, " ");
        bool is_plain = is_number(name, length);
        fprintf(file, is_plain ? ", \"%.*s\": %llu" : ", \"%.*s\": \"0x%llx\"", (int)length, name,
                (unsigned long long)record->args[i]);
        name += length;
        name += *name == ' ';
    }
    fprintf(file, ", \"result\": %d, \"us\": %g}\n", record->result, record->us);
}

int sim_log_write(const char *path)
{
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        return -1;
    }
    for (uint64_t i = 0; i < n_all; i++) {
        write_record(file, &all[i]);
    }
    if (!sim.conf.is_log_full) {
        uint64_t n = sim.call_number < RING ? sim.call_number : RING;
        for (uint64_t number = sim.call_number - n + 1; number <= sim.call_number; number++) {
            write_record(file, &ring[number % RING]);
        }
    }
    bool has_failed = ferror(file) != 0;
    return fclose(file) != 0 || has_failed ? -1 : 0;
}
