/* page.c - see page.h. All series of a metric stand together under its HELP and TYPE. No lock. */
#include "api/metrics/page.h"

#include <inttypes.h>
#include <string.h>

#include "api/snapshot/utf8.h"

typedef struct metric {
    const char *name;
    const char *type;
    const char *help; /* "" = the series belong to the metric before */
    const char *label;
} metric;

#define METRIC(id, name, type, help, label, value) { "pleat_" name, type, help, label },
static const metric metrics[] = { PL_METRIC_LIST(METRIC) };
static const metric tag_metrics[] = { PL_TAG_METRIC_LIST(METRIC) };
#undef METRIC

static void add_head(pl_text *text, const char *name, const char *type, const char *help)
{
    if (help[0] != '\0') {
        pl_text_add(text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
    }
}

/* The value of a label, escaped as the format requires; a page is UTF-8. */
static void add_value(pl_text *text, const char *value)
{
    size_t step;
    for (const char *p = value; *p != '\0'; p += step) {
        int is_valid;
        step = pl_utf8_next((const unsigned char *)p, strlen(p), &is_valid);
        if (!is_valid) {
            pl_text_add(text, "?");
        } else if (*p == '\n') {
            pl_text_add(text, "\\n");
        } else {
            pl_text_add(text, "%s%.*s", *p == '"' || *p == '\\' ? "\\" : "", (int)step, p);
        }
    }
}

static void add_labels(pl_text *text, long pid, const pl_sheet_device *of)
{
    pl_text_add(text, "pid=\"%ld\",instance_id=\"%" PRIu32 "\",device=\"%d\"", pid, of->instance,
                of->device);
}

static void add_process(const pl_page_head *head, pl_text *text)
{
    add_head(text, "pleat_running", "gauge", "1; 0 in what a process writes at its end.");
    pl_text_add(text, "pleat_running{pid=\"%ld\"} %d\n", head->pid, head->is_running);
    add_head(text, "pleat_written_time_seconds", "gauge", "When this was written.");
    pl_text_add(text, "pleat_written_time_seconds{pid=\"%ld\"} %" PRIu64 ".%03u\n", head->pid,
                head->written_ms / 1000, (unsigned)(head->written_ms % 1000));
    add_head(text, "pleat_write_failures_total", "counter",
             "Times that this could not be written.");
    pl_text_add(text, "pleat_write_failures_total{pid=\"%ld\"} %" PRIu64 "\n", head->pid,
                head->n_failures);
}

static void add_infos(long pid, const pl_sheet *sheet, pl_text *text)
{
    add_head(text, "pleat_info", "gauge", "1; the labels say what manages the device.");
    for (size_t i = 0; i < sheet->n_devices; i++) {
        const pl_sheet_device *of = &sheet->devices[i];
        pl_text_add(text, "pleat_info{");
        add_labels(text, pid, of);
        pl_text_add(text, ",version=\"%s\",driver=\"%s\",allocator=\"%s\",gpu=\"", pleat_version(),
                    of->driver, of->allocator);
        add_value(text, of->gpu);
        pl_text_add(text, "\"} 1\n");
    }
}

static void add_metric(long pid, const pl_sheet *sheet, unsigned at, pl_text *text)
{
    const metric *m = &metrics[at];
    add_head(text, m->name, m->type, m->help);
    for (size_t i = 0; i < sheet->n_devices; i++) {
        uint64_t value = sheet->devices[i].values[at];
        if (at == PL_METRIC_LIMIT && value == 0) {
            continue;
        }
        pl_text_add(text, "%s{", m->name);
        add_labels(text, pid, &sheet->devices[i]);
        pl_text_add(text, "%s} %" PRIu64 "\n", m->label, value);
    }
}

static void add_tag_metric(long pid, const pl_sheet *sheet, unsigned at, pl_text *text)
{
    const metric *m = &tag_metrics[at];
    add_head(text, m->name, m->type, m->help);
    for (size_t i = 0; i < sheet->n_tags; i++) {
        const pl_sheet_tag *tag = &sheet->tags[i];
        if (at == PL_TAG_METRIC_LIMIT && tag->values[at] == 0) {
            continue;
        }
        pl_text_add(text, "%s{", m->name);
        add_labels(text, pid, &sheet->devices[tag->of]);
        pl_text_add(text, ",tag=\"");
        add_value(text, tag->tag);
        pl_text_add(text, "\"} %" PRIu64 "\n", tag->values[at]);
    }
}

void pl_page_write(const pl_page_head *head, const pl_sheet *sheet, pl_text *text)
{
    add_process(head, text);
    add_infos(head->pid, sheet, text);
    for (unsigned i = 0; i < PL_N_METRICS; i++) {
        add_metric(head->pid, sheet, i, text);
    }
    for (unsigned i = 0; i < PL_N_TAG_METRICS; i++) {
        add_tag_metric(head->pid, sheet, i, text);
    }
}
