/*
 * A QEMU plugin that counts how often each instruction of the guest is executed. `limen bench` builds it when
 * it is needed and reads what it writes.
 *
 *   -plugin count.so,output=FILE[,begin=HEX,end=HEX]
 *
 * Without `begin` and `end` everything from reset to the end of QEMU counts. With them, only what is executed
 * between an instruction at address `begin` and the next one at `end`, by whatever process; every such
 * stretch adds up. The output is one line per address that was executed, `ADDRESS COUNT`, after a first line
 * `stretches N`.
 *
 * Counting is exact under `-icount`, where there is one thread for all processors.
 */
#include "qemu.h"

struct counter {
    uint64_t address, count, at_begin, total;
};

/* Open addressing over pointers: the counters themselves never move, because translated code adds to them. */
static struct counter **table;
static size_t capacity, used;
static uint64_t begin_address, end_address, stretches;
static int inside;
static char output[4096];

static size_t slot_of(uint64_t address) {
    size_t i = (size_t)((address * UINT64_C(0x9e3779b97f4a7c15)) >> 20) & (capacity - 1);
    while (table[i] && table[i]->address != address) i = (i + 1) & (capacity - 1);
    return i;
}

static void grow(void) {
    struct counter **old = table;
    size_t before = capacity;
    capacity = capacity ? capacity * 2 : 1 << 16;
    table = calloc(capacity, sizeof *table);
    if (!table) abort();
    for (size_t i = 0; i < before; i++)
        if (old[i]) table[slot_of(old[i]->address)] = old[i];
    free(old);
}

static struct counter *counter_of(uint64_t address) {
    if (used * 2 >= capacity) grow();
    size_t i = slot_of(address);
    if (!table[i]) {
        table[i] = calloc(1, sizeof **table);
        if (!table[i]) abort();
        table[i]->address = address;
        used++;
    }
    return table[i];
}

static void on_begin(unsigned cpu, void *data) {
    (void)cpu, (void)data;
    inside = 1;
    for (size_t i = 0; i < capacity; i++)
        if (table[i]) table[i]->at_begin = table[i]->count;
}

static void on_end(unsigned cpu, void *data) {
    (void)cpu, (void)data;
    if (!inside) return;
    inside = 0;
    stretches++;
    for (size_t i = 0; i < capacity; i++)
        if (table[i]) table[i]->total += table[i]->count - table[i]->at_begin;
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb) {
    size_t n = qemu_plugin_tb_n_insns(tb);
    (void)id;
    for (size_t i = 0; i < n; i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        uint64_t address = qemu_plugin_insn_vaddr(insn);
        call_at(insn, begin_address, on_begin);
        call_at(insn, end_address, on_end);
        qemu_plugin_register_vcpu_insn_exec_inline(insn, INLINE_ADD_U64, &counter_of(address)->count, 1);
    }
}

static void on_exit_(qemu_plugin_id_t id, void *data) {
    FILE *f = fopen(output, "w");
    (void)id, (void)data;
    if (!f) return;
    fprintf(f, "stretches %" PRIu64 "\n", stretches);
    for (size_t i = 0; i < capacity; i++) {
        if (!table[i]) continue;
        uint64_t n = begin_address ? table[i]->total : table[i]->count;
        if (n) fprintf(f, "%" PRIx64 " %" PRIu64 "\n", table[i]->address, n);
    }
    fclose(f);
}

int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv) {
    (void)info;
    for (int i = 0; i < argc; i++) {
        if (strncmp(argv[i], "output=", 7) == 0) snprintf(output, sizeof output, "%s", argv[i] + 7);
        else if (strncmp(argv[i], "begin=", 6) == 0) begin_address = strtoull(argv[i] + 6, NULL, 16);
        else if (strncmp(argv[i], "end=", 4) == 0) end_address = strtoull(argv[i] + 4, NULL, 16);
        else return -1;
    }
    if (!output[0]) return -1;
    grow();
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    qemu_plugin_register_atexit_cb(id, on_exit_, NULL);
    return 0;
}
