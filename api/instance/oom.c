/* oom.c - why memory was short: one sentence with all numbers, and a verdict.
 *
 * Verdicts are tried in order: the first true verdict is given. Runs on the failing path only and
 * takes no lock of its own. */
#include "api/instance/oom.h"

#include "segments/pleat/space/options.h"
#include "vmm/device.h"

/* The smaller of the limit set and PyTorch's fraction of the device; 0 = none. */
static uint64_t limit_of(const pl_gpu *gpu, uint64_t total)
{
    uint64_t limit = atomic_load(&gpu->limit_bytes);
    double fraction = pl_cache_options_of(gpu->ops, &gpu->instance->config.options).memory_fraction;
    if (fraction <= 0 || fraction >= 1) {
        return limit;
    }
    uint64_t share = (uint64_t)(fraction * (double)total + 0.5);
    return limit == 0 || share < limit ? share : limit;
}

static void measure(pl_gpu *gpu, size_t bytes, pleat_status moved, const pl_driver_error *driver,
                    pl_shortage *out)
{
    pleat_stats stats;
    uint64_t free_bytes = 0;
    gpu->ops->stats(gpu->allocator, &stats);
    bool has_free = pl_device_free_bytes(gpu->dev, &free_bytes) == PLEAT_OK;
    bool is_movable = gpu->ops == &pl_pleat_ops; /* the classic caches move nothing */
    uint64_t granule = is_movable ? stats.granule_bytes : 0;
    uint64_t total = pl_device_total_bytes(gpu->dev);
    uint64_t held = stats.resident_bytes + free_bytes;
    *out = (pl_shortage){
        .request = granule > 0 ? (bytes + granule - 1) / granule * granule : bytes,
        .chunk = granule,
        .total = total,
        .free = free_bytes,
        .has_free = has_free,
        .limit = limit_of(gpu, total),
        .resident = stats.resident_bytes,
        .live = granule > 0 ? stats.live_granules * granule
                            : stats.allocated_bytes[PLEAT_SIZES_ALL].current,
        .pinned = granule > 0 ? stats.pinned_granules * granule : 0,
        .tied = granule > 0 ? stats.tied_granules * granule : 0,
        .idle_free = stats.free_bytes,
        .pending = stats.pending_bytes,
        .idle = stats.idle_bytes,
        .address = stats.address_bytes,
        .foreign = has_free && total > held ? total - held : 0,
        .is_movable = is_movable,
    };
    if (out->tied > 0 && gpu->ops->count_tied) {
        gpu->ops->count_tied(gpu->allocator, &out->would);
    }
    out->moved = moved;
    out->is_compacted = is_movable &&
                        pl_pleat_own(&gpu->instance->config.options).when_short == PL_SHORT_COMPACT;
    out->in_pools = pl_pools_held(&gpu->pools, &out->largest_pool);
    out->is_refused = pl_driver_refused_memory(driver, &out->refused);
    out->is_host = gpu->instance->config.device.is_host;
    const pl_config *config = &gpu->instance->config;
    out->wait_ms = config->options.wait_ms;
    out->is_unordered = is_movable &&
                        pl_pleat_own(&config->options).cross_stream == PL_CROSS_SETTLED;
    out->is_known_by_id = is_movable && config->device.stream_identity == PL_STREAM_IS_ID;
}

/* The most that the instance may hold: the device minus foreign memory, or the limit. */
static uint64_t capacity_of(const pl_shortage *s)
{
    uint64_t left = s->total - s->foreign;
    return s->limit > 0 && s->limit < left ? s->limit : left;
}

/* All that the instance would have to hold for the request. */
static uint64_t need_of(const pl_shortage *s)
{
    return s->live + s->request + s->pinned + s->tied;
}

pleat_verdict pl_oom_judge(const pl_shortage *s, pleat_status status)
{
    uint64_t needed = s->live + s->request;
    if (status == PLEAT_EPENDING) {
        return PLEAT_VERDICT_PENDING;
    }
    if (status == PLEAT_ENOSPACE_VA) {
        return PLEAT_VERDICT_ADDRESS_SPACE;
    }
    if (needed > s->total) {
        return PLEAT_VERDICT_FULL;
    }
    if (s->limit > 0 && needed > s->limit) {
        return PLEAT_VERDICT_LIMIT;
    }
    if (needed > s->total - s->foreign) {
        return PLEAT_VERDICT_FOREIGN;
    }
    if (needed + s->pinned > capacity_of(s)) {
        return PLEAT_VERDICT_PINNED;
    }
    if (need_of(s) > capacity_of(s)) {
        return PLEAT_VERDICT_TIED;
    }
    bool has_room = s->has_free && s->free >= s->refused;
    return s->is_refused && has_room ? PLEAT_VERDICT_REFUSED : PLEAT_VERDICT_FRAGMENTED;
}

/* ---- the sentence ---- */

static void say_amount(pl_text *text, const char *before, uint64_t bytes)
{
    pl_text_add(text, "%s", before);
    pl_text_add_bytes(text, bytes);
}

/* Most numbers are 0, and a word beside a 0 only raises a question. */
static void say_some(pl_text *text, const char *before, uint64_t bytes)
{
    if (bytes > 0) {
        say_amount(text, before, bytes);
    }
}

static void say_numbers(const pl_gpu *gpu, size_t bytes, const pl_shortage *s, pl_text *text)
{
    pl_text_add(text, "device %d: ", gpu->ordinal);
    pl_text_add_bytes(text, bytes);
    pl_text_add(text, " (%llu bytes) requested", (unsigned long long)bytes);
    say_amount(text, "; device: total ", s->total);
    if (s->has_free) {
        say_amount(text, ", free ", s->free);
        say_amount(text, ", outside of this instance ", s->foreign);
    }
    if (s->limit > 0) {
        say_amount(text, ", limit ", s->limit);
    } else {
        pl_text_add(text, ", no limit");
    }
    pl_text_add(text, "; %s: ", gpu->ops->name);
    say_amount(text, "resident ", s->resident);
    say_amount(text, ", live ", s->live);
    say_some(text, ", kept by graphs or pools ", s->pinned);
    say_some(text, ", tied to partly used chunks ", s->tied);
    say_amount(text, ", free ", s->idle_free);
    say_some(text, ", free once its work is over ", s->pending);
    say_some(text, ", held but mapped nowhere ", s->idle);
}

static void say_fragmented(const pl_shortage *s, pl_text *text)
{
    if (s->is_movable) {
        pl_text_add(text, "the bytes are there now, so the same request may succeed");
    } else {
        pl_text_add(text, "fragmented: the bytes are there, but not in one piece; "
                          "allocator:pleat gathers them");
    }
}

/* One refusal cannot tell whether memory became free after it, or whether the driver never grants
 * all memory that it reports free. */
static void say_refused(const pl_shortage *s, pl_text *text)
{
    if (s->refused > 0) {
        say_amount(text, "the driver refused ", s->refused);
        say_amount(text, " although it reports ", s->free);
    } else {
        say_amount(text, "the driver refused a call that takes no memory, and reports ", s->free);
    }
    say_amount(text,
               " free; if it refuses again it grants less than it reports, as on WSL or a virtual "
               "GPU: there a lower budget helps, such as a limit of ",
               s->resident);
}

/* Blames private pools if they hold memory, since memory that captures keep in the default pool
 * cannot be told apart. */
static void say_pinned(const pl_shortage *s, pl_text *text)
{
    if (s->in_pools == 0) {
        say_amount(text, "captured graphs keep ", s->pinned);
        pl_text_add(text,
                    " of free memory; it comes back when they and their executables are "
                    "destroyed%s",
                    s->is_torch ? "" : " (before CUDA 11.3: with pleat_device_release_capture)");
        return;
    }
    say_amount(text, "", s->pinned);
    say_amount(text, " of free memory are pinned: private pools hold ", s->in_pools);
    pl_text_add(text,
                ", (%llu, %llu) the most; they give it back when they are released, in PyTorch "
                "with the last graph or MemPool that uses them",
                (unsigned long long)s->largest_pool.first,
                (unsigned long long)s->largest_pool.second);
}

/* Why a compaction did not serve the request. */
static const char *why_not_moved(const pl_shortage *s)
{
    switch (s->moved) {
    case PLEAT_EBUSY:
        return s->is_torch ? "mappings are observed"
                           : "mappings are observed (pleat_mapping_unobserve)";
    case PLEAT_ECAPTURE:
        return "a capture is under way";
    case PLEAT_EPENDING:
        return "work on the device did not end in time";
    case PLEAT_ENOTSUP: /* a wake */
        return "it serves requests alone";
    case PLEAT_ENOMEM_DEVICE:
        return "too little of it can be moved: pools with graphs and shared memory stay";
    default:
        return "it found no room to begin, or won too little";
    }
}

/* A large chunk is mapped as a whole: requests elsewhere cannot use its free part. The advice is
 * counted: what a compaction would win now, and what smaller chunks would not have tied. */
static void say_tied(const pl_shortage *s, pl_text *text)
{
    uint64_t missing = need_of(s) - capacity_of(s);
    say_amount(text, "", s->tied);
    pl_text_add(text, " are free in chunks that are partly in use");
    if (s->is_compacted) {
        pl_text_add(text, "; short:compact did not help, as %s", why_not_moved(s));
    } else if (s->would.to_win >= missing) {
        say_amount(text,
                   s->is_torch ? "; install(short=\"compact\"), or pleat.torch.compact() between "
                                 "two steps, would win "
                               : "; short:compact, or pleat_device_compact, would win ",
                   s->would.to_win);
    }
    if (s->tied - s->would.frugal >= missing && s->tied > s->would.frugal) {
        say_amount(text, "; with growth:frugal only ", s->would.frugal);
        pl_text_add(text, " of it would be tied, which is enough");
    } else {
        pl_text_add(text, "; with chunks:granule nothing would be tied");
    }
}

static void say_full(const pl_shortage *s, pl_text *text)
{
    if (s->chunk > s->total) {
        say_amount(text, "a chunk has ", s->chunk);
        say_amount(text, ", which is more than the ", s->total);
        pl_text_add(text, " of the device; it needs a larger one, or fewer chunk_granules");
        return;
    }
    if (s->request > s->total) {
        pl_text_add(text,
                    "the request alone is more than the device has, so no free helps: ask for "
                    "less, or take a larger device");
        return;
    }
    pl_text_add(text, "truly full: live memory and the request are more than the device has; only "
                      "less live memory helps: free blocks, or ask for less at a time");
}

static void say_limit(const pl_shortage *s, pl_text *text)
{
    bool has_room = need_of(s) <= s->total - s->foreign;
    pl_text_add(text, "the limit is reached: live memory and the request are more than it; %s",
                has_room ? "raise the limit or free blocks"
                         : "free blocks, for the device has no room for a limit that is enough");
}

static void say_foreign(const pl_shortage *s, pl_text *text)
{
    say_amount(text, "", s->foreign);
    pl_text_add(text,
                " of the device are in use outside of this instance%s; without that live memory "
                "and the request would fit: end what can be ended, free blocks, or ask for less "
                "at a time",
                s->is_host ? ""
                           : ", by the CUDA context of this process, which stays, and perhaps by "
                             "libraries, other instances and other processes (nvidia-smi lists "
                             "them)");
}

/* Advises what is not in force already. */
static void say_pending(const pl_shortage *s, pl_text *text)
{
    say_amount(text, "", s->pending);
    pl_text_add(text, " are free, but their last use on the GPU is not over");
    if (s->wait_ms > 0) {
        pl_text_add(text, " after wait_ms:%u; synchronise", s->wait_ms);
    } else {
        pl_text_add(text, " and wait_ms:0 forbids to wait; synchronise, or set wait_ms");
    }
    if (s->is_unordered) {
        pl_text_add(text, ", or set cross_stream:order");
    }
    if (s->is_known_by_id) {
        pl_text_add(text, "; if the program keeps its streams, stream_identity:handle lets pleat "
                          "wait for each stream by itself");
    }
}

/* How much less would have to be held, by whomever, for the request to fit. */
static void say_missing(const pl_shortage *s, pleat_status status, pl_text *text)
{
    if (status == PLEAT_ENOMEM_DEVICE && need_of(s) > capacity_of(s)) {
        pl_text_add_bytes(text, need_of(s) - capacity_of(s));
        pl_text_add(text, " are missing");
        if (s->chunk > 0) {
            say_amount(text, ", counted in granules of ", s->chunk);
        }
        pl_text_add(text, "; ");
    }
}

static void say_hint(const pl_shortage *s, pleat_verdict verdict, pl_text *text)
{
    switch (verdict) {
    case PLEAT_VERDICT_FULL:
        say_full(s, text);
        break;
    case PLEAT_VERDICT_LIMIT:
        say_limit(s, text);
        break;
    case PLEAT_VERDICT_FOREIGN:
        say_foreign(s, text);
        break;
    case PLEAT_VERDICT_PENDING:
        if (s->pending == 0 && s->pinned > 0) {
            say_pinned(s, text);
            break;
        }
        say_pending(s, text);
        break;
    case PLEAT_VERDICT_PINNED:
        say_pinned(s, text);
        break;
    case PLEAT_VERDICT_TIED:
        say_tied(s, text);
        break;
    case PLEAT_VERDICT_FRAGMENTED:
        say_fragmented(s, text);
        break;
    case PLEAT_VERDICT_REFUSED:
        say_refused(s, text);
        break;
    case PLEAT_VERDICT_ADDRESS_SPACE:
        say_amount(text, "address space, not memory, is exhausted: ", s->address);
        pl_text_add(
            text,
            " reserved; raise address_budget, or use fewer streams, private pools and instances");
        break;
    case PLEAT_VERDICT_NONE:
        break;
    }
}

pleat_verdict pl_oom_explain(const pl_want *w, pleat_status status, pleat_status moved,
                             const pl_driver_error *driver, pl_text *text)
{
    pl_gpu *gpu = w->gpu;
    pl_shortage shortage;
    measure(gpu, w->bytes, moved, driver, &shortage);
    shortage.is_torch = w->is_patient;
    pleat_verdict verdict = pl_oom_judge(&shortage, status);
    pl_text_add(text, "%s on ", pleat_status_text(status));
    say_numbers(gpu, w->bytes, &shortage, text);
    pl_tags_say(gpu, text);
    pl_text_add(text, "; ");
    if (status == PLEAT_ENOMEM_DEVICE && pl_tags_say_limit(gpu, w->in, w->bytes, text)) {
        return PLEAT_VERDICT_LIMIT;
    }
    say_missing(&shortage, status, text);
    say_hint(&shortage, verdict, text);
    return verdict;
}

pleat_status pl_oom_refuse_context(int device)
{
    char sentence[PL_ERROR_TEXT_BYTES];
    pl_driver_error driver = *pl_driver_last_error();
    pl_text text;
    pl_text_init(&text, sentence, sizeof sentence);
    pl_text_add(&text,
                "%s: device %d cannot be opened: others (processes, libraries, instances) leave no "
                "memory for the driver's own context",
                pleat_status_text(PLEAT_ENOMEM_DEVICE), device);
    return pl_error_set_verdict(PLEAT_ENOMEM_DEVICE, 0, PLEAT_VERDICT_FOREIGN, sentence, &driver);
}
