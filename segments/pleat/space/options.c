/* options.c - the table of pleat's own options. */
#include "segments/pleat/space/options.h"

#define AT(member) PL_OPTION_AT(pl_pleat_options, member)

static const char *const growth_words[] = { "balanced", "frugal", "ample", NULL };
static const char *const cross_words[] = { "order", "settled", NULL };
static const char *const chunk_words[] = { "granule", "mixed", NULL };
static const char *const short_words[] = { "refuse", "compact", NULL };
static const char *const capture_words[] = { "ask", "told", NULL };

/* clang-format off */
static const pl_option rows[] = {
    { "growth", PL_OPTION_WORD, AT(growth), .words = growth_words,
      .help = "what memory is worth" },
    { "cross_stream", PL_OPTION_WORD, AT(cross_stream), .words = cross_words,
      .help = "settled: pending memory never goes to another stream" },
    { "capture", PL_OPTION_WORD, AT(capture), .words = capture_words,
      .help = "how pleat learns that a stream is being captured" },
    { "chunks", PL_OPTION_WORD, AT(chunks), .initial = PL_CHUNKS_MIXED, .words = chunk_words,
      .help = "mixed: large chunks while memory is plentiful" },
    { "chunk_share", PL_OPTION_NUMBER, AT(chunk_share), .initial = 1500, .least = 1,
      .most = 1000000, .help = "largest chunk: this part of what may still be created" },
    { "short", PL_OPTION_WORD, AT(when_short), .words = short_words,
      .help = "compact: before a request fails, move live memory; no other thread may launch" },
    { "reserve_mb", PL_OPTION_NUMBER, AT(reserve_bytes), .initial = 512, .most = 1 << 24,
      .scale = 1 << 20, .help = "MiB of the device that are left to others" },
};
/* clang-format on */

const pl_option_table pl_pleat_option_table = {
    PL_OPTION_ROWS(rows),
    .bytes = sizeof(pl_pleat_options),
};
