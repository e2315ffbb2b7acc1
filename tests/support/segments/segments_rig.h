/* segments_rig.h - a space without a driver and with drawn segments, for tests of its parts.
 *
 * In a drawing a character is 512 bytes, and a granule is four characters:
 *
 *   "AAAB|0011|....|1:1CC"
 *
 *   A..L  live blocks, a letter each        m  freed, but other streams may use it
 *   0     free and settled                  k  kept for a capture
 *   1..4  free, pends on that lane          s  stale
 *   .     hole                              p  stale, refused
 *   f h   in flight, free before / a hole before
 *
 * Bars are only for the eye and must be at granules. A colon separates two blocks of one letter.
 * Later blocks of a lane have later ticks. A drawn segment is valid: pl_check_space passes. */
#ifndef PLEAT_TESTS_SEGMENTS_RIG_H
#define PLEAT_TESTS_SEGMENTS_RIG_H

#include "segments/pleat/space/space.h"

enum {
    RIG_UNIT = PL_BLOCK_QUANTUM,
    RIG_GRANULE_LOG2 = 11,
    RIG_GRANULE = 1 << RIG_GRANULE_LOG2,
    RIG_LANES = 4
};

#define RIG_BASE UINT64_C(0x700000000000)

extern pl_space rig;

void rig_open(void);  /* RIG_LANES lanes with two areas each, and no segment */
void rig_close(void); /* asserts that no host memory is left */

/* Draw a segment of the lane's area, above all segments drawn before. */
pl_segment *rig_draw_in(uint32_t lane, pl_class class, const char *drawing);
pl_segment *rig_draw(const char *drawing); /* draws in the large area of lane 1 */
/* Draw the current state, with bars, and with colons between neighbours of one letter. The text of
 * the last four calls is kept. */
const char *rig_show(const pl_segment *seg);
pleat_devptr rig_at(const pl_segment *seg, size_t unit); /* the address of the n-th character */
pl_block *rig_block(const pl_segment *seg, size_t unit); /* the block containing the unit */
pl_area *rig_area(uint32_t lane, pl_class class);

#define rig_assert(seg, drawing) ck_assert_str_eq(rig_show(seg), drawing)

#endif
