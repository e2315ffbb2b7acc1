/* api_figures.h - a test's own counts of live blocks with their peaks, for comparison with a
 * device's statistics. */
#ifndef PLEAT_TESTS_API_FIGURES_H
#define PLEAT_TESTS_API_FIGURES_H

#include "tests/support/api/api_sim.h"

typedef struct api_figures {
    pleat_stat n[PLEAT_N_SIZES];
    pleat_stat bytes[PLEAT_N_SIZES]; /* rounded to multiples of 512 */
    pleat_stat requested[PLEAT_N_SIZES];
} api_figures;

/* A block of so many requested bytes was allocated or freed, with nothing pending. */
void api_figures_begin(api_figures *f, size_t requested);
void api_figures_end(api_figures *f, size_t requested);
void api_figures_reset_peaks(api_figures *f);
/* `when`: a number for the message. */
void api_figures_expect(const api_figures *f, const pleat_stats *s, uint64_t when);

#endif
