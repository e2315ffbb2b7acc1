/* budget.h - what a stream of events has earned: device operations and ordered waits.
 *
 * An event is an allocation or a free. The bucket of tokens (one token = one device operation)
 * starts full, so that a short program does not create memory for want of tokens. The bucket of
 * ordered waits starts full too; it holds PL_BUDGET_ORDERS and earns one in order_interval. */
#ifndef PLEAT_SEGMENTS_BUDGET_H
#define PLEAT_SEGMENTS_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PL_BUDGET_ORDERS = 1 };

typedef struct pl_budget {
    uint64_t n_events;
    uint64_t milli_tokens;
    uint64_t refilled_at;    /* n_events of the last refill */
    uint64_t order_credit;   /* in events: one ordered wait costs order_interval of them */
    uint64_t credited_at;    /* n_events of the last credit */
    uint64_t ordered_at;     /* n_events of the last ordered wait made instead of creating */
    unsigned refill;         /* const: tokens per 1,000 events */
    unsigned cap;            /* const: most tokens */
    unsigned order_interval; /* const: events per ordered wait */
} pl_budget;

void pl_budget_init(pl_budget *budget, unsigned refill, unsigned cap, unsigned order_interval);
uint64_t pl_budget_tokens(pl_budget *budget);               /* whole tokens left, after a refill */
void pl_budget_spend(pl_budget *budget, uint64_t n_tokens); /* down to zero, not below */
bool pl_budget_may_order(pl_budget *budget);
/* Was the last ordered wait long ago? Then one that saves much memory needs no credit. */
bool pl_budget_is_rested(const pl_budget *budget);
void pl_budget_ordered(pl_budget *budget);

/* A stamp of now in 32 bits, never 0, and how many events ago a stamp was made. */
uint32_t pl_budget_stamp(const pl_budget *budget);
uint64_t pl_budget_since(const pl_budget *budget, uint32_t stamp);
uint64_t pl_budget_between(uint32_t stamp, uint32_t later);

#endif
