/* top.c - `pleat top`: shows each second how much memory a running process holds. */
#include <errno.h>
#include <glob.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/base/size.h"
#include "bench/base/text.h"
#include "bench/command/commands.h"
#include "bench/command/parse_options.h"
#include "bench/measure/page.h"

enum { KEY_ONCE = 0x200, PATH_BYTES = 1024, OLD_S = 10 };

typedef struct top {
    const char *subject; /* as typed */
    bool is_once;
    bool is_terminal;
    bool is_pid; /* the file comes from metrics:auto */
    char path[PATH_BYTES];
    bench_page page;
    bench_page before; /* the page before; n_samples 0 = none */
    bench_failure failure;
} top;

/* ---- which file ------------------------------------------------------------------------------ */

static const char *const folders[] = { NULL, "/tmp" }; /* NULL: the user's for running programs */

static const char *folder_at(size_t i)
{
    const char *own = getenv("XDG_RUNTIME_DIR");
    return folders[i] ? folders[i] : own && own[0] == '/' ? own : NULL;
}

static bool is_dead(long pid)
{
    return pid > 0 && kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

/* Name the processes that have files. */
static const char *list_processes(char *out, size_t n)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        char pattern[PATH_BYTES];
        glob_t found;
        const char *folder = folder_at(i);
        snprintf(pattern, sizeof pattern, "%s/pleat.*.prom", folder ? folder : "");
        if (!folder || glob(pattern, 0, NULL, &found) != 0) {
            continue;
        }
        for (size_t k = 0; k < found.gl_pathc && used < n; k++) {
            const char *number = found.gl_pathv[k] + strlen(folder) + sizeof "/pleat." - 1;
            if (strcmp(number + strspn(number, "0123456789"), ".prom") != 0 ||
                is_dead(strtol(number, NULL, 10))) {
                continue; /* the file of a killed process, or of no process */
            }
            used += (size_t)snprintf(out + used, n - used, "%s%.*s", used ? ", " : "",
                                     (int)strcspn(number, "."), number);
        }
        globfree(&found);
    }
    return out;
}

static bool find_file(top *t)
{
    char processes[256];
    t->is_pid = t->subject[strspn(t->subject, "0123456789")] == '\0';
    if (!t->is_pid) {
        return (size_t)snprintf(t->path, sizeof t->path, "%s", t->subject) < sizeof t->path ||
               bench_fail(&t->failure, "%.96s...: too long a path", t->subject);
    }
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        const char *folder = folder_at(i);
        if (folder) {
            snprintf(t->path, sizeof t->path, "%s/pleat.%s.prom", folder, t->subject);
            if (access(t->path, F_OK) == 0) {
                return true;
            }
        }
    }
    list_processes(processes, sizeof processes);
    return bench_fail(&t->failure,
                      "process %s has written no metrics: it must be started with "
                      "PLEAT_CONF=metrics:auto, and writes once it has an instance%s%s",
                      t->subject, processes[0] ? ". There are: " : "", processes);
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Clean a label for the terminal. Labels come from other programs and may hold control
 * characters. */
static const char *shown(const bench_sample *of, const char *key, char out[64])
{
    char text[64];
    bench_page_label(of, key, text, sizeof text);
    bench_text_clean(text, strlen(text), out, 64);
    return out;
}

/* A count of the page; 0 if the page lacks the count. */
static double count_of(const top *t, const bench_sample *of, const char *name)
{
    double value = bench_page_value(&t->page, of, name, NULL);
    return value >= 0.0 && value < 1e15 ? value : 0.0;
}

/* A size of the page in `out`; "-" if the page lacks the size. */
static const char *size_of(const top *t, const bench_sample *of, const char *name, const char *tag,
                           char out[32])
{
    double value = bench_page_value(&t->page, of, name, tag);
    if (!(value >= 0.0 && value < 9e18)) {
        return "-";
    }
    return bench_size_format((uint64_t)value, out, 32);
}

/* Device operations a second since the page before. */
static const char *rate_of(const top *t, const bench_sample *of, char out[32])
{
    static const char name[] = "pleat_device_operations_total";
    double seconds = t->page.written_s - t->before.written_s;
    double n = bench_page_value(&t->page, of, name, NULL);
    double n_before = bench_page_value(&t->before, of, name, NULL);
    if (n_before < 0.0 || n < n_before || !(seconds > 0.0)) {
        return "-";
    }
    snprintf(out, 32, "%.1f", (n - n_before) / seconds);
    return out;
}

static void print_heading(void)
{
    printf("%-4s %-6s %-16s %11s %11s %11s %11s %11s %8s %9s %8s\n", "inst", "device", "allocator",
           "live", "resident", "idle", "pending", "limit", "blocks", "ops/s", "failures");
}

static void print_device(const top *t, const bench_sample *of)
{
    char id[64];
    char device[64];
    char allocator[64];
    char sizes[5][32];
    char rate[32];
    printf("%-4s %-6s %-16s %11s %11s %11s %11s %11s %8.0f %9s %8.0f\n",
           shown(of, "instance_id", id), shown(of, "device", device),
           shown(of, "allocator", allocator), size_of(t, of, "pleat_live_bytes", NULL, sizes[0]),
           size_of(t, of, "pleat_resident_bytes", NULL, sizes[1]),
           size_of(t, of, "pleat_idle_bytes", NULL, sizes[2]),
           size_of(t, of, "pleat_pending_bytes", NULL, sizes[3]),
           size_of(t, of, "pleat_limit_bytes", NULL, sizes[4]), count_of(t, of, "pleat_blocks"),
           rate_of(t, of, rate), count_of(t, of, "pleat_failures_total"));
}

/* Print a tag below the columns of the device: live, resident, and sleeping bytes under idle. */
static void print_tag(const top *t, const bench_sample *of)
{
    char tag[64];
    char clean[64];
    char sizes[4][32];
    bench_page_label(of, "tag", tag, sizeof tag);
    bench_text_clean(tag, strlen(tag), clean, sizeof clean);
    printf("  tag %-21s %11s %11s %11s asleep %16s\n", clean,
           size_of(t, of, "pleat_tag_live_bytes", tag, sizes[0]),
           size_of(t, of, "pleat_tag_resident_bytes", tag, sizes[1]),
           size_of(t, of, "pleat_tag_asleep_bytes", tag, sizes[2]),
           size_of(t, of, "pleat_tag_limit_bytes", tag, sizes[3]));
}

static double age_of(const top *t)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    double age_s = (double)now.tv_sec + (double)now.tv_nsec / 1e9 - t->page.written_s;
    return age_s > 0.0 ? age_s : 0.0;
}

/* The process of a path may run on another machine or in another container. So an old page also
 * counts as a dead process. */
static bool is_killed(const top *t)
{
    return t->page.is_running && is_dead(t->page.pid) && (t->is_pid || age_of(t) > OLD_S);
}

static void print_process(const top *t)
{
    const char *state = !t->page.is_running ? "ended"
                        : is_killed(t)      ? "gone without a last page (killed?)"
                                            : "running";
    printf("process %ld, %s; written %.1f s ago\n", t->page.pid, state, age_of(t));
}

static void print_page(const top *t)
{
    if (t->is_terminal && !t->is_once) {
        fputs("\033[H\033[J", stdout);
    }
    if (t->is_terminal || t->before.n_samples == 0) {
        print_process(t);
        print_heading();
    }
    bool has_any = false;
    for (size_t i = 0; i < t->page.n_samples; i++) {
        const bench_sample *sample = &t->page.samples[i];
        if (strcmp(sample->name, "pleat_info") == 0) {
            print_device(t, sample);
            has_any = true;
        }
    }
    for (size_t i = 0; i < t->page.n_samples; i++) {
        if (strcmp(t->page.samples[i].name, "pleat_tag_live_bytes") == 0) {
            print_tag(t, &t->page.samples[i]);
        }
    }
    if (!has_any) {
        puts("no device is in use");
    }
    fflush(stdout);
}

/* ---- the command ----------------------------------------------------------------------------- */

static bool is_gone(const top *t)
{
    return !t->page.is_running || is_killed(t);
}

/* Waits for a later page. False: there will be no later page. */
static bool await_page(top *t)
{
    const struct timespec second = { .tv_sec = 1 };
    bench_page_free(&t->before);
    t->before = t->page;
    t->page = (bench_page){ .n_samples = 0 };
    (void)nanosleep(&second, NULL);
    return bench_page_read(t->path, t->is_pid, &t->page, &t->failure);
}

static int run(top *t)
{
    if (!find_file(t) || !bench_page_read(t->path, t->is_pid, &t->page, &t->failure)) {
        fprintf(stderr, "pleat: %s\n", t->failure.text);
        return BENCH_EXIT_USAGE;
    }
    print_page(t);
    while (!t->is_once && !is_gone(t)) {
        long pid = t->page.pid;
        if (!await_page(t)) {
            printf("process %ld has ended\n", pid); /* the file has gone with the process */
            return BENCH_EXIT_OK;
        }
        print_page(t);
    }
    if (!t->is_once && is_killed(t)) {
        printf("process %ld is gone without a last page (killed?); the last was written %.1f s "
               "ago\n",
               t->page.pid, age_of(t));
    } else if (!t->is_once) {
        printf("process %ld has ended\n", t->page.pid);
    }
    return BENCH_EXIT_OK;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    top *t = state->input;
    char processes[256];
    switch (key) {
    case KEY_ONCE:
        t->is_once = true;
        return 0;
    case ARGP_KEY_ARG:
        if (t->subject) {
            argp_error(state, "one PATH or PID, not '%s' too", arg);
        }
        t->subject = arg;
        return 0;
    case ARGP_KEY_NO_ARGS:
        list_processes(processes, sizeof processes);
        argp_error(state, "PATH or PID is missing%s%s",
                   processes[0] ? "; processes with metrics:auto: " : "", processes);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options_list[] = {
    { .name = "once", .key = KEY_ONCE, .doc = "Print the table once, and end" },
    { 0 },
};

static const struct argp top_argp = {
    .options = options_list,
    .parser = parse,
    .args_doc = "PATH|PID",
    .doc = "Show what a running process holds, each second.\vPATH is the file that the process "
           "writes (PLEAT_CONF=metrics:PATH); PID is a process of yours that was started with "
           "PLEAT_CONF=metrics:auto. Into a file or a pipe go plain lines. It ends with the "
           "process. Exit status: 0; 2 if there are no such metrics, or for bad usage.",
};

int bench_command_top(int argc, char **argv)
{
    top t = { .is_terminal = isatty(STDOUT_FILENO) == 1 };
    if (!bench_parse(&top_argp, argc, argv, &t)) {
        return BENCH_EXIT_USAGE;
    }
    int status = run(&t);
    bench_page_free(&t.page);
    bench_page_free(&t.before);
    return status;
}
