// What describe() gives: statistics and texts.
#include "executable.h"

#include <sstream>

namespace inductor {

namespace {

std::string statistics_json(const Statistics& s) {
  std::ostringstream out;
  out << "{\"kernels\": " << s.kernels << ", \"extern_calls\": " << s.extern_calls
      << ", \"extern_ops\": [";
  for (size_t i = 0; i < s.extern_ops.size(); ++i)
    out << (i ? ", " : "") << '"' << s.extern_ops[i] << '"';
  out << "], \"fused_nodes\": " << s.fused_nodes << ", \"planned_bytes\": " << s.planned_bytes
      << ", \"naive_bytes\": " << s.naive_bytes << ", \"compile_ms\": " << s.compile_ms
      << ", \"codegen_ms\": " << s.codegen_ms
      << ", \"from_cache\": " << (s.from_cache ? "true" : "false") << ", \"gemm\": " << s.products
      << ", \"conv\": " << s.convolutions << ", \"views_removed\": " << s.views_removed
      << ", \"setup_items\": " << s.setup_items << ", \"peak_lower_bound_bytes\": " << s.lower_bound
      << ", \"object_bytes\": " << s.object_bytes << ", \"cpu\": \"" << host_options().cpu
      << "\", \"vector_bits\": " << host_options().vector_bits << "}";
  return out.str();
}

}  // namespace

std::string Executable::describe(int32_t what) const {
  const Statistics& s = parts_.statistics;
  switch (what) {
    case TN_DESC_STATS_JSON:
      return statistics_json(s);
    case TN_DESC_GRAPH:
      return s.loops_text;
    case TN_DESC_MEMORY_PLAN:
      return s.memory_text;
    case TN_DESC_IR:
      return s.ir_text;
    case TN_DESC_ASM:
      return s.asm_text;
    default:
      return "";
  }
}

}  // namespace inductor
