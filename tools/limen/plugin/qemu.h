/*
 * What the plugins here use of QEMU's interface for plugins (stable since version 0), whose header is not in
 * Debian's packages. See `qemu-plugin.h` of QEMU for the meaning.
 */
#ifndef LIMEN_QEMU_H
#define LIMEN_QEMU_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_hwaddr;
enum { NO_REGISTERS = 0 };
enum { MEM_W = 2, MEM_RW = 3 };
enum { INLINE_ADD_U64 = 0 };

extern void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
                                                  void (*cb)(qemu_plugin_id_t, struct qemu_plugin_tb *));
extern void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, void (*cb)(qemu_plugin_id_t, void *),
                                           void *data);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t i);
extern uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
extern void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
                                                   void (*cb)(unsigned, void *), int flags, void *data);
extern void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn,
                                             void (*cb)(unsigned, qemu_plugin_meminfo_t, uint64_t, void *),
                                             int flags, int rw, void *data);
extern bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info);
extern unsigned qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t info);
extern struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t info, uint64_t vaddr);
extern bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *address);
extern uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *address);
extern void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *insn, int op, void *p,
                                                       uint64_t add);

/* Which version of the interface this was written for. */
int qemu_plugin_version = 1;

/* Calls `reached` before an instruction, if it is the one at `wanted` (0: none is). */
static inline void call_at(struct qemu_plugin_insn *insn, uint64_t wanted,
                           void (*reached)(unsigned, void *)) {
    if (wanted && qemu_plugin_insn_vaddr(insn) == wanted)
        qemu_plugin_register_vcpu_insn_exec_cb(insn, reached, NO_REGISTERS, NULL);
}

#endif
