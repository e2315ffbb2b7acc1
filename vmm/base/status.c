/* status.c - the texts of pleat_status. Static data only. */
#include "vmm/base/status.h"

static const char *const texts[] = {
#define STATUS_TEXT(name, text) [name] = text,
    PLEAT_STATUS_LIST(STATUS_TEXT)
#undef STATUS_TEXT
};

const char *pl_status_text(pleat_status status)
{
    size_t at = (size_t)status;

    return at < sizeof(texts) / sizeof(texts[0]) ? texts[at] : "unknown status";
}
