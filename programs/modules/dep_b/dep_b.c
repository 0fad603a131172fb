/* Uses what dep_a exports, and says in a file what came out. Of two files of source. */
#include "limen.h"
#include "dep_b.h"

LIMEN_MODULE("dep_b", "Dual MIT/GPL");
LIMEN_INFO("depends", "dep_a");

static struct limen_proc *file;

static int show(struct limen_text *out, void *data) {
    (void)data;
    limen_print(out, "%d\n", compute(30));
    return 0;
}

static int start(void) {
    file = limen_proc_create("dep_b", 0444, show, 0);
    return file ? 0 : -LIMEN_ENOMEM;
}
static void end(void) {
    limen_proc_remove(file);
}
LIMEN_INIT(start);
LIMEN_EXIT(end);
