/* meter.c - shows the progress of `pleat ab`. */
#include "bench/ab/meter.h"

#include <stdatomic.h>
#include <unistd.h>

#include "bench/base/progress.h"
#include "vmm/base/clock.h"

#define SECOND_NS UINT64_C(1000000000)
#define LINE_NS (30 * SECOND_NS) /* where there is no terminal */

void bench_meter_start(bench_meter *meter, const bench_ab_plan *plan, const bench_ab_slot *slots,
                       unsigned n_slots)
{
    *meter = (bench_meter){
        .plan = plan,
        .slots = slots,
        .n_slots = n_slots,
        .is_terminal = isatty(STDERR_FILENO) == 1,
        .begin_ns = pl_clock_ns(),
    };
    meter->last_ns = meter->begin_ns;
    for (unsigned i = 0; i < plan->n_cells; i++) {
        meter->weight_total += plan->cells[i].weight;
    }
}

void bench_meter_over(bench_meter *meter, const bench_ab_cell *cell)
{
    meter->n_over++;
    meter->weight_over += cell->weight;
}

static double weight_done(const bench_meter *meter)
{
    double weight = meter->weight_over;
    for (unsigned i = 0; i < meter->n_slots; i++) {
        const bench_ab_slot *slot = &meter->slots[i];
        if (slot->cell > 0 && slot->cell <= meter->plan->n_cells) {
            weight += meter->plan->cells[slot->cell - 1].weight * atomic_load(&slot->parts) /
                      BENCH_AB_PARTS;
        }
    }
    return weight;
}

static void show(const bench_meter *meter, double done, uint64_t now)
{
    double seconds = (double)(now - meter->begin_ns) / 1e9;
    double rate = done / seconds;
    char left[32] = "?";
    if (done > 0.0) {
        bench_progress_left((meter->weight_total - done) / rate, left, sizeof left);
    }
    fprintf(stderr, "%s%u of %u cells, %.0f %%, %.1f million events/s, %s left%s",
            meter->is_terminal ? "\r\033[K" : "pleat: ", meter->n_over, meter->plan->n_cells,
            100.0 * done / meter->weight_total, rate / 1e6, left, meter->is_terminal ? "" : "\n");
    fflush(stderr);
}

/* Prints a line for each tenth, but not for each tenth of a run of seconds. */
void bench_meter_tick(bench_meter *meter)
{
    uint64_t now = pl_clock_ns();
    double done = weight_done(meter);
    unsigned tenth = (unsigned)(10.0 * done / meter->weight_total);
    bool is_due = now - meter->last_ns >= LINE_NS ||
                  (tenth > meter->last_tenth && now - meter->last_ns >= SECOND_NS);
    if (meter->is_terminal || is_due) {
        show(meter, done, now);
        meter->last_ns = now;
        meter->last_tenth = tenth;
    }
}

void bench_meter_clear(bench_meter *meter)
{
    if (meter->is_terminal) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
}
