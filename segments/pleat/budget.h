/* budget.h - what the program has earned: driver time for takes, and ordered waits.
 *
 * An event is an allocation or a free. Driver time may be spent on taking memory instead of
 * creating it: a share of the time that passes. What is saved up starts full, so that a short
 * program does not create memory for want of it. Creating takes driver time, too: as much as that
 * has taken may be spent on takes besides, as a take is no dearer than what it replaces. So of two
 * equally good ends, to have created too much or to have taken too often, neither costs more than
 * twice what was needed. What was earned is gone once the program needs no more for as long again
 * as it took to get there. The bucket of ordered waits starts full too; it holds PL_BUDGET_ORDERS
 * and earns one in order_interval.
 *
 * A program is steady when it has not needed clearly more memory than before for four times as long
 * as it took to get there, at most PL_BUDGET_STEADY_MOST events. What such a program takes it would
 * take again, in each of its iterations; what is created instead ends that for ever. */
#ifndef PLEAT_SEGMENTS_BUDGET_H
#define PLEAT_SEGMENTS_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PL_BUDGET_ORDERS = 1, PL_BUDGET_STEADY_LEAST = 1 << 15, PL_BUDGET_STEADY_MOST = 400000 };

typedef struct pl_budget {
    uint64_t n_events;
    uint64_t saved_ns;       /* driver time */
    uint64_t earned_ns;      /* the same, by creating memory: not bounded by most_ns */
    uint64_t refilled_ns;    /* when it was last earned; 0 = not yet */
    uint64_t changed_at;     /* n_events when the program last needed clearly more than ever */
    uint64_t order_credit;   /* in events: one ordered wait costs order_interval of them */
    uint64_t credited_at;    /* n_events of the last credit */
    uint64_t ordered_at;     /* n_events of the last ordered wait made instead of creating */
    unsigned permille;       /* const: of the time that passes */
    uint64_t most_ns;        /* const: saved at most */
    unsigned order_interval; /* const: events per ordered wait */
} pl_budget;

void pl_budget_init(pl_budget *budget, unsigned permille, unsigned most_ms,
                    unsigned order_interval);
/* Driver time left, in ns, after a refill. now_ns only goes forward. */
uint64_t pl_budget_left_ns(pl_budget *budget, uint64_t now_ns);
void pl_budget_spend_ns(pl_budget *budget, uint64_t ns); /* down to zero, not below */
/* Creating memory has taken so long. Earns nothing where nothing may be saved up. */
void pl_budget_earn_ns(pl_budget *budget, uint64_t ns);
static inline void pl_budget_changed(pl_budget *budget)
{
    budget->changed_at = budget->n_events;
}
/* Is most of what may be saved up still there? */
bool pl_budget_is_ample(const pl_budget *budget);
bool pl_budget_is_steady(const pl_budget *budget);
bool pl_budget_may_order(pl_budget *budget);
/* Was the last ordered wait long ago? Then one that saves much memory needs no credit. */
bool pl_budget_is_rested(const pl_budget *budget);
void pl_budget_ordered(pl_budget *budget);

/* A stamp of now in 32 bits, never 0, and how many events ago a stamp was made. */
uint32_t pl_budget_stamp(const pl_budget *budget);
uint64_t pl_budget_since(const pl_budget *budget, uint32_t stamp);
uint64_t pl_budget_between(uint32_t stamp, uint32_t later);

#endif
