/* segments_told.c - see segments_told.h. Called under the allocator's lock, without a further
 * lock. */
#include "tests/support/segments/segments_told.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 15 };

/* Disjoint runs, by address: resident memory, live blocks, or blocks being freed. */
typedef struct told_set {
    size_t n;
    struct told_run {
        pleat_devptr base;
        uint64_t bytes;
    } run[MOST];
} told_set;

static struct told {
    pl_observer observer;
    told_set resident;
    told_set live;
    told_set freed;
    size_t n[PL_N_ACTIONS];
    char why[160]; /* the first error */
} told;

static void complain(const char *what, const pl_event *event)
{
    if (told.why[0] == '\0') {
        (void)snprintf(told.why, sizeof(told.why), "%s: action %d, 0x%llx + %llu", what,
                       (int)event->action, (unsigned long long)event->base,
                       (unsigned long long)event->bytes);
    }
}

/* The first run that ends after `at`. */
static size_t find(const told_set *set, pleat_devptr at)
{
    size_t low = 0;
    size_t high = set->n;

    while (low < high) {
        size_t middle = (low + high) / 2;
        if (set->run[middle].base + set->run[middle].bytes <= at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void insert(told_set *set, size_t i, pleat_devptr base, uint64_t bytes)
{
    if (set->n == MOST) {
        ck_abort_msg("more than %d runs", MOST);
    }
    memmove(set->run + i + 1, set->run + i, (set->n - i) * sizeof(*set->run));
    set->run[i] = (struct told_run){ base, bytes };
    set->n++;
}

static void erase(told_set *set, size_t i)
{
    set->n--;
    memmove(set->run + i, set->run + i + 1, (set->n - i) * sizeof(*set->run));
}

static bool add(told_set *set, pleat_devptr base, uint64_t bytes)
{
    size_t i = find(set, base);

    if (i < set->n && set->run[i].base < base + bytes) {
        return false;
    }
    insert(set, i, base, bytes);
    return true;
}

static bool remove_exactly(told_set *set, pleat_devptr base, uint64_t bytes)
{
    size_t i = find(set, base);

    if (i == set->n || set->run[i].base != base || set->run[i].bytes != bytes) {
        return false;
    }
    erase(set, i);
    return true;
}

/* Merge run i with the next run if they touch. */
static void join(told_set *set, size_t i)
{
    if (i + 1 < set->n && set->run[i].base + set->run[i].bytes == set->run[i + 1].base) {
        set->run[i].bytes += set->run[i + 1].bytes;
        erase(set, i + 1);
    }
}

static bool map(told_set *set, pleat_devptr base, uint64_t bytes)
{
    if (!add(set, base, bytes)) {
        return false;
    }
    size_t i = find(set, base);
    join(set, i);
    if (i > 0) {
        join(set, i - 1);
    }
    return true;
}

/* Cut the range out of the run around it. */
static bool unmap(told_set *set, pleat_devptr base, uint64_t bytes)
{
    size_t i = find(set, base);
    pleat_devptr end = base + bytes;

    if (i == set->n || set->run[i].base > base || set->run[i].base + set->run[i].bytes < end) {
        return false;
    }
    struct told_run was = set->run[i];
    erase(set, i);
    if (was.base + was.bytes > end) {
        insert(set, i, end, was.base + was.bytes - end);
    }
    if (was.base < base) {
        insert(set, i, was.base, base - was.base);
    }
    return true;
}

static bool is_resident(pleat_devptr base, uint64_t bytes)
{
    size_t i = find(&told.resident, base);

    return i < told.resident.n && told.resident.run[i].base <= base &&
           told.resident.run[i].base + told.resident.run[i].bytes >= base + bytes;
}

static void hear(pl_observer *self, const pl_event *event)
{
    pleat_devptr base = event->base;
    uint64_t bytes = event->bytes;
    bool fits = true;

    (void)self;
    told.n[event->action]++;
    switch (event->action) {
    case PL_ACTION_ALLOC:
        fits = is_resident(base, bytes) && add(&told.live, base, bytes);
        break;
    case PL_ACTION_FREE_REQUESTED:
        fits = remove_exactly(&told.live, base, bytes) && add(&told.freed, base, bytes);
        break;
    case PL_ACTION_FREE_COMPLETED:
        fits = is_resident(base, bytes) && remove_exactly(&told.freed, base, bytes);
        break;
    case PL_ACTION_SEGMENT_ALLOC:
    case PL_ACTION_SEGMENT_MAP:
        fits = map(&told.resident, base, bytes);
        break;
    case PL_ACTION_SEGMENT_FREE:
    case PL_ACTION_SEGMENT_UNMAP:
        fits = unmap(&told.resident, base, bytes);
        break;
    case PL_N_ACTIONS:
        fits = false;
    }
    if (!fits) {
        complain("it does not follow from what was told before", event);
    }
}

pl_observer *told_open(void)
{
    memset(&told, 0, sizeof(told));
    told.observer.tell = hear;
    told.observer.is_on = true;
    return &told.observer;
}

size_t told_count(pl_action action)
{
    return told.n[action];
}

/* ---- the visit ------------------------------------------------------------------------------- */

static struct seen {
    told_set resident;
    told_set live;
    told_set freed;
    bool overlaps;
} seen;

static void see(void *context, const pl_piece *piece)
{
    (void)context;
    if (piece->kind != PL_PIECE_HOLE) {
        seen.overlaps |= !map(&seen.resident, piece->base, piece->bytes);
    }
    if (piece->kind == PL_PIECE_LIVE) {
        seen.overlaps |= !add(&seen.live, piece->base, piece->requested_bytes);
    }
    if (piece->awaited_bytes > 0) {
        seen.overlaps |= !add(&seen.freed, piece->base, piece->awaited_bytes);
    }
}

static void assert_same(const char *what, const told_set *a, const told_set *b)
{
    for (size_t i = 0; i < a->n && i < b->n; i++) {
        if (a->run[i].base != b->run[i].base || a->run[i].bytes != b->run[i].bytes) {
            ck_abort_msg("%s: 0x%llx + %llu was told, 0x%llx + %llu is there", what,
                         (unsigned long long)a->run[i].base, (unsigned long long)a->run[i].bytes,
                         (unsigned long long)b->run[i].base, (unsigned long long)b->run[i].bytes);
        }
    }
    ck_assert_msg(a->n == b->n, "%s: %zu were told, %zu are there", what, a->n, b->n);
}

void told_assert_agrees(pl_allocator *a)
{
    seen.resident.n = 0;
    seen.live.n = 0;
    seen.freed.n = 0;
    seen.overlaps = false;
    a->ops->visit(a, see, NULL); /* no assertion per piece: Check logs each assertion */
    ck_assert(!seen.overlaps);
    ck_assert_msg(told.why[0] == '\0', "%s", told.why);
    assert_same("resident", &told.resident, &seen.resident);
    assert_same("live", &told.live, &seen.live);
    assert_same("being freed", &told.freed, &seen.freed);
}
