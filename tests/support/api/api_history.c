/* api_history.c - see api_history.h. */
#include "tests/support/api/api_history.h"

#include <check.h>
#include <search.h>
#include <string.h>

pl_history_entry history_entries[HISTORY_MOST];

pl_history *history_of(pleat handle, int device)
{
    pl_use use = pl_use_enter(handle);
    ck_assert_ptr_nonnull(use.instance);
    pl_gpu *gpu = pl_use_gpu(use.instance, device);
    pl_use_leave(use);
    ck_assert_ptr_nonnull(gpu);
    return &gpu->history;
}

void history_record(pleat handle, size_t max_entries, unsigned flags)
{
    pleat_status st = pleat_history_record(handle, max_entries, flags);
    ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
}

size_t history_copy(pleat handle, int device)
{
    size_t n = pl_history_copy(history_of(handle, device), history_entries, HISTORY_MOST, NULL);
    ck_assert_uint_le(n, HISTORY_MOST);
    return n;
}

const pl_history_entry *history_find(size_t n_entries, unsigned action, size_t n)
{
    for (size_t i = 0; i < n_entries; i++) {
        if (history_entries[i].action == action && n-- == 0) {
            return &history_entries[i];
        }
    }
    return NULL;
}

bool history_is_gain(const pl_history_entry *entry)
{
    return entry->action == PL_ACTION_SEGMENT_ALLOC || entry->action == PL_ACTION_SEGMENT_MAP;
}

/* ---- stacks ---------------------------------------------------------------------------------- */

static pleat called_instance;

static int allocate_and_free(const void *key, const void *element)
{
    (void)key;
    (void)element;
    api_free(called_instance, 0, api_alloc(called_instance, 0, 4096, NULL), NULL);
    return 1;
}

__attribute__((noinline)) void history_call_by_name(pleat instance, size_t n_times)
{
    char list[16] = { 0 };
    called_instance = instance;
    ck_assert_ptr_null(lfind("", list, &n_times, 1, allocate_and_free));
}

bool history_has_frame(pleat instance, uint32_t frames, const char *name)
{
    void *stack[PL_HISTORY_DEPTH];
    size_t n = pl_history_stack(history_of(instance, 0), frames, stack);
    for (size_t i = 0; i < n; i++) {
        pl_frame frame;
        pl_frame_describe(stack[i], &frame);
        ck_assert_uint_gt(strlen(frame.name), 0);
        ck_assert_uint_gt(strlen(frame.filename), 0);
        if (strncmp(frame.name, name, strlen(name)) == 0) {
            ck_assert_ptr_nonnull(strstr(frame.filename, "libc"));
            return true;
        }
    }
    return false;
}
