/* page.h - a sheet in Prometheus' text format. */
#ifndef PLEAT_API_METRICS_PAGE_H
#define PLEAT_API_METRICS_PAGE_H

#include "api/base/text.h"
#include "api/metrics/sheet.h"

/* The first bytes of each page, which identify a page. */
#define PL_PAGE_BEGIN "# HELP pleat_running "

/* The values of a page beside the figures of devices. */
typedef struct pl_page_head {
    long pid;
    bool is_running;     /* false: this is the last page */
    uint64_t written_ms; /* since the Unix epoch */
    uint64_t n_failures; /* earlier pages that could not be written */
} pl_page_head;

/* Append the page. Every series has the label pid, so that files of several processes may lie in
 * one folder of node_exporter's. */
void pl_page_write(const pl_page_head *head, const pl_sheet *sheet, pl_text *text);

#endif
