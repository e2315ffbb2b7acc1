/* history_stack.c - taking, storing and describing stacks.
 *
 * Taking one walks the unwind tables, which may lock the loader: never under a lock of pleat.
 * Storing one may grow two arrays and is done under the lock of a history; without host memory the
 * entry has no stack. */
#include "api/history_stack.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <string.h>

#include "api/history.h"
#include "api/text.h"

typedef struct own_stack {
    size_t n;
    uint64_t hash;
    void *at[PL_HISTORY_DEPTH + 1]; /* [0] is pl_stack_begin's own */
} own_stack;

static _Thread_local own_stack own;

/* ---- the calling thread's ---- */

void pl_stack_prepare(void)
{
    void *at[1];
    (void)backtrace(at, 1);
}

static uint64_t hash_of(void *const *at, size_t n)
{
    uint64_t hash = UINT64_C(0x9e3779b97f4a7c15);
    for (size_t i = 0; i < n; i++) {
        hash = (hash ^ (uintptr_t)at[i]) * UINT64_C(0xff51afd7ed558ccd);
        hash ^= hash >> 32;
    }
    return hash;
}

static void begin_with(size_t n)
{
    own.n = n;
    own.hash = hash_of(own.at + 1, n);
}

void pl_stack_begin(void)
{
    int n = backtrace(own.at, PL_HISTORY_DEPTH + 1);
    begin_with(n > 0 ? (size_t)n - 1 : 0);
}

void pl_stack_set(void *const *addresses, size_t n)
{
    memcpy(own.at + 1, addresses, n * sizeof *addresses);
    begin_with(n);
}

void pl_stack_end(void)
{
    own.n = 0;
}

/* ---- storing ---- */

/* Stored stacks begin with their number of frames, kept as if it were one. */
static size_t depth_of(void *const *stack)
{
    return (uintptr_t)stack[0];
}

static bool is_own(void *const *stack)
{
    return depth_of(stack) == own.n && memcmp(stack + 1, own.at + 1, own.n * sizeof *stack) == 0;
}

/* The slot that holds such a stack, or the empty one where it belongs. */
static uint32_t *find_slot(const pl_history_stacks *stacks)
{
    uint32_t mask = stacks->n_slots - 1;
    uint32_t at = (uint32_t)own.hash & mask;
    while (stacks->slots[at] != 0 && !is_own(stacks->words + stacks->slots[at] - 1)) {
        at = (at + 1) & mask;
    }
    return &stacks->slots[at];
}

static bool grow_slots(pl_history_stacks *stacks, pl_host *host)
{
    enum { FIRST_SLOTS = 1024 };
    if (stacks->n_slots > 0 && stacks->n_stacks < stacks->n_slots / 4 * 3) {
        return true;
    }
    uint32_t n_slots = stacks->n_slots > 0 ? stacks->n_slots * 2 : FIRST_SLOTS;
    uint32_t *slots = pl_host_calloc(host, n_slots, sizeof *slots);
    if (!slots) {
        return false;
    }
    for (uint32_t i = 0; i < stacks->n_slots; i++) {
        if (stacks->slots[i] != 0) {
            void *const *stack = stacks->words + stacks->slots[i] - 1;
            uint32_t at = (uint32_t)hash_of(stack + 1, depth_of(stack)) & (n_slots - 1);
            while (slots[at] != 0) {
                at = (at + 1) & (n_slots - 1);
            }
            slots[at] = stacks->slots[i];
        }
    }
    pl_host_free(host, stacks->slots);
    stacks->slots = slots;
    stacks->n_slots = n_slots;
    return true;
}

static bool grow_words(pl_history_stacks *stacks, pl_host *host, uint32_t n_more)
{
    enum { FIRST_WORDS = 4096 };
    if (n_more <= stacks->capacity_of_words - stacks->n_words) {
        return true;
    }
    uint32_t capacity = stacks->capacity_of_words > 0 ? stacks->capacity_of_words * 2 : FIRST_WORDS;
    void **words = capacity <= PL_HISTORY_STACK_WORDS
                       ? pl_host_realloc(host, stacks->words, capacity * sizeof *words)
                       : NULL;
    if (!words) {
        return false;
    }
    stacks->words = words;
    stacks->capacity_of_words = capacity;
    return true;
}

uint32_t pl_stacks_name(pl_history_stacks *stacks, pl_host *host)
{
    uint32_t n = (uint32_t)own.n + 1;
    if (own.n == 0 || (stacks->n_slots == 0 && !grow_slots(stacks, host))) {
        return 0;
    }
    uint32_t *slot = find_slot(stacks);
    if (*slot == 0) {
        if (!grow_words(stacks, host, n) || !grow_slots(stacks, host)) {
            return 0;
        }
        slot = find_slot(stacks);
        void **stack = stacks->words + stacks->n_words;
        stack[0] = (void *)(uintptr_t)own.n;
        memcpy(stack + 1, own.at + 1, own.n * sizeof *stack);
        *slot = stacks->n_words + 1;
        stacks->n_words += n;
        stacks->n_stacks++;
    }
    stacks->first += stacks->first == 0;
    return stacks->first + *slot - 1;
}

void pl_stacks_clear(pl_history_stacks *stacks)
{
    bool wraps = stacks->first > UINT32_MAX - 2 * PL_HISTORY_STACK_WORDS;
    stacks->first = wraps ? 1 : stacks->first + stacks->n_words;
    stacks->n_words = 0;
    stacks->n_stacks = 0;
    if (stacks->n_slots > 0) {
        memset(stacks->slots, 0, stacks->n_slots * sizeof *stacks->slots);
    }
}

void pl_stacks_fini(pl_history_stacks *stacks, pl_host *host)
{
    pl_host_free(host, stacks->words);
    pl_host_free(host, stacks->slots);
    *stacks = (pl_history_stacks){ .n_words = 0 };
}

size_t pl_stacks_get(const pl_history_stacks *stacks, uint32_t name, void *out[PL_HISTORY_DEPTH])
{
    uint32_t offset = name - stacks->first; /* of a forgotten name: beyond all words */
    if (name == 0 || offset >= stacks->n_words) {
        return 0;
    }
    size_t n = depth_of(stacks->words + offset);
    memcpy(out, stacks->words + offset + 1, n * sizeof *out);
    return n;
}

/* ---- describing ---- */

static const char *file_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

void pl_frame_describe(const void *address, pl_frame *out)
{
    pl_text name;
    pl_text filename;
    Dl_info info;
    uintptr_t at = (uintptr_t)address;
    pl_text_init(&name, out->name, sizeof out->name);
    pl_text_init(&filename, out->filename, sizeof out->filename);
    /* A return address may lie behind the end of its function: the call before it does not. */
    if (!address || dladdr((const char *)address - 1, &info) == 0) {
        pl_text_add(&name, "0x%llx", (unsigned long long)at);
        pl_text_add(&filename, "??");
    } else if (!info.dli_sname) {
        pl_text_add(&name, "%s+0x%llx", file_of(info.dli_fname),
                    (unsigned long long)(at - (uintptr_t)info.dli_fbase));
        pl_text_add(&filename, "%s", info.dli_fname);
    } else {
        pl_text_add(&name, "%s+0x%llx", info.dli_sname,
                    (unsigned long long)(at - (uintptr_t)info.dli_saddr));
        pl_text_add(&filename, "%s", info.dli_fname);
    }
}
