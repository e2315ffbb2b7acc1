/* page.c - see page.h. */
#include "bench/measure/page.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LABEL_BYTES = 256 };

const char *bench_page_label(const bench_sample *sample, const char *key, char *out, size_t n)
{
    size_t n_key = strlen(key);
    size_t used = 0;
    const char *p = sample->labels;
    while (*p && !(strncmp(p, key, n_key) == 0 && p[n_key] == '=' && p[n_key + 1] == '"')) {
        for (bool is_inside = false; *p && (is_inside || *p != ','); p++) {
            is_inside = is_inside != (*p == '"');
            p += *p == '\\' && p[1];
        }
        p += *p == ',';
    }
    for (p += *p ? n_key + 2 : 0; *p && *p != '"' && used + 1 < n; p++) {
        bool is_escaped = *p == '\\' && p[1];
        p += is_escaped;
        out[used++] = is_escaped && *p == 'n' ? '\n' : *p;
    }
    out[used] = '\0';
    return out;
}

static bool has_same(const bench_sample *a, const bench_sample *b, const char *key)
{
    char x[LABEL_BYTES];
    char y[LABEL_BYTES];
    return strcmp(bench_page_label(a, key, x, sizeof x), bench_page_label(b, key, y, sizeof y)) ==
           0;
}

double bench_page_value(const bench_page *page, const bench_sample *of, const char *name,
                        const char *tag)
{
    char label[LABEL_BYTES];
    double sum = 0.0;
    bool is_there = false;
    for (size_t i = 0; i < page->n_samples; i++) {
        const bench_sample *s = &page->samples[i];
        if (strcmp(s->name, name) == 0 && has_same(s, of, "instance_id") &&
            has_same(s, of, "device") &&
            (!tag || strcmp(bench_page_label(s, "tag", label, sizeof label), tag) == 0)) {
            sum += s->value;
            is_there = true;
        }
    }
    return is_there ? sum : -1.0;
}

/* Split `name{labels} value`. False: another kind of line. */
static bool split(char *line, bench_sample *out)
{
    char *begin = strchr(line, '{');
    char *end = strrchr(line, '}');
    char *rest;
    if (!begin || !end || end < begin || end[1] != ' ') {
        return false;
    }
    *begin = '\0';
    *end = '\0';
    *out = (bench_sample){ .name = line, .labels = begin + 1, .value = strtod(end + 2, &rest) };
    return *rest == '\0' && rest != end + 2;
}

static void note_process(const bench_sample *sample, bench_page *out)
{
    char pid[32];
    if (strcmp(sample->name, "pleat_running") == 0) {
        out->pid = strtol(bench_page_label(sample, "pid", pid, sizeof pid), NULL, 10);
        out->is_running = sample->value > 0.0;
    } else if (strcmp(sample->name, "pleat_written_time_seconds") == 0) {
        out->written_s = sample->value;
    }
}

bool bench_page_parse(const char *path, char *text, bench_page *out, bench_failure *failure)
{
    size_t n_lines = 1;
    for (const char *p = text; *p; p++) {
        n_lines += *p == '\n';
    }
    *out = (bench_page){ .text = text, .samples = calloc(n_lines, sizeof *out->samples) };
    if (!out->samples) {
        bench_page_free(out);
        return bench_fail(failure, "out of host memory");
    }
    char *state;
    for (char *line = strtok_r(text, "\n", &state); line; line = strtok_r(NULL, "\n", &state)) {
        bench_sample *sample = &out->samples[out->n_samples];
        if (line[0] != '#' && split(line, sample)) {
            note_process(sample, out);
            out->n_samples++;
        }
    }
    if (out->pid <= 0) {
        bench_page_free(out);
        return bench_fail(failure, "%s: no metrics of pleat (PLEAT_CONF=metrics:PATH)", path);
    }
    return true;
}

/* The whole file; NULL and errno. */
static char *read_all(int descriptor)
{
    size_t n = 0;
    char *text = malloc(BENCH_PAGE_BYTES + 1);
    while (text && n < BENCH_PAGE_BYTES) {
        ssize_t got = read(descriptor, text + n, BENCH_PAGE_BYTES - n);
        if (got < 0) {
            free(text);
            return NULL;
        }
        if (got == 0) {
            break;
        }
        n += (size_t)got;
    }
    if (text) {
        text[n] = '\0';
    }
    return text;
}

bool bench_page_read(const char *path, bool is_own, bench_page *out, bench_failure *failure)
{
    struct stat st;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | (is_own ? O_NOFOLLOW : 0));
    if (descriptor < 0 || fstat(descriptor, &st) != 0) {
        return bench_fail(failure, "%s: %s", path, strerror(errno));
    }
    /* A folder passes: reading it later fails with a fitting message. */
    bool is_file = S_ISREG(st.st_mode) || S_ISDIR(st.st_mode);
    if (!is_file || (is_own && geteuid() != 0 && st.st_uid != geteuid())) {
        close(descriptor);
        return bench_fail(failure, "%s: %s", path,
                          is_file ? "belongs to another user" : "is no file");
    }
    char *text = read_all(descriptor);
    int error = errno;
    close(descriptor);
    return text ? bench_page_parse(path, text, out, failure)
                : bench_fail(failure, "%s: %s", path, strerror(error));
}

void bench_page_free(bench_page *page)
{
    free(page->text);
    free(page->samples);
    *page = (bench_page){ .text = NULL };
}
