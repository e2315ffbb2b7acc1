/* budget.c - see budget.h. Guarded by the device lock. */
#include "segments/pleat/budget.h"

enum { MILLI = 1000, STAMP_LOG2 = 4, REST_EVENTS = 1000 };

void pl_budget_init(pl_budget *budget, unsigned refill, unsigned cap, unsigned order_interval)
{
    *budget = (pl_budget){
        .milli_tokens = (uint64_t)cap * MILLI,
        .refill = refill,
        .cap = cap,
        .order_interval = order_interval,
        .order_credit = (uint64_t)order_interval * PL_BUDGET_ORDERS,
    };
}

uint64_t pl_budget_tokens(pl_budget *budget)
{
    uint64_t most = (uint64_t)budget->cap * MILLI;
    uint64_t earned = (budget->n_events - budget->refilled_at) * budget->refill;

    budget->refilled_at = budget->n_events;
    budget->milli_tokens += earned;
    if (budget->milli_tokens > most) {
        budget->milli_tokens = most;
    }
    return budget->milli_tokens / MILLI;
}

void pl_budget_spend(pl_budget *budget, uint64_t n_tokens)
{
    uint64_t milli = n_tokens * MILLI;

    budget->milli_tokens -= milli < budget->milli_tokens ? milli : budget->milli_tokens;
}

bool pl_budget_may_order(pl_budget *budget)
{
    uint64_t most = (uint64_t)budget->order_interval * PL_BUDGET_ORDERS;

    budget->order_credit += budget->n_events - budget->credited_at;
    budget->credited_at = budget->n_events;
    if (budget->order_credit > most) {
        budget->order_credit = most;
    }
    return budget->order_credit >= budget->order_interval;
}

bool pl_budget_is_rested(const pl_budget *budget)
{
    return budget->ordered_at == 0 || budget->n_events - budget->ordered_at >= REST_EVENTS;
}

void pl_budget_ordered(pl_budget *budget)
{
    uint64_t cost = budget->order_interval;

    budget->ordered_at = budget->n_events;
    budget->order_credit -= cost < budget->order_credit ? cost : budget->order_credit;
}

uint32_t pl_budget_stamp(const pl_budget *budget)
{
    return (uint32_t)(budget->n_events >> STAMP_LOG2) | UINT32_C(0x80000000);
}

uint64_t pl_budget_since(const pl_budget *budget, uint32_t stamp)
{
    return pl_budget_between(stamp, pl_budget_stamp(budget));
}

uint64_t pl_budget_between(uint32_t stamp, uint32_t later)
{
    return (uint64_t)((later - stamp) & UINT32_C(0x7FFFFFFF)) << STAMP_LOG2;
}
