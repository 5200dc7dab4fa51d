// What describe() gives: statistics and texts, of one executable or of the parts of a graph.
#include "executable.h"

#include <loopir/making/item_facts.h>
#include <loopir/memory.h>

#include <algorithm>
#include <functional>
#include <sstream>

namespace inductor_cuda {

namespace {

using Executables = std::span<const Executable* const>;

const char* const names_of_forms[] = {"points", "rows", "columns", "tiles"};

void add_item(std::ostringstream& out, const Parts& parts, size_t i, const ItemTime& time) {
  loopir::ItemFacts f = loopir::facts_of(parts.program, parts.schedule.items[i], parts.accesses[i]);
  out << "{\"kind\": \"" << f.kind << "\", \"name\": " << loopir::quoted(f.name)
      << ", \"bytes\": " << f.bytes << ", \"flops\": " << f.flops
      << ", \"prepacked\": " << (parts.is_static[i] ? "true" : "false");
  if (time.calls > 0)
    out << ", \"calls\": " << time.calls
        << ", \"us\": " << time.microseconds / static_cast<double>(time.calls);
  if (auto product = parts.products.find(i); product != parts.products.end())
    out << ", \"way\": "
        << (product->second->why_own_kernel().empty() ? "\"cublaslt\"" : "\"own kernel\"");
  if (parts.dnn.contains(i)) out << ", \"way\": \"cudnn\"";
  out << ", \"versions\": [";
  auto kernel = parts.kernels.find(i);
  for (size_t v = 0; kernel != parts.kernels.end() && v < kernel->second.plans.size(); ++v) {
    const KernelPlan& plan = kernel->second.plans[v];
    const Form& form = plan.form;
    out << (v ? ", " : "") << "{\"form\": \"" << names_of_forms[static_cast<int>(form.kind)]
        << "\", \"threads\": " << form.threads << ", \"vector\": " << form.vector
        << ", \"least_blocks\": " << form.least_blocks
        << ", \"in_registers\": " << form.in_registers << ", \"index_bits\": " << form.index_bits
        << ", \"atomic\": " << (plan.is_atomic ? "true" : "false") << "}";
  }
  out << "]}";
}

std::string items_json(Executables list) {
  std::ostringstream out;
  const char* separator = "";
  for (const Executable* e : list) {
    std::vector<ItemTime> times = e->times();
    times.resize(e->parts().schedule.items.size());
    for (size_t i = 0; i < times.size(); ++i) {
      out << separator;
      add_item(out, e->parts(), i, times[i]);
      separator = ", ";
    }
  }
  return out.str();
}

std::string products_json(Executables list) {
  uint32_t by_library = 0, by_own_kernels = 0;
  std::string why;
  for (const Executable* e : list)
    for (const auto& [item, product] : e->parts().products) {
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

std::vector<int64_t> hints_of(const loopir::Program& program) {
  std::vector<int64_t> out;
  for (const loopir::Symbol& symbol : program.expressions.symbols) out.push_back(symbol.hint);
  return out;
}

std::string memory_text(const Executable& e) {
  std::vector<int64_t> hints = hints_of(e.parts().program);
  return loopir::text_of(e.parts().program, e.parts().accesses_of_launches, e.memory_plan(hints),
                         hints);
}

/// Sums over the parts.
struct Totals {
  Statistics sums;
  int64_t planned_bytes = 0, naive_bytes = 0;
  uint32_t branches = 1;  // of a recording, at most

  explicit Totals(Executables list) {
    sums.code.from_disk = !list.empty();
    for (const Executable* e : list) add(*e);
  }

 private:
  void add(const Executable& e) {
    const Statistics& s = e.parts().statistics;
    sums.kernels += s.kernels;
    sums.grouped_kernels += s.grouped_kernels;
    sums.spilled_kernels += s.spilled_kernels;
    sums.prepacked_items += s.prepacked_items;
    sums.fused_nodes += s.fused_nodes;
    sums.failed_kernels += s.failed_kernels;
    sums.extern_calls += s.extern_calls;
    sums.extern_ops.insert(sums.extern_ops.end(), s.extern_ops.begin(), s.extern_ops.end());
    sums.compile_ms += s.compile_ms;
    sums.codegen_ms += s.codegen_ms;
    sums.code.from_disk = sums.code.from_disk && s.code.from_disk;
    sums.code.distinct += s.code.distinct;
    sums.code.from_process += s.code.from_process;
    sums.code.bytes += s.code.bytes;
    const Parts& parts = e.parts();
    branches = std::max(branches, e.branches().count);
    loopir::MemoryPlan plan = e.memory_plan(hints_of(parts.program));
    planned_bytes += plan.bytes;
    naive_bytes += plan.naive_bytes;
  }
};

std::string statistics_json(Executables list) {
  Totals totals(list);
  const Statistics& s = totals.sums;
  std::ostringstream out;
  out << "{\"kernels\": " << s.kernels << ", \"extern_calls\": " << s.extern_calls
      << ", \"extern_ops\": [";
  for (size_t i = 0; i < s.extern_ops.size(); ++i)
    out << (i ? ", " : "") << '"' << s.extern_ops[i] << '"';
  out << "], \"fused_nodes\": " << s.fused_nodes << ", \"planned_bytes\": " << totals.planned_bytes
      << ", \"naive_bytes\": " << totals.naive_bytes << ", \"compile_ms\": " << s.compile_ms
      << ", \"codegen_ms\": " << s.codegen_ms
      << ", \"from_cache\": " << (s.code.from_disk ? "true" : "false")
      << ", \"failed_kernels\": " << s.failed_kernels
      << ", \"distinct_kernels\": " << s.code.distinct
      << ", \"grouped_kernels\": " << s.grouped_kernels
      << ", \"spilled_kernels\": " << s.spilled_kernels << ", \"branches\": " << totals.branches
      << ", \"kernel_cache_hits\": " << s.code.from_process << ", " << products_json(list)
      << ", \"object_bytes\": " << s.code.bytes << ", \"arch\": \""
      << (list.empty() ? "" : list[0]->parts().device.arch) << "\", \"items\": ["
      << items_json(list) << "]}";
  return out.str();
}

std::string assembly(const Parts& parts) {
  std::string out;
  for (const auto& [item, kernel] : parts.kernels)
    out += "// " + kernel.name + "\n" + kernel.ptx + "\n";
  for (const auto& [item, group] : parts.groups)
    out += "// " + group.name + "\n" + group.ptx + "\n";
  for (const auto& [item, product] : parts.products)
    if (std::string ptx = product->ptx(); !ptx.empty())
      out += "// " + product->product().name + "\n" + ptx + "\n";
  return out;
}

std::string text_of(const Executable& e, int32_t what) {
  const Statistics& s = e.parts().statistics;
  switch (what) {
    case TN_DESC_IR:
      return s.loops_before_text;
    case TN_DESC_GRAPH:
      return s.loops_text;
    case TN_DESC_MEMORY_PLAN:
      return memory_text(e);
    case TN_DESC_SOURCE:
      return s.fusion_text;
    case TN_DESC_ASM:
      return assembly(e.parts());
    default:
      return "";
  }
}

}  // namespace

void log_profile(const Executable& code) {
  const Parts& parts = code.parts();
  std::vector<ItemTime> times = code.times();
  std::vector<std::pair<double, std::string>> rows;
  double sum = 0;
  for (size_t i = 0; i < times.size(); ++i) {
    if (times[i].calls == 0) continue;
    double us = times[i].microseconds / static_cast<double>(times[i].calls);
    loopir::ItemFacts f =
        loopir::facts_of(parts.program, parts.schedule.items[i], parts.accesses[i]);
    rows.emplace_back(us, f.kind + " " + f.name);
    sum += us;
  }
  std::ranges::sort(rows, std::greater());
  std::ostringstream out;
  out.precision(1);
  out << std::fixed << "sum of all items " << sum << " us on the device";
  for (const auto& [us, name] : rows)
    out << "\n" << us << " us  " << 100 * us / sum << " %  " << name;
  std::string table = out.str();
  tenon::plugin::host->svc->log(TN_LOG_WARN, "profile", table.data(), table.size());
}

std::string describe(std::span<const Executable* const> parts, int32_t what) {
  if (what == TN_DESC_STATS_JSON) return statistics_json(parts);
  std::string out;
  for (const Executable* e : parts) out += text_of(*e, what);
  return out;
}

std::string Executable::describe(int32_t what) const {
  const Executable* self = this;
  return inductor_cuda::describe({&self, 1}, what);
}

}  // namespace inductor_cuda
