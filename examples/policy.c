/* policy.c - a growth policy of one's own in C (docs/policy.md): on a fuller device, hold and pin less.
 *
 *     cc -shared -fPIC policy.c -o policy.so -Ibuild/include
 *     pleat replay gpt2s_tiny --memory 1.05x --conf policy:./policy.so
 */
#include <pleat_policy.h>

uint64_t pleat_policy_order(const pleat_policy_view *now, uint64_t own)
{
    return 2 * now->held > now->cap ? 0 : own; /* single granules once half of the device is held */
}

uint64_t pleat_policy_slack(const pleat_policy_view *now, uint64_t own)
{
    return now->tied > now->asked ? 0 : own;
}

uint64_t pleat_policy_place(const pleat_policy_view *now, uint64_t own)
{
    return 2 * now->held > now->cap ? now->asked : own; /* the place that pins least */
}
