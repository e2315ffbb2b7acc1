/* metrics.h - the option `metrics`: figures of running instances in a file, for Prometheus and for
 * `pleat top`.
 *
 * One thread for the process, made for the first instance that has the option, reads the figures
 * and writes the files; instances with the same path share one. Nothing is added to any call. The
 * figures of a device are copied under its allocator's lock, as pleat_device_stats does; all else
 * happens without it.
 *
 *   M1  the thread touches an instance only while its row is busy
 *   M2  pl_metrics_leave returns when the row is not busy, and is not made so again */
#ifndef PLEAT_API_METRICS_H
#define PLEAT_API_METRICS_H

struct pl_instance;

/* Write the instance's figures from now on, if its configuration says so; each failure of a path is
 * told once on standard error, and nothing else depends on it. The instance is open. */
void pl_metrics_join(struct pl_instance *instance);

/** The instance is about to be taken apart: nobody looks at it any more.
 *
 *  Blocks  until a last page is written, at most a second. */
void pl_metrics_leave(struct pl_instance *instance);

#endif
