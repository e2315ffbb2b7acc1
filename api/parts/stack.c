/* stack.c - taking, storing and describing stacks.
 *
 * Taking a stack walks the unwind tables, which may lock the loader: never under a lock of pleat.
 * Storing a stack may grow two arrays, under a history's lock; without host memory the entry gets
 * no stack. */
#include "api/parts/stack.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <string.h>

#include "api/base/text.h"
#include "api/parts/history.h"

typedef struct own_stack {
    size_t n;
    uint64_t hash;
    void *at[PL_HISTORY_DEPTH + 1]; /* [0] is pl_stack_begin itself */
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

/* A stored stack begins with its number of frames, stored like a frame. */
static size_t depth_of(void *const *stack)
{
    return (uintptr_t)stack[0];
}

static bool is_own(void *const *stack)
{
    return depth_of(stack) == own.n && memcmp(stack + 1, own.at + 1, own.n * sizeof *stack) == 0;
}

/* The slot that holds an equal stack, or else the empty slot for the stack. */
static uint32_t *find_slot(const pl_stack_table *table)
{
    uint32_t mask = table->n_slots - 1;
    uint32_t at = (uint32_t)own.hash & mask;
    while (table->slots[at] != 0 && !is_own(table->words + table->slots[at] - 1)) {
        at = (at + 1) & mask;
    }
    return &table->slots[at];
}

static bool grow_slots(pl_stack_table *table, pl_meta *meta)
{
    enum { FIRST_SLOTS = 1024 };
    if (table->n_slots > 0 && table->n_stacks < table->n_slots / 4 * 3) {
        return true;
    }
    uint32_t n_slots = table->n_slots > 0 ? table->n_slots * 2 : FIRST_SLOTS;
    uint32_t *slots = pl_meta_calloc(meta, n_slots, sizeof *slots);
    if (!slots) {
        return false;
    }
    for (uint32_t i = 0; i < table->n_slots; i++) {
        if (table->slots[i] != 0) {
            void *const *stack = table->words + table->slots[i] - 1;
            uint32_t at = (uint32_t)hash_of(stack + 1, depth_of(stack)) & (n_slots - 1);
            while (slots[at] != 0) {
                at = (at + 1) & (n_slots - 1);
            }
            slots[at] = table->slots[i];
        }
    }
    pl_meta_free(meta, table->slots);
    table->slots = slots;
    table->n_slots = n_slots;
    return true;
}

static bool grow_words(pl_stack_table *table, pl_meta *meta, uint32_t n_more)
{
    enum { FIRST_WORDS = 4096 };
    if (n_more <= table->capacity_of_words - table->n_words) {
        return true;
    }
    uint32_t capacity = table->capacity_of_words > 0 ? table->capacity_of_words * 2 : FIRST_WORDS;
    void **words = capacity <= PL_HISTORY_STACK_WORDS
                       ? pl_meta_realloc(meta, table->words, capacity * sizeof *words)
                       : NULL;
    if (!words) {
        return false;
    }
    table->words = words;
    table->capacity_of_words = capacity;
    return true;
}

/* The thread's stack is not in the table yet, and both arrays have room. */
static uint32_t *add(pl_stack_table *table)
{
    uint32_t *slot = find_slot(table);
    void **stack = table->words + table->n_words;
    stack[0] = (void *)(uintptr_t)own.n;
    memcpy(stack + 1, own.at + 1, own.n * sizeof *stack);
    *slot = table->n_words + 1;
    table->n_words += (uint32_t)own.n + 1;
    table->n_stacks++;
    return slot;
}

/* Empties the table; its names will begin with `first`. */
static void empty(pl_stack_table *table, uint32_t first)
{
    table->first = first;
    table->n_words = 0;
    table->n_stacks = 0;
    if (table->n_slots > 0) {
        memset(table->slots, 0, table->n_slots * sizeof *table->slots);
    }
}

/* The name that follows all names of the table in use. */
static uint32_t next_name(const pl_history_stacks *stacks)
{
    const pl_stack_table *now = &stacks->now;
    bool wraps = now->first > UINT32_MAX - 2 * PL_HISTORY_STACK_WORDS;
    return now->first == 0 || wraps ? 1 : now->first + now->n_words;
}

static void swap(pl_history_stacks *stacks)
{
    pl_stack_table older = stacks->before;
    uint32_t first = next_name(stacks);
    stacks->before = stacks->now;
    stacks->now = older;
    empty(&stacks->now, first);
}

uint32_t pl_stacks_name(pl_history_stacks *stacks, pl_meta *meta)
{
    pl_stack_table *now = &stacks->now;
    uint32_t n = (uint32_t)own.n + 1;
    if (own.n == 0) {
        return 0;
    }
    if (now->first == 0) {
        now->first = 1;
    }
    uint32_t *slot = now->n_slots > 0 ? find_slot(now) : NULL;
    if (!slot || *slot == 0) {
        if (now->n_words + n > PL_HISTORY_STACK_WORDS) {
            swap(stacks);
        }
        if (!grow_words(now, meta, n) || !grow_slots(now, meta)) {
            return 0;
        }
        slot = add(now);
    }
    return now->first + *slot - 1;
}

void pl_stacks_clear(pl_history_stacks *stacks)
{
    swap(stacks);
    empty(&stacks->before, stacks->now.first);
}

static void release(pl_stack_table *table, pl_meta *meta)
{
    pl_meta_free(meta, table->words);
    pl_meta_free(meta, table->slots);
    *table = (pl_stack_table){ .n_words = 0 };
}

void pl_stacks_fini(pl_history_stacks *stacks, pl_meta *meta)
{
    release(&stacks->now, meta);
    release(&stacks->before, meta);
}

size_t pl_stacks_get(const pl_history_stacks *stacks, uint32_t name, void *out[PL_HISTORY_DEPTH])
{
    const pl_stack_table *tables[] = { &stacks->now, &stacks->before };
    for (unsigned i = 0; i < 2 && name != 0; i++) {
        uint32_t offset = name - tables[i]->first; /* beyond all words: the other table's */
        if (offset < tables[i]->n_words) {
            size_t n = depth_of(tables[i]->words + offset);
            memcpy(out, tables[i]->words + offset + 1, n * sizeof *out);
            return n;
        }
    }
    return 0;
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
    /* A return address may lie just past its function's end; the call before it does not. */
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
