// The fields of an executable that are saved, for every form: see loopir/fields.h.
#pragma once

#include "executable.h"

#include <loopir/fields.h>

namespace inductor {

/// What calls ask: the rest went into the code.
template <class V>
void fields(V& v, RunOptions& o) {
  v(o.code.vector_bits);
  v(o.code.cpu);
  v(o.code.features);
  v(o.workers.most);
  v(o.workers.is_fixed);
  v(o.workers.fewest_elements);
  v(o.packs_weights);
  v(o.plans_memory);
  v(o.reuses_memory);
}

template <class V>
void fields(V& v, Region& r) {
  v(r.first);
  v(r.last);
  v.index(r.rows);
  v(r.granule);
  v(r.units);
}

template <class V>
void fields(V& v, KernelInterface& k) {
  v(k.symbol);
  v.buffers(k.buffers);
  v.index(k.units);
  v(k.scratch_bytes);
  v(k.width);
  v(k.cost);
}

template <class V>
void fields(V& v, Statistics& s) {
  v(s.kernels);
  v(s.distinct_kernels);
  v(s.kernel_cache_hits);
  v(s.extern_calls);
  v(s.fused_nodes);
  v(s.regions);
  v(s.epilogues);
  v(s.prologues);
  v(s.products);
  v(s.convolutions);
  v(s.streamed);
  v(s.views_removed);
  v(s.prepacked_items);
  v(s.object_bytes);
  v(s.compile_ms);
  v(s.codegen_ms);
  v(s.extern_ops);
}

template <class V>
void fields(V& v, Parts& p) {
  v(p.program);
  v(p.schedule.items);
  v(p.accesses);
  v(p.kernels);
  v(p.externs);
  v(p.is_prepacked);
  v(p.regions);
  v(p.options);
  v(p.statistics);
}

}  // namespace inductor
