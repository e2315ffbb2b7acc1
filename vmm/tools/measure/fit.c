/* fit.c - from rows of measured means to a cost per call, per handle, per granule and, of
 * creations, per handle alive.
 *
 * Least squares with relative weights and no negative share. All subsets of the four shares are
 * solved, and the subset with the least error and no negative share is taken. A share that never
 * varies apart from the call (one handle in every call) counts with the call. */
#include "vmm/tools/measure/rig.h"

enum { CALL, HANDLE, GRANULE, LIVE, N_SHARES };
enum { MOST_ROWS = 64 };

typedef struct fit_row {
    double share[N_SHARES]; /* calls, handles, granules of one call; thousands of handles alive */
    double us;
} fit_row;

typedef struct fit {
    double value[N_SHARES];
    double error;
} fit;

static double handles_of(const pl_measure_row *row)
{
    switch (row->op) {
    case PL_MEASURE_ACCESS:
    case PL_MEASURE_UNMAP:
        return row->run_chunks;
    default:
        return 1.0;
    }
}

static unsigned collect(const pl_measure_report *report, pl_measure_op op, fit_row *out)
{
    unsigned n = 0;
    for (unsigned i = 0; i < report->n_rows && n < MOST_ROWS; i++) {
        const pl_measure_row *row = &report->rows[i];
        if (row->op != op || row->is_busy) {
            continue;
        }
        double bytes = (double)row->chunk_bytes * row->run_chunks;
        out[n] = (fit_row){
            .share = { 1.0, handles_of(row), bytes / (double)report->granule_bytes },
            .us = row->mean_us,
        };
        if (op == PL_MEASURE_CREATE_FRESH || op == PL_MEASURE_CREATE) {
            out[n].share[LIVE] = row->alive / 1e3;
        }
        n++;
    }
    return n;
}

static bool does_vary(const fit_row *rows, unsigned n, unsigned share)
{
    for (unsigned i = 1; i < n; i++) {
        if (rows[i].share[share] != rows[0].share[share]) {
            return true;
        }
    }
    return false;
}

static double weight(const fit_row *row)
{
    double us = row->us > 1e-3 ? row->us : 1e-3;
    return 1.0 / (us * us);
}

/* The normal equations over the shares in `mask`; the others' rows and columns are the identity. */
static void normal_equations(const fit_row *rows, unsigned n, unsigned mask,
                             double m[N_SHARES][N_SHARES + 1])
{
    for (unsigned r = 0; r < N_SHARES; r++) {
        for (unsigned c = 0; c <= N_SHARES; c++) {
            m[r][c] = r == c && (mask >> r & 1) == 0 ? 1.0 : 0.0;
        }
    }
    for (unsigned i = 0; i < n; i++) {
        double w = weight(&rows[i]);
        for (unsigned r = 0; r < N_SHARES; r++) {
            if ((mask >> r & 1) == 0) {
                continue;
            }
            for (unsigned c = 0; c < N_SHARES; c++) {
                m[r][c] += (mask >> c & 1) != 0 ? w * rows[i].share[r] * rows[i].share[c] : 0.0;
            }
            m[r][N_SHARES] += w * rows[i].share[r] * rows[i].us;
        }
    }
}

/* Gauss-Jordan without pivoting: the matrix is symmetric and positive, or a share is redundant. */
static bool solve(double m[N_SHARES][N_SHARES + 1], double *value)
{
    for (unsigned k = 0; k < N_SHARES; k++) {
        double scale = m[k][k];
        if (scale < 1e-12) {
            return false;
        }
        for (unsigned r = 0; r < N_SHARES; r++) {
            double factor = r != k ? m[r][k] / scale : 0.0;
            for (unsigned c = 0; c <= N_SHARES; c++) {
                m[r][c] -= factor * m[k][c];
            }
        }
    }
    for (unsigned k = 0; k < N_SHARES; k++) {
        value[k] = m[k][N_SHARES] / m[k][k];
        if (!(value[k] >= 0.0)) {
            return false;
        }
    }
    return true;
}

static double error_of(const fit_row *rows, unsigned n, const double *value)
{
    double error = 0.0;
    for (unsigned i = 0; i < n; i++) {
        double us = 0.0;
        for (unsigned k = 0; k < N_SHARES; k++) {
            us += value[k] * rows[i].share[k];
        }
        error += weight(&rows[i]) * (us - rows[i].us) * (us - rows[i].us);
    }
    return error;
}

static pl_measure_cost fit_rows(const fit_row *rows, unsigned n)
{
    unsigned allowed = 1u << CALL;
    for (unsigned share = HANDLE; share < N_SHARES; share++) {
        allowed |= does_vary(rows, n, share) ? 1u << share : 0u;
    }
    fit best = { .error = -1.0 };
    for (unsigned mask = 1; mask < 1u << N_SHARES; mask++) {
        double m[N_SHARES][N_SHARES + 1];
        fit candidate = { .error = 0.0 };
        if ((mask & ~allowed) != 0) {
            continue;
        }
        normal_equations(rows, n, mask, m);
        if (!solve(m, candidate.value)) {
            continue;
        }
        candidate.error = error_of(rows, n, candidate.value);
        if (best.error < 0.0 || candidate.error < best.error) {
            best = candidate;
        }
    }
    return (pl_measure_cost){ .per_call_us = best.value[CALL],
                              .per_handle_us = best.value[HANDLE],
                              .per_granule_us = best.value[GRANULE],
                              .per_1000_alive_us = best.value[LIVE],
                              .n_rows = n };
}

/* The handles alive before the last creation of the longest series, since each call adds a
 * handle. */
static unsigned most_alive(const pl_measure_report *report, pl_measure_op op)
{
    double most = 0.0;
    for (unsigned i = 0; i < report->n_rows; i++) {
        const pl_measure_row *row = &report->rows[i];
        double last = row->alive + (row->n_calls - 1) / 2.0;
        if (row->op == op && !row->is_busy && last > most) {
            most = last;
        }
    }
    return (unsigned)most;
}

void pl_measure_fit(pl_measure_report *report)
{
    for (unsigned op = 0; op < PL_MEASURE_N_OPS; op++) {
        fit_row rows[MOST_ROWS];
        unsigned n = collect(report, (pl_measure_op)op, rows);
        if (n > 0) {
            report->costs[op] = fit_rows(rows, n);
            report->costs[op].most_alive = most_alive(report, (pl_measure_op)op);
        }
    }
}
