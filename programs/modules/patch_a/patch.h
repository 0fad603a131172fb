/*
 * Modules `patch_a` and `patch_b`: each replaces what /proc/cmdline shows, as Linux's sample of a live patch
 * does. NAME is the module's.
 */
#include "limen.h"

LIMEN_MODULE(NAME, "Dual MIT/GPL");

/* It replaces all other patches. */
static bool replace;
LIMEN_PARAM(replace, bool, 0444);

static void shown(struct limen_text *out) {
    limen_print(out, "%s: this has been live patched\n", NAME);
}

static const struct limen_patch_function functions[] = {
    { 0, "cmdline_proc_show", (const void *)shown, 0 },
};

static int start(void) {
    static const struct limen_patch_function wrong[] = {
        { 0, "no_such_function", (const void *)shown, 0 },
        { "no_such_module", "show", (const void *)shown, 0 },
    };
    for (int i = 0; i < 2; i++)
        if (limen_patch_enable(&wrong[i], 1, 0) != -LIMEN_ENOENT)
            return -LIMEN_EIO;
    return limen_patch_enable(functions, 1, replace ? LIMEN_PATCH_REPLACE : 0);
}

static void end(void) {
}

LIMEN_INIT(start);
LIMEN_EXIT(end);
