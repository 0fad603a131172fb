/*
 * A QEMU plugin that finds lines of memory (64 bytes, by physical address) that more than one processor
 * writes. `limen bench --shared-lines` builds it when it is needed and reads what it writes.
 *
 *   -plugin shared.so,output=FILE,row=HEX,begin=HEX,end=HEX
 *
 * The instruction at `row` begins the next row. A processor's stores count from when it executes the one at
 * `begin` until it executes the one at `end`, the kernel's and the program's. The output is a line
 * `stretches ROW N` per row, and for each line of memory that several processors wrote, one line
 * `ROW LINE CPU COUNT PC VIRTUAL` per writing instruction and processor.
 *
 * What QEMU's helpers write behind the back of plugins is not seen (arm64's `dc zva`). It needs one thread
 * for all processors (`-icount`, or `thread=single`): nothing here is locked.
 */
#include "qemu.h"

enum { LINE_SHIFT = 6, MOST_CPUS = 64, MOST_ROWS = 64 };

/* Stores of one instruction of one processor to one line, in one row. */
struct writes {
    uint64_t line, pc, virtual, count;
    unsigned cpu, row;
};

static struct writes *table;
static size_t capacity, used;
static uint64_t row_address, begin_address, end_address, stretches[MOST_ROWS];
static unsigned row;
static bool inside[MOST_CPUS];
static char output[4096];

static int same(const struct writes *a, const struct writes *b) {
    return a->line == b->line && a->pc == b->pc && a->cpu == b->cpu && a->row == b->row;
}

static struct writes *slot_of(const struct writes *w) {
    uint64_t key = w->line * UINT64_C(0x9e3779b97f4a7c15) ^ w->pc * UINT64_C(0xc2b2ae3d27d4eb4f);
    key ^= (uint64_t)w->row << 8 ^ w->cpu;
    size_t i = (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (capacity - 1);
    while (table[i].count && !same(&table[i], w)) i = (i + 1) & (capacity - 1);
    return &table[i];
}

static void grow(void) {
    struct writes *old = table;
    size_t before = capacity;
    capacity = capacity ? capacity * 2 : 1 << 16;
    table = calloc(capacity, sizeof *table);
    if (!table) abort();
    for (size_t i = 0; i < before; i++)
        if (old[i].count) *slot_of(&old[i]) = old[i];
    free(old);
}

static void add(unsigned cpu, uint64_t line, uint64_t pc, uint64_t virtual) {
    struct writes new = {.line = line, .pc = pc, .virtual = virtual, .cpu = cpu, .row = row};
    struct writes *w = slot_of(&new);
    if (!w->count) {
        if (used * 2 >= capacity) {
            grow();
            w = slot_of(&new);
        }
        *w = new;
        used++;
    }
    w->count++;
}

static void on_store(unsigned cpu, qemu_plugin_meminfo_t info, uint64_t vaddr, void *data) {
    /* An atomic operation's load is reported to who asked for stores, too. */
    if (cpu >= MOST_CPUS || !inside[cpu] || !qemu_plugin_mem_is_store(info)) return;
    struct qemu_plugin_hwaddr *address = qemu_plugin_get_hwaddr(info, vaddr);
    if (!address || qemu_plugin_hwaddr_is_io(address)) return;
    uint64_t physical = qemu_plugin_hwaddr_phys_addr(address);
    uint64_t last = physical + (UINT64_C(1) << qemu_plugin_mem_size_shift(info)) - 1;
    uint64_t pc = (uint64_t)(uintptr_t)data;
    add(cpu, physical >> LINE_SHIFT, pc, vaddr);
    /* One that crosses into the next line of the same page. */
    if (last >> LINE_SHIFT != physical >> LINE_SHIFT && last >> 12 == physical >> 12)
        add(cpu, last >> LINE_SHIFT, pc, vaddr + (last - physical));
}

static void on_row(unsigned cpu, void *data) {
    (void)cpu, (void)data;
    if (row + 1 < MOST_ROWS) row++;
}

static void on_begin(unsigned cpu, void *data) {
    (void)data;
    if (cpu < MOST_CPUS) inside[cpu] = true;
}

static void on_end(unsigned cpu, void *data) {
    (void)data;
    if (cpu >= MOST_CPUS || !inside[cpu]) return;
    inside[cpu] = false;
    stretches[row]++;
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb) {
    size_t n = qemu_plugin_tb_n_insns(tb);
    (void)id;
    for (size_t i = 0; i < n; i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        uint64_t address = qemu_plugin_insn_vaddr(insn);
        call_at(insn, row_address, on_row);
        call_at(insn, begin_address, on_begin);
        call_at(insn, end_address, on_end);
        qemu_plugin_register_vcpu_mem_cb(insn, on_store, NO_REGISTERS, MEM_W, (void *)(uintptr_t)address);
    }
}

static int by_line(const void *a, const void *b) {
    const struct writes *x = a, *y = b;
    if (x->row != y->row) return x->row < y->row ? -1 : 1;
    return x->line < y->line ? -1 : x->line > y->line;
}

static void on_exit_(qemu_plugin_id_t id, void *data) {
    FILE *f = fopen(output, "w");
    size_t n = 0;
    (void)id, (void)data;
    if (!f) return;
    for (unsigned r = 1; r <= row; r++) fprintf(f, "stretches %u %" PRIu64 "\n", r, stretches[r]);
    for (size_t i = 0; i < capacity; i++)
        if (table[i].count) table[n++] = table[i];
    qsort(table, n, sizeof *table, by_line);
    for (size_t i = 0, next; i < n; i = next) {
        bool several = false;
        for (next = i; next < n && by_line(&table[next], &table[i]) == 0; next++)
            several |= table[next].cpu != table[i].cpu;
        for (size_t k = i; several && k < next; k++) {
            const struct writes *w = &table[k];
            fprintf(f, "%u %" PRIx64 " %u %" PRIu64 " %" PRIx64 " %" PRIx64 "\n", w->row, w->line, w->cpu,
                    w->count, w->pc, w->virtual);
        }
    }
    fclose(f);
}

int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv) {
    (void)info;
    for (int i = 0; i < argc; i++) {
        if (strncmp(argv[i], "output=", 7) == 0) snprintf(output, sizeof output, "%s", argv[i] + 7);
        else if (strncmp(argv[i], "row=", 4) == 0) row_address = strtoull(argv[i] + 4, NULL, 16);
        else if (strncmp(argv[i], "begin=", 6) == 0) begin_address = strtoull(argv[i] + 6, NULL, 16);
        else if (strncmp(argv[i], "end=", 4) == 0) end_address = strtoull(argv[i] + 4, NULL, 16);
        else return -1;
    }
    if (!output[0] || !row_address || !begin_address || !end_address) return -1;
    grow();
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    qemu_plugin_register_atexit_cb(id, on_exit_, NULL);
    return 0;
}
