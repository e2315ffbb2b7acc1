/* budget.c - see budget.h. Guarded by the device lock. */
#include "segments/pleat/budget.h"

enum {
    NS_A_MS = 1000000,
    PERMILLE = 1000,
    STAMP_LOG2 = 4,
    REST_EVENTS = 1000,
    GROWING_EVENTS = 4096,
    AMPLE_PERMILLE = 700
};

void pl_budget_init(pl_budget *budget, unsigned permille, unsigned most_ms, unsigned order_interval)
{
    *budget = (pl_budget){
        .saved_ns = (uint64_t)most_ms * NS_A_MS,
        .permille = permille,
        .most_ns = (uint64_t)most_ms * NS_A_MS,
        .order_interval = order_interval,
        .order_credit = (uint64_t)order_interval * PL_BUDGET_ORDERS,
    };
}

/* Once the program needs no more for as long again as it took to get there, what it earned is gone:
 * streams that repeat their shapes do not take from each other for ever. */
static bool is_growing(const pl_budget *budget)
{
    uint64_t as_long = budget->changed_at > GROWING_EVENTS ? budget->changed_at : GROWING_EVENTS;

    return budget->n_events - budget->changed_at < as_long;
}

uint64_t pl_budget_left_ns(pl_budget *budget, uint64_t now_ns)
{
    uint64_t passed_ns = budget->refilled_ns == 0 ? 0 : now_ns - budget->refilled_ns;
    uint64_t earned_ns = passed_ns / PERMILLE * budget->permille; /* years do not overflow */
    uint64_t room_ns = budget->most_ns - budget->saved_ns;

    budget->refilled_ns = now_ns - passed_ns % PERMILLE;
    budget->saved_ns += earned_ns < room_ns ? earned_ns : room_ns;
    budget->earned_ns = is_growing(budget) ? budget->earned_ns : 0;
    return budget->saved_ns + budget->earned_ns;
}

/* What was earned first: only the rest of what is saved up is filled again. */
void pl_budget_spend_ns(pl_budget *budget, uint64_t ns)
{
    uint64_t of_earned_ns = ns < budget->earned_ns ? ns : budget->earned_ns;

    budget->earned_ns -= of_earned_ns;
    ns -= of_earned_ns;
    budget->saved_ns -= ns < budget->saved_ns ? ns : budget->saved_ns;
}

void pl_budget_earn_ns(pl_budget *budget, uint64_t ns)
{
    budget->earned_ns += budget->most_ns > 0 ? ns : 0;
}

bool pl_budget_is_ample(const pl_budget *budget)
{
    return budget->saved_ns > budget->most_ns / PERMILLE * AMPLE_PERMILLE;
}

bool pl_budget_is_steady(const pl_budget *budget)
{
    enum { TIMES = 4 };
    uint64_t long_enough = budget->changed_at * TIMES;

    long_enough = long_enough < PL_BUDGET_STEADY_MOST ? long_enough : PL_BUDGET_STEADY_MOST;
    long_enough = long_enough > PL_BUDGET_STEADY_LEAST ? long_enough : PL_BUDGET_STEADY_LEAST;
    return budget->n_events - budget->changed_at >= long_enough;
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
