/* metrics.c - see metrics.h.
 *
 * The lock (rank 90, a leaf) guards all of `all`. It is not held while figures are read, while a
 * file is written, or while the thread is made. The outlets and the sheet are the thread's own.
 *
 * At the exit of the process the thread writes last pages, and the process waits a second at most,
 * since a file system may hang. A forked child has no such thread: the child begins anew, and files
 * of its parent stay the parent's (outlet.h). */
#include "api/metrics/metrics.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "api/base/complain.h"
#include "api/instance/instance.h"
#include "api/metrics/outlet.h"
#include "api/metrics/page.h"
#include "vmm/base/clock.h"

enum { LAST_PAGE_MS = 1000 };

/* A path that instances have. */
typedef struct metrics_file {
    bool is_used;
    bool is_ending; /* the thread closes the file without the lock, since a file system may hang */
    unsigned n_rows;
    bool is_wanted; /* at once: a row came or leaves */
    uint64_t interval_ms;
    uint64_t due_ms;
    pl_outlet outlet;    /* owner: the thread, once a row is there */
    uint64_t n_failures; /* owner: the thread, like the next two */
    int failure;         /* of the last page; 0 = none */
    size_t n_bytes;      /* of the last page */
} metrics_file;

typedef struct metrics_row {
    pl_instance *instance; /* NULL = free */
    unsigned file;
    bool is_busy;
    bool is_leaving;
    bool is_told; /* a page was written, or not, after it began to leave */
} metrics_row;

static struct {
    pl_lock lock;
    pl_cond changed;
    pthread_t thread;
    bool has_thread;
    bool is_stopping;
    bool is_over; /* the thread has nothing more to do */
    metrics_file files[PL_N_SLOTS];
    metrics_row rows[PL_N_SLOTS]; /* by slot */
} all;

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* What only the thread uses. */
typedef struct writer {
    pl_meta meta;
    pl_sheet sheet;
    char *text;
    size_t capacity;
} writer;

static writer own;                           /* owner: the thread */
static writer parents __attribute__((used)); /* const: in a forked child the parent thread's data */

/* ---- a page ---------------------------------------------------------------------------------- */

static void complain(const metrics_file *file, int error, long owner)
{
    char why[96];
    pl_text text;
    pl_text_init(&text, why, sizeof why);
    if (error == EBUSY && owner > 0) {
        pl_text_add(&text, "process %ld writes it; %%p in the path is the process", owner);
    } else if (error == EBUSY) {
        pl_text_add(&text, "another process writes it; %%p in the path is the process");
    } else if (error == EEXIST) {
        pl_text_add(&text, "is no regular file");
    } else if (error == ENOTEMPTY) {
        pl_text_add(&text, "holds something other than pleat's metrics and is left alone");
    } else {
        char words[64];
        pl_text_add(&text, "%s", strerror_r(error, words, sizeof words));
    }
    pl_complain_of("metrics", file->outlet.path, why);
}

static uint64_t wall_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Formats the sheet; false: no host memory. */
static bool format(writer *w, const pl_page_head *head, pl_text *text)
{
    for (;;) {
        pl_text_init(text, w->text, w->capacity);
        pl_page_write(head, &w->sheet, text);
        if (text->n < w->capacity) {
            return true;
        }
        char *grown = pl_meta_realloc(&w->meta, w->text, 2 * text->n + 1);
        if (!grown) {
            return false;
        }
        w->text = grown;
        w->capacity = 2 * text->n + 1;
    }
}

static void write_page(writer *w, metrics_file *file, bool is_running)
{
    pl_page_head head = { .pid = (long)getpid(),
                          .is_running = is_running,
                          .written_ms = wall_ms(),
                          .n_failures = file->n_failures };
    pl_text text;
    long owner = 0;
    int error = format(w, &head, &text) ? pl_outlet_write(&file->outlet, text.at, text.n, &owner)
                                        : ENOMEM;
    file->n_failures += error != 0;
    if (error != 0 && error != file->failure) {
        complain(file, error, owner);
    }
    file->failure = error;
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* Reads the figures of the file's instances; each instance is busy only while read. Returns whether
 * any instance goes on. */
static bool collect_locked(writer *w, unsigned file)
{
    pl_lock_assert(&all.lock);
    bool is_running = false;
    pl_sheet_clear(&w->sheet);
    for (unsigned i = 0; i < PL_N_SLOTS; i++) {
        metrics_row *row = &all.rows[i];
        if (!row->instance || row->file != file) {
            continue;
        }
        pl_instance *instance = row->instance;
        is_running = is_running || (!row->is_leaving && !all.is_stopping);
        row->is_busy = true;
        pl_lock_release(&all.lock);
        (void)pl_sheet_add(&w->sheet, instance); /* as much as host memory allows */
        pl_lock_acquire(&all.lock);
        row->is_busy = false;
        pl_cond_broadcast(&all.changed);
    }
    return is_running;
}

/* Rows that began to leave before are told after. */
static void write_file_locked(writer *w, unsigned at)
{
    pl_lock_assert(&all.lock);
    metrics_file *file = &all.files[at];
    bool was_leaving[PL_N_SLOTS];
    for (unsigned i = 0; i < PL_N_SLOTS; i++) {
        was_leaving[i] = all.rows[i].instance && all.rows[i].file == at && all.rows[i].is_leaving;
    }
    file->is_wanted = false;
    bool is_running = collect_locked(w, at);
    pl_lock_release(&all.lock);
    write_page(w, file, is_running);
    pl_lock_acquire(&all.lock);
    file->due_ms = pl_clock_ms() + file->interval_ms;
    for (unsigned i = 0; i < PL_N_SLOTS; i++) {
        all.rows[i].is_told = all.rows[i].is_told || was_leaving[i];
    }
    pl_cond_broadcast(&all.changed);
}

/* Ends a file that no instance has any more. */
static void end_file_locked(unsigned at)
{
    pl_lock_assert(&all.lock);
    metrics_file *file = &all.files[at];
    file->is_ending = true;
    pl_lock_release(&all.lock);
    pl_outlet_fini(&file->outlet, file->outlet.is_private);
    pl_lock_acquire(&all.lock);
    file->is_ending = false;
    file->is_used = false;
}

/* Does all work that is due. Returns the time until the next work, in ms; UINT32_MAX = none. */
static uint32_t work_locked(writer *w)
{
    uint64_t least_ms = UINT32_MAX;
    for (unsigned i = 0; i < PL_N_SLOTS; i++) {
        metrics_file *file = &all.files[i];
        if (file->is_used && file->n_rows == 0) {
            end_file_locked(i);
        }
        if (!file->is_used) {
            continue;
        }
        if (file->is_wanted || pl_clock_ms() >= file->due_ms) {
            write_file_locked(w, i);
        }
        uint64_t now_ms = pl_clock_ms();
        uint64_t left_ms = file->due_ms > now_ms && !file->is_wanted ? file->due_ms - now_ms : 1;
        least_ms = left_ms < least_ms ? left_ms : least_ms;
    }
    return (uint32_t)least_ms;
}

static void write_last_locked(writer *w)
{
    for (unsigned i = 0; i < PL_N_SLOTS; i++) {
        if (all.files[i].is_used && all.files[i].n_rows > 0) {
            write_file_locked(w, i);
        }
        if (all.files[i].is_used) {
            end_file_locked(i);
        }
    }
}

static void *run(void *unused)
{
    writer *w = &own;
    (void)unused;
    *w = (writer){ .capacity = 0 };
    bool has_meta = pl_meta_init(&w->meta) == PLEAT_OK;
    w->sheet.meta = &w->meta;
    pl_lock_acquire(&all.lock);
    while (has_meta && !all.is_stopping) {
        uint32_t pause_ms = work_locked(w);
        if (pause_ms == UINT32_MAX && !all.is_stopping) {
            pl_lock_wait(&all.lock, &all.changed);
        } else if (!all.is_stopping) {
            pl_lock_wait_for(&all.lock, &all.changed, pause_ms);
        }
    }
    if (has_meta) {
        write_last_locked(w);
    }
    pl_lock_release(&all.lock);
    if (has_meta) {
        pl_sheet_clear(&w->sheet);
        pl_meta_free(&w->meta, w->text);
        (void)pl_meta_fini(&w->meta);
    }
    pl_lock_acquire(&all.lock);
    all.is_over = true;
    pl_cond_broadcast(&all.changed);
    pl_lock_release(&all.lock);
    return NULL;
}

/* ---- beginning and end ----------------------------------------------------------------------- */

/* Waits, a second at most, until a flag of `all` is set. */
static void wait_for_locked(const bool *flag)
{
    uint64_t end_ms = pl_clock_ms() + LAST_PAGE_MS;
    for (uint64_t now_ms = end_ms - LAST_PAGE_MS; !*flag && !all.is_over && now_ms < end_ms;
         now_ms = pl_clock_ms()) {
        pl_lock_wait_for(&all.lock, &all.changed, (uint32_t)(end_ms - now_ms));
    }
}

static void at_exit(void)
{
    pl_lock_acquire(&all.lock);
    bool had_thread = all.has_thread;
    all.is_stopping = true;
    all.has_thread = false;
    pl_cond_broadcast(&all.changed);
    if (had_thread) {
        wait_for_locked(&all.is_over);
    }
    bool is_over = all.is_over;
    pl_lock_release(&all.lock);
    if (had_thread && is_over) {
        (void)pthread_join(all.thread, NULL);
    }
}

static void begin(void)
{
    pl_lock_init(&all.lock, PL_RANK_STATS);
    for (unsigned i = 0; i < PL_N_SLOTS; i++) {
        all.files[i].outlet.descriptor = -1;
    }
}

/* The parent's thread may have held the lock, in the middle of a change: the child begins anew. A
 * descriptor is open or -1 at any time. */
static void begin_child(void)
{
    for (unsigned i = 0; i < PL_N_SLOTS; i++) {
        if (all.files[i].is_used) {
            pl_outlet_forget(&all.files[i].outlet);
        }
    }
    memset(&all, 0, sizeof all);
    parents = own;
    own = (writer){ .capacity = 0 };
    begin();
}

static void prepare(void)
{
    begin();
    (void)pthread_atfork(NULL, NULL, begin_child);
    (void)atexit(at_exit);
}

/* The program's signals are for its own threads. */
static int start_thread(void)
{
    sigset_t every;
    sigset_t before;
    sigfillset(&every);
    (void)pthread_sigmask(SIG_SETMASK, &every, &before);
    int error = pthread_create(&all.thread, NULL, run, NULL);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

/* The file of the path, or a new file. There are as many files as instances can be. A file that no
 * instance has any more may still wait for the thread. */
static metrics_file *find_file_locked(const pl_outlet *outlet)
{
    metrics_file *unused = NULL;
    for (unsigned i = 0; i < PL_N_SLOTS; i++) {
        metrics_file *file = &all.files[i];
        if (file->is_used && !file->is_ending && strcmp(file->outlet.path, outlet->path) == 0) {
            return file;
        }
        unused = unused || file->is_used ? unused : file;
    }
    if (unused) {
        *unused = (metrics_file){ .is_used = true, .outlet = *outlet, .interval_ms = UINT64_MAX };
    }
    return unused;
}

static int add_row(pl_instance *instance, const pl_outlet *outlet)
{
    const pl_config *config = &instance->config;
    pl_lock_acquire(&all.lock);
    metrics_file *file = all.is_stopping ? NULL : find_file_locked(outlet);
    if (file) {
        uint64_t interval_ms = config->metrics_ms;
        file->interval_ms = interval_ms < file->interval_ms ? interval_ms : file->interval_ms;
        file->n_rows++;
        file->is_wanted = true;
        all.rows[instance->handle.slot - 1] = (metrics_row){ .instance = instance,
                                                             .file = (unsigned)(file - all.files) };
        pl_cond_broadcast(&all.changed);
    }
    bool needs_thread = file && !all.has_thread;
    all.has_thread = all.has_thread || needs_thread;
    pl_lock_release(&all.lock);
    int error = needs_thread ? start_thread() : 0;
    if (error != 0) {
        pl_lock_acquire(&all.lock);
        all.has_thread = false;
        pl_lock_release(&all.lock);
    }
    return error;
}

void pl_metrics_join(pl_instance *instance)
{
    pl_outlet outlet;
    const pl_config *config = &instance->config;
    if (config->metrics[0] == '\0') {
        return;
    }
    (void)pthread_once(&once, prepare);
    int error = pl_outlet_init(&outlet, config->metrics, pl_config_runtime_folder());
    error = error == 0 ? add_row(instance, &outlet) : error;
    if (error != 0) {
        char words[64];
        pl_complain_of("metrics", config->metrics, strerror_r(error, words, sizeof words));
    }
}

void pl_metrics_leave(pl_instance *instance)
{
    metrics_row *row = &all.rows[instance->handle.slot - 1];
    if (instance->config.metrics[0] == '\0') {
        return;
    }
    pl_lock_acquire(&all.lock);
    if (row->instance == instance) {
        row->is_leaving = true;
        all.files[row->file].is_wanted = true;
        pl_cond_broadcast(&all.changed);
        if (all.has_thread) {
            wait_for_locked(&row->is_told);
        }
        while (row->is_busy) {
            pl_lock_wait(&all.lock, &all.changed);
        }
        all.files[row->file].n_rows--;
        *row = (metrics_row){ .instance = NULL };
        pl_cond_broadcast(&all.changed);
    }
    pl_lock_release(&all.lock);
}
