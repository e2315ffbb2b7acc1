/* event.h - one event of a run. */
#ifndef PLEAT_BENCH_EVENT_H
#define PLEAT_BENCH_EVENT_H

#include <stdbool.h>
#include <stdint.h>

/* An allocation or a free (bytes == 0) of the block in `slot`. Or, by `slot`:
 *
 *   BENCH_MARK     begins an iteration; bytes = its number
 *   BENCH_USE      a live block is used on `stream`, after its own stream's work so far
 *   BENCH_USE_END  that use is over
 *
 * Streams and uses are numbered from 0. Only births and ends of blocks have event numbers. */
typedef struct bench_event {
    uint64_t bytes;
    uint32_t slot;
    uint32_t stream; /* of an allocation, of a use */
} bench_event;

#define BENCH_MARK UINT32_MAX
#define BENCH_USE (UINT32_MAX - 1)
#define BENCH_USE_END (UINT32_MAX - 2)

/* An allocation or a free. */
static inline bool bench_event_is_block(const bench_event *event)
{
    return event->slot < BENCH_USE_END;
}

/* The number of a beginning or ending use; and the slot of a beginning use's block. */
static inline uint32_t bench_event_use(const bench_event *event)
{
    return (uint32_t)(event->bytes >> 32);
}

static inline uint32_t bench_event_used_slot(const bench_event *event)
{
    return (uint32_t)event->bytes;
}

#endif
