// The fields of an executable that are saved: see loopir/fields.h.
#pragma once

#include "../executable.h"

#include <loopir/fields.h>

namespace inductor_cuda {

template <class V>
void fields(V& v, Form& f) {
  v.choice(f.kind, Form::Kind::tiles);
  loopir::each(v, f.threads, f.vector, f.in_registers, f.index_bits);
}

template <class V>
void fields(V& v, Multiple& m) {
  v.index(m.index);
  v(m.of);
}

template <class V>
void fields(V& v, Conditions& c) {
  loopir::each(v, c.multiples, c.aligned, c.counts_in_32_bits);
}

/// What calls ask: the rest went into the code.
template <class V>
void fields(V& v, KernelPlan& k) {
  loopir::each(v, k.form, k.conditions, k.symbol);
  v.buffers(k.buffers);
  v.buffers(k.host_numbers);
  loopir::each(v, k.numbers, k.scratch_bytes, k.scratch_is_shared, k.is_atomic, k.is_open,
               k.has_checks);
  v.index(k.units);
  v.index(k.blocks);
}

/// Members of groups are saved beside them.
template <class V>
void fields(V& v, CompiledKernel& k) {
  loopir::each(v, k.name, k.plans, k.item, k.code_name, k.symbols);
}

template <class V>
void fields(V& v, Update& u) {
  v.buffer(u.buffer);
  v.buffer(u.input);
}

template <class V>
void fields(V& v, ProductOptions& o) {
  loopir::each(v, o.library.allows_tf32, o.library.deterministic, o.contracts);
}

template <class V>
void fields(V& v, DnnOptions& o) {
  loopir::each(v, o.allows_tf32, o.deterministic, o.may_round_bias);
}

template <class V>
void fields(V& v, LibraryUse& u) {
  loopir::each(v, u.products, u.dnn, u.tunes, u.tuning_ms);
}

template <class V>
void fields(V& v, CodeStatistics& s) {
  loopir::each(v, s.distinct, s.from_process, s.bytes);
}

template <class V>
void fields(V& v, Statistics& s) {
  loopir::each(v, s.failed_kernels, s.kernels, s.fused_nodes, s.extern_calls, s.prepacked_items,
               s.grouped_kernels, s.spilled_kernels, s.extern_ops, s.code, s.compile_ms,
               s.codegen_ms);
}

template <class V>
void fields(V& v, Parts& p) {
  loopir::each(v, p.program, p.schedule.items, p.accesses, p.accesses_of_launches, p.is_static,
               p.updates);
  v.buffers(p.written_inputs);
  loopir::each(v, p.kernels, p.groups, p.is_in_group, p.externs, p.library_use, p.reuses_memory,
               p.most_branches, p.statistics);
}

}  // namespace inductor_cuda
