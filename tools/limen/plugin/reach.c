/*
 * A QEMU plugin that sends every data access of the kernel through a model of TLBs (tlb.h), with the leaf
 * sizes of the kernel's map. `limen bench --map` builds it when it is needed and reads what it writes.
 *
 *   -plugin reach.so,output=FILE,map=FILE,kernel=HEX,row=HEX,begin=HEX,end=HEX,user=HEX,user_end=HEX
 *
 * Addresses from `kernel` on are the kernel's: instructions there are counted, data there is looked up. The
 * instruction at `row` begins the next row with empty TLBs; accesses are followed from then on, and count
 * from the execution of the one at `begin` until that of the one at `end`. Of user mode only the instructions
 * from `user` to `user_end` are looked at, and only where `map` has what they access (rows with a known
 * answer).
 *
 * `map` has lines `START END SIZE` (hexadecimal). It is read at the first row, and waited for: whoever
 * started QEMU writes it when the guest has said how it is mapped. What it does not list of the kernel's
 * addresses has leaves of 4 KiB: stacks and other things that were mapped later.
 *
 * The output is a line `ranges N`, and per row a line `ROW STRETCHES INSTRUCTIONS ACCESSES UNLISTED SECOND
 * WALKS`: accesses that the map does not list, that missed the first level and hit the second, and that
 * missed both.
 *
 * It needs one processor: there is one model.
 */
#define _GNU_SOURCE
#include "qemu.h"
#include "tlb.h"

#include <unistd.h>

enum { MOST_ROWS = 64, PAGE_SHIFT = 12, PATIENCE_SECONDS = 120 };

struct range {
    uint64_t start, end;
    unsigned shift;
};

struct counts {
    uint64_t stretches, instructions, accesses, unlisted, second, walks;
};

static struct tlb tlb;
static struct range *ranges;
static size_t range_count, last_range;
static bool have_map, following, inside;
static uint64_t kernel_address, row_address, begin_address, end_address, user_address, user_end;
/* All instructions of the kernel; those before the stretch. */
static uint64_t executed, executed_before;
static struct counts rows[MOST_ROWS];
static unsigned row;
static char output[4096], map[4096];

static int by_start(const void *a, const void *b) {
    const struct range *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

static bool read_map(void) {
    FILE *f = NULL;
    size_t room = 0;
    struct range r;
    uint64_t size;
    for (int turn = 0; !f && turn < PATIENCE_SECONDS * 1000; turn++) {
        f = fopen(map, "r");
        if (!f) usleep(1000);
    }
    if (!f) return false;
    while (fscanf(f, "%" SCNx64 " %" SCNx64 " %" SCNx64, &r.start, &r.end, &size) == 3) {
        if (size < 1 << PAGE_SHIFT || r.start >= r.end) continue;
        r.shift = 63 - (unsigned)__builtin_clzll(size);
        if (range_count == room) {
            room = room ? room * 2 : 1024;
            ranges = realloc(ranges, room * sizeof *ranges);
            if (!ranges) abort();
        }
        ranges[range_count++] = r;
    }
    fclose(f);
    qsort(ranges, range_count, sizeof *ranges, by_start);
    return range_count > 0;
}

/* The range that has an address, if one does. */
static const struct range *range_of(uint64_t address) {
    size_t low = 0, high = range_count;
    const struct range *r = &ranges[last_range];
    if (address >= r->start && address < r->end) return r;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges[middle].start <= address) low = middle + 1;
        else high = middle;
    }
    if (low == 0 || address >= ranges[low - 1].end) return NULL;
    last_range = low - 1;
    return &ranges[last_range];
}

static void look_up(uint64_t address) {
    struct counts *counts = &rows[row];
    const struct range *r = range_of(address);
    if (!r && address < kernel_address) return;
    enum tlb_result result = tlb_access(&tlb, address, r ? r->shift : PAGE_SHIFT);
    if (!inside) return;
    counts->accesses++;
    counts->unlisted += r == NULL;
    counts->second += result == TLB_SECOND;
    counts->walks += result == TLB_WALK;
}

static void on_access(unsigned cpu, qemu_plugin_meminfo_t info, uint64_t vaddr, void *data) {
    (void)cpu, (void)data;
    if (!following) return;
    look_up(vaddr);
    /* One that crosses into the next page. */
    uint64_t last = vaddr + (UINT64_C(1) << qemu_plugin_mem_size_shift(info)) - 1;
    if (last >> PAGE_SHIFT != vaddr >> PAGE_SHIFT) look_up(last);
}

static void on_row(unsigned cpu, void *data) {
    (void)cpu, (void)data;
    if (!have_map) have_map = read_map();
    if (row + 1 < MOST_ROWS) row++;
    tlb_flush(&tlb);
    following = have_map;
    inside = false;
}

static void on_begin(unsigned cpu, void *data) {
    (void)cpu, (void)data;
    inside = following;
    executed_before = executed;
}

static void on_end(unsigned cpu, void *data) {
    (void)cpu, (void)data;
    if (!inside) return;
    inside = false;
    rows[row].instructions += executed - executed_before;
    rows[row].stretches++;
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb) {
    size_t n = qemu_plugin_tb_n_insns(tb);
    (void)id;
    for (size_t i = 0; i < n; i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        uint64_t address = qemu_plugin_insn_vaddr(insn);
        bool kernel = address >= kernel_address;
        call_at(insn, row_address, on_row);
        call_at(insn, begin_address, on_begin);
        call_at(insn, end_address, on_end);
        if (kernel) qemu_plugin_register_vcpu_insn_exec_inline(insn, INLINE_ADD_U64, &executed, 1);
        if (kernel || (address >= user_address && address < user_end))
            qemu_plugin_register_vcpu_mem_cb(insn, on_access, NO_REGISTERS, MEM_RW, NULL);
    }
}

static void on_exit_(qemu_plugin_id_t id, void *data) {
    FILE *f = fopen(output, "w");
    (void)id, (void)data;
    if (!f) return;
    fprintf(f, "ranges %zu\n", range_count);
    for (unsigned r = 1; r <= row; r++) {
        const struct counts *c = &rows[r];
        fprintf(f, "%u %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", r,
                c->stretches, c->instructions, c->accesses, c->unlisted, c->second, c->walks);
    }
    fclose(f);
}

int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv) {
    const struct {
        const char *name;
        uint64_t *value;
    } numbers[] = {
        {"kernel=", &kernel_address}, {"row=", &row_address},   {"begin=", &begin_address},
        {"end=", &end_address},       {"user=", &user_address}, {"user_end=", &user_end},
    };
    (void)info;
    for (int i = 0; i < argc; i++) {
        size_t known = 0;
        if (strncmp(argv[i], "output=", 7) == 0) {
            snprintf(output, sizeof output, "%s", argv[i] + 7);
            continue;
        }
        if (strncmp(argv[i], "map=", 4) == 0) {
            snprintf(map, sizeof map, "%s", argv[i] + 4);
            continue;
        }
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
            size_t length = strlen(numbers[k].name);
            if (strncmp(argv[i], numbers[k].name, length) != 0) continue;
            *numbers[k].value = strtoull(argv[i] + length, NULL, 16);
            known = 1;
        }
        if (!known) return -1;
    }
    if (!output[0] || !map[0] || !kernel_address || !row_address || !begin_address || !end_address) return -1;
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    qemu_plugin_register_atexit_cb(id, on_exit_, NULL);
    return 0;
}
