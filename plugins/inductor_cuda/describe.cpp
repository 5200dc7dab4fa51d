// What describe() gives: statistics and texts.
#include "executable.h"

#include <loopir/making/item_facts.h>
#include <loopir/memory.h>

#include <sstream>

namespace inductor_cuda {

namespace {

const char* const names_of_forms[] = {"points", "rows", "columns", "tiles"};

std::string items_json(const Parts& parts) {
  std::ostringstream out;
  const char* separator = "";
  for (size_t i = 0; i < parts.schedule.items.size(); ++i) {
    loopir::ItemFacts f =
        loopir::facts_of(parts.program, parts.schedule.items[i], parts.accesses[i]);
    out << separator << "{\"kind\": \"" << f.kind << "\", \"name\": " << loopir::quoted(f.name)
        << ", \"bytes\": " << f.bytes << ", \"flops\": " << f.flops;
    if (auto product = parts.products.find(i); product != parts.products.end())
      out << ", \"way\": "
          << (product->second->why_own_kernel().empty() ? "\"cublaslt\"" : "\"own kernel\"");
    out << ", \"versions\": [";
    separator = ", ";
    auto kernel = parts.kernels.find(i);
    for (size_t v = 0; kernel != parts.kernels.end() && v < kernel->second.plans.size(); ++v) {
      const KernelPlan& plan = kernel->second.plans[v];
      const Form& form = plan.form;
      out << (v ? ", " : "") << "{\"form\": \"" << names_of_forms[static_cast<int>(form.kind)]
          << "\", \"threads\": " << form.threads << ", \"vector\": " << form.vector
          << ", \"in_registers\": " << form.in_registers << ", \"index_bits\": " << form.index_bits
          << ", \"atomic\": " << (plan.is_atomic ? "true" : "false") << "}";
    }
    out << "]}";
  }
  return out.str();
}

std::string products_json(const Parts& parts) {
  uint32_t by_library = 0, by_own_kernels = 0;
  std::string why;
  for (const auto& [item, product] : parts.products) {
    std::string reason = product->why_own_kernel();
    ++(reason.empty() ? by_library : by_own_kernels);
    if (!reason.empty()) why = reason;
  }
  std::ostringstream out;
  out << "\"products_by_library\": " << by_library
      << ", \"products_by_own_kernels\": " << by_own_kernels;
  if (!why.empty()) out << ", \"why_own_kernels\": " << loopir::quoted(why);
  return out.str();
}

}  // namespace

std::string Executable::statistics_json() const {
  const Statistics& s = parts_.statistics;
  std::ostringstream out;
  out << "{\"kernels\": " << s.kernels << ", \"extern_calls\": " << s.extern_calls
      << ", \"extern_ops\": [";
  for (size_t i = 0; i < s.extern_ops.size(); ++i)
    out << (i ? ", " : "") << '"' << s.extern_ops[i] << '"';
  std::vector<int64_t> hints;
  for (const loopir::Symbol& symbol : parts_.program.expressions.symbols)
    hints.push_back(symbol.hint);
  loopir::MemoryPlan plan =
      loopir::plan_memory(parts_.program, parts_.accesses, hints, in_arena_, parts_.reuses_memory);
  out << "], \"fused_nodes\": " << s.fused_nodes << ", \"planned_bytes\": " << plan.bytes
      << ", \"naive_bytes\": " << plan.naive_bytes << ", \"compile_ms\": " << s.compile_ms
      << ", \"codegen_ms\": " << s.codegen_ms
      << ", \"from_cache\": " << (s.code.from_disk ? "true" : "false")
      << ", \"failed_kernels\": " << s.failed_kernels
      << ", \"distinct_kernels\": " << s.code.distinct
      << ", \"kernel_cache_hits\": " << s.code.from_process << ", " << products_json(parts_)
      << ", \"object_bytes\": " << s.code.bytes << ", \"arch\": \"" << parts_.device.arch
      << "\", \"items\": [" << items_json(parts_) << "]}";
  return out.str();
}

std::string Executable::describe(int32_t what) const {
  switch (what) {
    case TN_DESC_STATS_JSON:
      return statistics_json();
    case TN_DESC_IR:
      return parts_.statistics.loops_before_text;
    case TN_DESC_GRAPH:
      return parts_.statistics.loops_text;
    case TN_DESC_SOURCE:
      return parts_.statistics.fusion_text;
    case TN_DESC_ASM: {
      std::string out;
      for (const auto& [item, kernel] : parts_.kernels)
        out += "// " + kernel.name + "\n" + kernel.ptx + "\n";
      for (const auto& [item, product] : parts_.products)
        if (std::string ptx = product->ptx(); !ptx.empty())
          out += "// " + product->product().name + "\n" + ptx + "\n";
      return out;
    }
    default:
      return "";
  }
}

}  // namespace inductor_cuda
