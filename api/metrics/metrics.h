/* metrics.h - the option `metrics`: figures of running instances in a file, for Prometheus and for
 * `pleat top`.
 *
 * The process has one thread, made for the first instance with the option. The thread reads the
 * figures and writes the files; instances with the same path share a file. No public call does more
 * work. As in pleat_device_stats, only the copying of a device's figures takes its allocator's
 * lock.
 *
 *   M1  the thread touches an instance only while its row is busy
 *   M2  pl_metrics_leave returns when the row is not busy, and is not made so again */
#ifndef PLEAT_API_METRICS_H
#define PLEAT_API_METRICS_H

struct pl_instance;

/* Write the instance's figures from now on, if its configuration says so. The instance is open.
 * Each failure of a path is reported once on standard error, and has no other effect. */
void pl_metrics_join(struct pl_instance *instance);

/** End the writing: the instance is about to be taken apart.
 *
 *  Blocks  until a last page is written, at most a second. */
void pl_metrics_leave(struct pl_instance *instance);

#endif
