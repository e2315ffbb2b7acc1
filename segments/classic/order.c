/* order.c - waits for streams that used memory. See order.h. */
#include "segments/classic/order.h"

void pl_order_init(pl_order *order, pl_device *dev, pl_lock *lock)
{
    *order = (pl_order){ .dev = dev, .lock = lock };
}

static unsigned first_lane(uint64_t lanes)
{
    return (unsigned)__builtin_ctzll((unsigned long long)lanes);
}

uint64_t pl_order_open(const pl_order *order, const pl_order_uses *uses, const pl_stream *user)
{
    uint64_t own = user ? pl_order_own_lane(user) : 0;
    uint64_t open = 0;
    for (uint64_t left = uses->lanes & ~own; left; left &= left - 1) {
        if (order->passed[first_lane(left)] < uses->number) {
            open |= left & (0 - left);
        }
    }
    return open;
}

uint64_t pl_order_unordered(const pl_order *order, const pl_order_uses *uses, const pl_stream *user)
{
    const uint64_t *ordered = order->ordered[first_lane(pl_order_lane(user))];
    uint64_t open = pl_order_open(order, uses, user);
    bool is_alone = pl_stream_index(user) < PL_ORDER_CROWD;
    for (uint64_t left = is_alone ? open : 0; left; left &= left - 1) {
        if (ordered[first_lane(left)] >= uses->number) {
            open &= ~(left & (0 - left));
        }
    }
    return open;
}

pl_order_uses pl_order_join(const pl_order *order, const pl_order_uses *a, const pl_order_uses *b)
{
    uint64_t of_a = pl_order_open(order, a, NULL);
    uint64_t of_b = pl_order_open(order, b, NULL);
    uint64_t number_a = of_a ? a->number : 0;
    uint64_t number_b = of_b ? b->number : 0;
    return (pl_order_uses){
        .lanes = of_a | of_b,
        .number = number_a > number_b ? number_a : number_b,
    };
}

pl_birth pl_order_birth(const pl_order *order, const pl_stream *stream)
{
    uint64_t lane = pl_order_lane(stream);
    return (pl_birth){ .lane = lane, .release = order->n_releases[first_lane(lane)] };
}

uint64_t pl_order_born_in(const pl_order *order, pl_birth birth)
{
    bool is_held = birth.lane != 0 && order->n_releases[first_lane(birth.lane)] == birth.release;
    return is_held ? birth.lane : 0;
}

uint64_t pl_order_release(pl_order *order, const pl_stream *stream)
{
    uint64_t lane = pl_order_own_lane(stream);
    if (lane != 0) {
        order->n_releases[first_lane(lane)]++;
    }
    return lane;
}

/* Called for each stream of a lane, without the lock. */
typedef pleat_status (*visit_stream)(pl_stream *stream, void *context);

static pleat_status each_stream(const pl_order *order, unsigned lane, visit_stream visit,
                                void *context)
{
    if (lane < PL_ORDER_CROWD) {
        return visit(pl_stream_at(order->dev, lane), context);
    }
    pleat_status first = PLEAT_OK;
    for (unsigned i = PL_ORDER_CROWD; i < pl_stream_count(order->dev); i++) {
        pleat_status st = visit(pl_stream_at(order->dev, i), context);
        first = first == PLEAT_OK ? st : first;
    }
    return first;
}

static pleat_status wait_for(pl_stream *stream, void *context)
{
    const uint32_t *wait_ms = context;
    pl_fence *fence = NULL;
    pleat_status st = pl_fence_record(stream, &fence);
    if (st != PLEAT_OK) {
        return st;
    }
    st = pl_fence_wait(fence, *wait_ms);
    pl_fence_return(fence);
    return st;
}

pleat_status pl_order_wait(pl_order *order, uint64_t lanes, uint32_t wait_ms)
{
    pl_lock_assert(order->lock);
    pleat_status first = PLEAT_OK;
    for (uint64_t left = lanes; left; left &= left - 1) {
        unsigned lane = first_lane(left);
        uint64_t covered = order->clock;
        pl_lock_release(order->lock);
        pleat_status st = each_stream(order, lane, wait_for, &wait_ms);
        pl_lock_acquire(order->lock);
        if (st == PLEAT_OK && order->passed[lane] < covered) {
            order->passed[lane] = covered;
        }
        first = first == PLEAT_OK ? st : first;
    }
    return first;
}

pleat_status pl_order_wait_each(pl_order *order, uint64_t lanes, uint32_t wait_ms)
{
    pleat_status first = PLEAT_OK;
    for (uint64_t left = lanes; left; left &= left - 1) {
        pleat_status st = pl_order_wait(order, left & (0 - left), wait_ms);
        if (st != PLEAT_ECAPTURE && st != PLEAT_EPENDING && first == PLEAT_OK) {
            first = st;
        }
    }
    return first;
}

static pleat_status order_after(pl_stream *stream, void *context)
{
    pl_stream *user = context;
    pl_fence *fence = NULL;
    if (stream == user) {
        return PLEAT_OK;
    }
    pleat_status st = pl_fence_record(stream, &fence);
    if (st != PLEAT_OK) {
        return st;
    }
    st = pl_fence_order(user, fence);
    if (st == PLEAT_ESTREAM) {
        st = pl_fence_wait(fence, UINT32_MAX);
    }
    pl_fence_return(fence);
    return st;
}

pleat_status pl_order_after(pl_order *order, uint64_t lanes, pl_stream *user)
{
    pl_lock_assert(order->lock);
    uint64_t *ordered = order->ordered[first_lane(pl_order_lane(user))];
    bool is_alone = pl_stream_index(user) < PL_ORDER_CROWD;
    for (uint64_t left = lanes; left; left &= left - 1) {
        unsigned lane = first_lane(left);
        uint64_t covered = order->clock;
        pl_lock_release(order->lock);
        pleat_status st = each_stream(order, lane, order_after, user);
        pl_lock_acquire(order->lock);
        if (st != PLEAT_OK) {
            return st;
        }
        if (is_alone && ordered[lane] < covered) {
            ordered[lane] = covered;
        }
    }
    return PLEAT_OK;
}

void pl_order_wait_all(pl_order *order)
{
    pl_lock_assert(order->lock);
    pl_lock_release(order->lock);
    for (unsigned i = 0; i < pl_stream_count(order->dev); i++) {
        uint32_t wait_ms = UINT32_MAX;
        if (wait_for(pl_stream_at(order->dev, i), &wait_ms) != PLEAT_OK) {
            (void)!wait_for(pl_stream_at(order->dev, i), &wait_ms);
        }
    }
    pl_lock_acquire(order->lock);
}

static pleat_status ask_capture(pl_stream *stream, void *context)
{
    bool *is_captured = context;
    bool answer = false;
    pleat_status st = pl_stream_is_still_capturing(stream, &answer);
    *is_captured = *is_captured || (st == PLEAT_OK && answer);
    return st == PLEAT_ESTREAM ? PLEAT_OK : st;
}

pleat_status pl_order_captured(pl_order *order, uint64_t lanes, uint64_t *captured)
{
    pl_lock_assert(order->lock);
    *captured = 0;
    if (lanes == 0) {
        return PLEAT_OK;
    }
    pleat_status st = PLEAT_OK;
    pl_lock_release(order->lock);
    for (uint64_t left = lanes; left && st == PLEAT_OK; left &= left - 1) {
        bool is_captured = false;
        st = each_stream(order, first_lane(left), ask_capture, &is_captured);
        *captured |= is_captured ? left & (0 - left) : 0;
    }
    pl_lock_acquire(order->lock);
    return st;
}
