/* loops.c - the requests of a round through a row. */
#include "bench/pairs/loops.h"

#include <time.h>

#include "bench/base/clock.h"
#include "vmm/base/lock.h"

/* This thread's processor time. Other programs are excluded, and a pair never blocks. */
static uint64_t thread_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static inline __attribute__((always_inline)) bool do_pairs(const bench_through *through,
                                                           bench_place *places,
                                                           const bench_pair *pairs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bench_place *place = &places[pairs[i].index];
        if (!through->release(through, place->ptr, place->stream)) {
            return false;
        }
        place->ptr = through->alloc(through, pairs[i].bytes, place->stream);
        if (place->ptr == 0) {
            return false;
        }
    }
    return true;
}

static inline __attribute__((always_inline)) bool do_event(bench_row *row, const bench_event *event)
{
    const bench_through *through = &row->through;
    bench_place *place = &row->places[event->slot];
    if (event->bytes) {
        place->stream = row->streams[event->stream];
        place->ptr = through->alloc(through, event->bytes, place->stream);
        return place->ptr != 0;
    }
    pleat_devptr ptr = place->ptr;
    place->ptr = 0;
    return through->release(through, ptr, place->stream);
}

static inline __attribute__((always_inline)) bool do_events(bench_row *row,
                                                            const bench_event *events, size_t n)
{
    bool ok = true;
    for (size_t i = 0; i < n && ok; i++) {
        ok = do_event(row, &events[i]);
    }
    return ok;
}

static bool free_rest(bench_row *row, const bench_course *course)
{
    bool ok = true;
    for (uint32_t i = 0; course->events && i < course->n_slots && ok; i++) {
        bench_place *place = &row->places[i];
        ok = place->ptr == 0 || row->through.release(&row->through, place->ptr, place->stream);
        place->ptr = 0;
    }
    return ok;
}

static inline __attribute__((always_inline)) bool do_round(bench_row *row,
                                                           const bench_course *course,
                                                           unsigned thread)
{
    return course->events
               ? do_events(row, course->events, course->n_events)
               : do_pairs(&row->through, row->places,
                          course->pairs + (size_t)thread * course->n_pairs, course->n_pairs);
}

/* Neither static nor inlined, since callgrind finds the function by its name. */
bool bench_counted_round(bench_row *row, const bench_course *course, unsigned thread);

__attribute__((noinline)) bool bench_counted_round(bench_row *row, const bench_course *course,
                                                   unsigned thread)
{
    return do_round(row, course, thread);
}

bool bench_loop_run(bench_row *row, const bench_course *course, unsigned thread, uint64_t *ns)
{
    uint64_t begin = thread_ns();
    bool ok = bench_counted_round(row, course, thread);
    *ns = thread_ns() - begin;
    return ok && free_rest(row, course);
}

/* Contains a copy of the counted loop. Callgrind does not count the copy. */
bool bench_loop_warm(bench_row *row, const bench_course *course, unsigned thread)
{
    return do_round(row, course, thread) && free_rest(row, course);
}

/* ---- one by one ------------------------------------------------------------------------------ */

static float lesser(float before, double now)
{
    float new_value = now > 0.0 ? (float)now : 0.0f;
    return new_value < before ? new_value : before;
}

static bool time_pair(bench_row *row, const bench_pair *pair, bench_sample *sample)
{
    const bench_clock *clock = bench_clock_calibrated();
    const bench_through *through = &row->through;
    bench_place *place = &row->places[pair->index];
    uint64_t begin = bench_ticks();
    bool ok = through->release(through, place->ptr, place->stream);
    uint64_t middle = bench_ticks();
    place->ptr = through->alloc(through, pair->bytes, place->stream);
    uint64_t end = bench_ticks();
    double free_ticks = (double)(middle - begin) - clock->pair_ticks;
    double alloc_ticks = (double)(end - middle) - clock->pair_ticks;
    double longer = free_ticks > alloc_ticks ? free_ticks : alloc_ticks;
    sample->unit_ns = lesser(sample->unit_ns, (free_ticks + alloc_ticks) * clock->ns_per_tick);
    sample->call_ns = lesser(sample->call_ns, longer * clock->ns_per_tick);
    return ok && place->ptr != 0;
}

static bool time_event(bench_row *row, const bench_event *event, bench_sample *sample)
{
    const bench_clock *clock = bench_clock_calibrated();
    uint64_t begin = bench_ticks();
    bool ok = do_event(row, event);
    double ticks = (double)(bench_ticks() - begin) - clock->pair_ticks;
    sample->unit_ns = lesser(sample->unit_ns, ticks * clock->ns_per_tick);
    sample->call_ns = sample->unit_ns;
    return ok;
}

bool bench_loop_time(bench_row *row, const bench_course *course, bench_sample *samples)
{
    size_t n = bench_course_units(course);
    bool ok = true;
    for (size_t i = 0; i < n && ok; i++) {
        ok = course->events ? time_event(row, &course->events[i], &samples[i])
                            : time_pair(row, &course->pairs[i], &samples[i]);
    }
    return ok && free_rest(row, course);
}

bool bench_loop_hold(bench_row *row, const bench_course *course, bench_sample *samples)
{
    size_t n = bench_course_units(course);
    double read_ns = bench_clock_calibrated()->read_ns;
    bool ok = true;
    pl_lock_time_holds(true);
    for (size_t i = 0; i < n && ok; i++) {
        (void)pl_lock_longest_ns();
        ok = course->events ? do_event(row, &course->events[i])
                            : do_pairs(&row->through, row->places, &course->pairs[i], 1);
        samples[i].hold_ns = lesser(samples[i].hold_ns, (double)pl_lock_longest_ns() - read_ns);
    }
    pl_lock_time_holds(false);
    return ok && free_rest(row, course);
}
