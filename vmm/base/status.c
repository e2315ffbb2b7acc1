/* status.c - names and texts of pleat_status. Static data only. */
#include "vmm/base/status.h"

typedef struct status_entry {
    const char *name;
    const char *text;
} status_entry;

static const status_entry entries[] = {
#define STATUS_ENTRY(name, text) [name] = { #name, text },
    PLEAT_STATUS_LIST(STATUS_ENTRY)
#undef STATUS_ENTRY
};

static const status_entry unknown = { "unknown status", "unknown status" };

static const status_entry *find(pleat_status status)
{
    size_t at = (size_t)status;
    return at < sizeof(entries) / sizeof(entries[0]) ? &entries[at] : &unknown;
}

const char *pl_status_name(pleat_status status)
{
    return find(status)->name;
}

const char *pl_status_text(pleat_status status)
{
    return find(status)->text;
}
