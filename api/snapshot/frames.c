/* frames.c - see frames.h.
 *
 * The dynamic linker describes return addresses slowly, so each address is looked up once per
 * snapshot. */
#include "api/snapshot/frames.h"

#include <string.h>

typedef struct description {
    size_t n_name;
    size_t n_filename;
    char texts[]; /* the function's name, then the file's */
} description;

/* ---- the table ---- */

static uint64_t *find_row(const pl_frames_table *table, uint64_t key)
{
    size_t i = (size_t)(key * 0x9E3779B97F4A7C15U >> 32) & (table->n_rows - 1);
    while (table->rows[i][0] != 0 && table->rows[i][0] != key) {
        i = (i + 1) & (table->n_rows - 1);
    }
    return table->rows[i];
}

static uint64_t get(const pl_frames_table *table, uint64_t key)
{
    return table->n_rows > 0 ? find_row(table, key)[1] : 0;
}

static bool grow(pl_frames_table *table, pl_meta *meta)
{
    pl_frames_table larger = { .n_rows = table->n_rows > 0 ? 2 * table->n_rows : 256,
                               .n_used = table->n_used };
    larger.rows = pl_meta_calloc(meta, larger.n_rows, sizeof larger.rows[0]);
    if (!larger.rows) {
        return false;
    }
    for (size_t i = 0; i < table->n_rows; i++) {
        if (table->rows[i][0] != 0) {
            memcpy(find_row(&larger, table->rows[i][0]), table->rows[i], sizeof larger.rows[0]);
        }
    }
    pl_meta_free(meta, table->rows);
    *table = larger;
    return true;
}

/* False: no host memory. The key must be new. */
static bool add(pl_frames_table *table, pl_meta *meta, uint64_t key, uint64_t value)
{
    if (2 * (table->n_used + 1) > table->n_rows && !grow(table, meta)) {
        return false;
    }
    uint64_t *row = find_row(table, key);
    row[0] = key;
    row[1] = value;
    table->n_used++;
    return true;
}

/* ---- frames ---- */

void pl_frames_init(pl_frames *frames, pl_meta *meta)
{
    *frames = (pl_frames){ .meta = meta };
}

void pl_frames_fini(pl_frames *frames)
{
    for (size_t i = 0; i < frames->objects.n_rows; i++) {
        pl_meta_free(frames->meta, (description *)(uintptr_t)frames->objects.rows[i][1]);
    }
    pl_meta_free(frames->meta, frames->objects.rows);
    pl_meta_free(frames->meta, frames->stacks.rows);
    *frames = (pl_frames){ .meta = frames->meta };
}

static void keep_description(pl_frames *frames, const void *address, const pl_frame *frame)
{
    size_t n_name = strlen(frame->name);
    size_t n_filename = strlen(frame->filename);
    description *kept = pl_meta_alloc(frames->meta, sizeof *kept + n_name + n_filename);
    if (!kept) {
        return;
    }
    *kept = (description){ .n_name = n_name, .n_filename = n_filename };
    memcpy(kept->texts, frame->name, n_name);
    memcpy(kept->texts + n_name, frame->filename, n_filename);
    if (!add(&frames->objects, frames->meta, (uintptr_t)address, (uintptr_t)kept)) {
        pl_meta_free(frames->meta, kept);
    }
}

static void write_frame(pl_writer *w, const char *name, size_t n_name, const char *filename,
                        size_t n_filename)
{
    pl_write_dict(w);
    pl_write_key(w, "name");
    pl_write_text(w, name, n_name);
    pl_write_key(w, "filename");
    pl_write_text(w, filename, n_filename);
    pl_write_key(w, "line");
    pl_write_natural(w, 0); /* the dynamic linker knows no line numbers */
    pl_write_end(w);
}

static void write_address(pl_frames *frames, pl_writer *w, const void *address)
{
    const description *known = (const description *)(uintptr_t)get(&frames->objects,
                                                                   (uintptr_t)address);
    if (known) {
        write_frame(w, known->texts, known->n_name, known->texts + known->n_name,
                    known->n_filename);
        return;
    }
    pl_frame frame;
    pl_frame_describe(address, &frame);
    write_frame(w, frame.name, strlen(frame.name), frame.filename, strlen(frame.filename));
    keep_description(frames, address, &frame);
}

void pl_frames_write(pl_frames *frames, pl_writer *w, pl_history *history, int device,
                     uint32_t name)
{
    void *stack[PL_HISTORY_DEPTH];
    uint64_t key = (uint64_t)(unsigned)(device + 1) << 32 | name;
    uint32_t memo = name != 0 ? (uint32_t)get(&frames->stacks, key) : 0;
    if (pl_write_recall(w, memo)) {
        return;
    }
    size_t n = name != 0 ? pl_history_stack(history, name, stack) : 0;
    pl_write_list(w);
    for (size_t i = 0; i < n; i++) {
        write_address(frames, w, stack[i]);
    }
    pl_write_end(w);
    if (n > 0) {
        pl_write_keep(w, &memo);
        if (memo != 0) {
            (void)add(&frames->stacks, frames->meta, key, memo); /* else written again */
        }
    }
}
