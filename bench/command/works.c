/* works.c - `pleat works`: lists the works, and describes a work. */
#include <stdlib.h>
#include <string.h>

#include "bench/command/commands.h"
#include "bench/command/parse_options.h"
#include "bench/patterns/patterns.h"
#include "bench/run/output.h"
#include "bench/run/survey.h"
#include "bench/works/files.h"
#include "bench/works/registry.h"

typedef struct works_command {
    bool json;
    char **specs;
    unsigned n_specs;
} works_command;

static error_t parse(int key, char *arg, struct argp_state *state)
{
    works_command *c = state->input;
    (void)arg;
    switch (key) {
    case 'j':
        c->json = true;
        return 0;
    case ARGP_KEY_ARGS:
        c->specs = state->argv + state->next;
        c->n_specs = (unsigned)(state->argc - state->next);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options_list[] = {
    { .name = "json", .key = 'j', .doc = "Write JSON lines" },
    { 0 },
};

static const struct argp works_argp = {
    .options = options_list,
    .parser = parse,
    .args_doc = "[WORK...]",
    .doc = "List what can be replayed, or describe runs.\vWithout WORK: the bundled traces, the "
           "published patterns, and the generators with their parameters, what these are when not "
           "given, and their bounds. With WORK: events, iterations, peak live bytes, streams and "
           "sizes of each. Exit status: 0; 2 for bad input or usage.",
};

/* Lists every bundled trace by its bare name. */
static void list_traces(bool json)
{
    char folder[4096];
    struct dirent **entries;
    unsigned n = bench_file_bundled(folder, sizeof folder, &entries);
    if (!json) {
        printf("Bundled traces:\n");
    }
    for (unsigned i = 0; i < n; i++) {
        *strstr(entries[i]->d_name, ".trace") = '\0';
        if (json) {
            json_t *object = json_object();
            json_object_set_new(object, "kind", json_string("trace"));
            json_object_set_new(object, "name", json_string(entries[i]->d_name));
            bench_output_line(object, stdout);
        } else {
            printf("  %s\n", entries[i]->d_name);
        }
        free(entries[i]);
    }
    free(entries);
}

static void print_param(const bench_param *p, double standard)
{
    printf("      %-14s ", p->name);
    if (p->words) {
        char text[128] = "";
        size_t n = 0;
        for (unsigned i = 0; p->words[i] && n < sizeof text; i++) {
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", i ? "|" : "", p->words[i]);
        }
        printf("%-14s %-26s %s\n", p->words[(size_t)standard], text, p->doc);
    } else {
        char range[64];
        snprintf(range, sizeof range, "%.15g to %.15g", p->least, p->most);
        printf("%-14.15g %-26s %s\n", standard, range, p->doc);
    }
}

static json_t *number(const bench_param *p, double value)
{
    return p->is_whole ? json_integer((json_int_t)value) : json_real(value);
}

static json_t *param_object(const bench_param *p, double standard)
{
    json_t *object = json_object();
    json_object_set_new(object, "name", json_string(p->name));
    json_object_set_new(object, "doc", json_string(p->doc));
    if (p->words) {
        json_t *words = json_array();
        for (unsigned i = 0; p->words[i]; i++) {
            json_array_append_new(words, json_string(p->words[i]));
        }
        json_object_set_new(object, "words", words);
        json_object_set_new(object, "standard", json_string(p->words[(size_t)standard]));
        return object;
    }
    json_object_set_new(object, "whole", json_boolean(p->is_whole));
    json_object_set_new(object, "standard", number(p, standard));
    json_object_set_new(object, "least", number(p, p->least));
    json_object_set_new(object, "most", number(p, p->most));
    return object;
}

/* A parameter's default; the first two are common to all generators. */
static double standard_of(const bench_generator *g, const bench_param *p)
{
    return p == &bench_common_params[0] ? (double)g->iterations : p->standard;
}

static void list_generator(const bench_generator *g, const char *kind, bool json)
{
    const bench_param *tables[] = { bench_common_params, g->params };
    json_t *params = json_array();
    if (!json) {
        printf("\n  %s - %s\n", g->name, g->doc);
    }
    for (unsigned t = 0; t < 2; t++) {
        for (const bench_param *p = tables[t]; p && p->name; p++) {
            if (json) {
                json_array_append_new(params, param_object(p, standard_of(g, p)));
            } else {
                print_param(p, standard_of(g, p));
            }
        }
    }
    if (json) {
        json_t *object = json_object();
        json_object_set_new(object, "kind", json_string(kind));
        json_object_set_new(object, "name", json_string(g->name));
        json_object_set_new(object, "doc", json_string(g->doc));
        json_object_set(object, "params", params);
        bench_output_line(object, stdout);
    }
    json_decref(params);
}

static bool is_pattern(const bench_generator *g)
{
    unsigned i = 0;
    while (bench_patterns[i] && bench_patterns[i] != g) {
        i++;
    }
    return bench_patterns[i] != NULL;
}

static void list_kind(bool patterns, bool json)
{
    const bench_generator *g;
    if (!json) {
        printf("\n%s (NAME:key=value,...; parameter, when not given, allowed):\n",
               patterns ? "Published patterns" : "Generators");
    }
    for (unsigned i = 0; (g = bench_generator_at(i)) != NULL; i++) {
        if (is_pattern(g) == patterns) {
            list_generator(g, patterns ? "pattern" : "generator", json);
        }
    }
}

static bool describe(const char *spec, bool json)
{
    bench_work work;
    bench_survey survey;
    bench_failure failure;
    bench_progress progress;
    bench_progress_init(&progress);
    if (!bench_work_open_showing(spec, &progress, &work, &failure)) {
        fprintf(stderr, "pleat: %s\n", failure.text);
        return false;
    }
    bool ok = bench_survey_take(&work, &survey, &failure);
    if (!ok) {
        fprintf(stderr, "pleat: %s\n", failure.text);
    } else if (json) {
        ok = bench_output_line(bench_survey_object(&work, &survey), stdout);
    } else {
        bench_survey_print(&work, &survey);
    }
    bench_work_close(&work);
    return ok;
}

int bench_command_works(int argc, char **argv)
{
    works_command c = { .json = false };
    if (!bench_parse(&works_argp, argc, argv, &c)) {
        return BENCH_EXIT_USAGE;
    }
    if (c.n_specs == 0) {
        list_traces(c.json);
        list_kind(true, c.json);
        list_kind(false, c.json);
        return BENCH_EXIT_OK;
    }
    int status = BENCH_EXIT_OK;
    for (unsigned i = 0; i < c.n_specs; i++) {
        if (!describe(c.specs[i], c.json)) {
            status = BENCH_EXIT_USAGE;
        }
    }
    return status;
}
