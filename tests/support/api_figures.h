/* api_figures.h - counts of live blocks kept by a test, with their peaks, and whether the
 * statistics of a device say the same. */
#ifndef PLEAT_TESTS_API_FIGURES_H
#define PLEAT_TESTS_API_FIGURES_H

#include "tests/support/api_sim.h"

typedef struct api_figures {
    pleat_stat n[PLEAT_N_SIZES];
    pleat_stat bytes[PLEAT_N_SIZES]; /* rounded to multiples of 512 */
    pleat_stat requested[PLEAT_N_SIZES];
} api_figures;

/* A block of so many requested bytes was allocated or freed, all else being over. */
void api_figures_begin(api_figures *f, size_t requested);
void api_figures_end(api_figures *f, size_t requested);
void api_figures_reset_peaks(api_figures *f);
/* `when`: a number for the message. */
void api_figures_expect(const api_figures *f, const pleat_stats *s, uint64_t when);

#endif
