/* host_node.c - what the kernel tells of the machine's NUMA nodes. Keeps no state. */
#include <stdio.h>

#include "vmm/base/cancel.h"
#include "vmm/base/meta.h"

/* Is the number in a list of ranges, as in "0-3,7"? */
static bool is_listed(FILE *list, unsigned number)
{
    unsigned first;
    unsigned last;
    bool is_in = false;
    while (!is_in && fscanf(list, "%u", &first) == 1) {
        last = first;
        int sign = fgetc(list);
        if (sign == '-' && fscanf(list, "%u", &last) == 1) {
            sign = fgetc(list);
        }
        is_in = first <= number && number <= last;
        if (sign != ',') {
            break;
        }
    }
    return is_in;
}

static bool lacks(unsigned node, const char *path)
{
    FILE *list = fopen(path, "re");
    if (list == NULL) {
        return false;
    }
    bool is_in = is_listed(list, node);
    (void)fclose(list);
    return !is_in;
}

bool pl_machine_has_node(unsigned node)
{
    int cancel = pl_cancel_off();
    bool is_whole = !lacks(node, "/sys/devices/system/node/has_memory") &&
                    !lacks(node, "/sys/devices/system/node/has_cpu");
    pl_cancel_restore(cancel);
    return is_whole;
}
