// What describe() gives: statistics and texts.
#include "executable.h"
#include "peaks.h"

#include <algorithm>
#include <sstream>

namespace inductor {

namespace {

std::string statistics_json(const Statistics& s, const CodeOptions& code, int64_t packed_bytes,
                            int64_t packings, const std::string& items) {
  std::ostringstream out;
  out << "{\"kernels\": " << s.kernels << ", \"extern_calls\": " << s.extern_calls
      << ", \"extern_ops\": [";
  for (size_t i = 0; i < s.extern_ops.size(); ++i)
    out << (i ? ", " : "") << '"' << s.extern_ops[i] << '"';
  out << "], \"fused_nodes\": " << s.fused_nodes << ", \"planned_bytes\": " << s.planned_bytes
      << ", \"naive_bytes\": " << s.naive_bytes << ", \"compile_ms\": " << s.compile_ms
      << ", \"codegen_ms\": " << s.codegen_ms
      << ", \"from_cache\": " << (s.from_cache ? "true" : "false") << ", \"gemm\": " << s.products
      << ", \"conv\": " << s.convolutions << ", \"streamed\": " << s.streamed
      << ", \"tuned\": " << s.tuned << ", \"regions\": " << s.regions
      << ", \"epilogues\": " << s.epilogues << ", \"prologues\": " << s.prologues
      << ", \"views_removed\": " << s.views_removed
      << ", \"prepacked_items\": " << s.prepacked_items
      << ", \"peak_lower_bound_bytes\": " << s.lower_bound
      << ", \"failed_kernels\": " << s.failed_kernels
      << ", \"distinct_kernels\": " << s.distinct_kernels
      << ", \"kernel_cache_hits\": " << s.kernel_cache_hits
      << ", \"object_bytes\": " << s.object_bytes << ", \"packed_bytes\": " << packed_bytes
      << ", \"packings\": " << packings << ", \"cpu\": \"" << code.cpu
      << "\", \"vector_bits\": " << code.vector_bits << ", \"buffers\": " << s.buffers_json << items
      << "}";
  return out.str();
}

}  // namespace

// Items as they are timed: those of a region that ran by chunks of rows are one.
std::vector<Executable::StepFacts> Executable::step_facts() const {
  std::vector<StepFacts> out;
  auto is_one = [&](const Region& r) {
    return times_ && times_[r.first].calls > 0 && times_[r.last].calls == 0;
  };
  for (size_t i = 0; i < parts_.schedule.items.size(); ++i) {
    loopir::ItemFacts facts =
        loopir::facts_of(parts_.program, parts_.schedule.items[i], parts_.accesses[i]);
    auto region = std::ranges::find_if(
        parts_.regions, [&](const Region& r) { return r.first <= i && i <= r.last; });
    if (region == parts_.regions.end() || parts_.is_prepacked[i] || !is_one(*region)) {
      out.push_back({i, std::move(facts)});
      continue;
    }
    std::string name = facts.kind + " " + facts.name;
    if (i == region->first) {
      out.push_back({i, {"region", std::move(name), facts.bytes, facts.flops}});
      continue;
    }
    loopir::ItemFacts& whole = std::ranges::find(out, region->first, &StepFacts::item)->facts;
    whole.name += ", " + name;
    whole.bytes += facts.bytes;
    whole.flops += facts.flops;
  }
  return out;
}

// The slowest items first: µs a call, share, name.
std::string Executable::profile_text() const {
  struct Row {
    double microseconds;
    std::string name;
  };
  std::vector<Row> rows;
  double sum = 0;
  for (const auto& [item, facts] : step_facts()) {
    int64_t calls = times_[item].calls;
    if (!calls || parts_.is_prepacked[item]) continue;
    double us = static_cast<double>(times_[item].nanoseconds) / 1e3 / static_cast<double>(calls);
    rows.push_back({us, facts.kind + " " + facts.name});
    sum += us;
  }
  std::sort(rows.begin(), rows.end(),
            [](const Row& a, const Row& b) { return a.microseconds > b.microseconds; });
  std::ostringstream out;
  out.precision(1);
  out << std::fixed << "sum of all items " << sum << " us";
  for (const Row& r : rows)
    out << "\n" << r.microseconds << " us  " << 100 * r.microseconds / sum << " %  " << r.name;
  return out.str();
}

// What each item is and moves, for the sizes seen while compiling; with a profile, what it takes,
// and what this machine can do at most.
std::string Executable::items_json() const {
  std::ostringstream out;
  out << ", \"items\": [";
  const char* separator = "";
  for (const auto& [item, f] : step_facts()) {
    out << separator << "{\"kind\": \"" << f.kind << "\", \"name\": " << loopir::quoted(f.name)
        << ", \"bytes\": " << f.bytes << ", \"flops\": " << f.flops
        << ", \"prepacked\": " << (parts_.is_prepacked[item] ? "true" : "false");
    if (int64_t calls = times_ ? times_[item].calls.load() : 0)
      out << ", \"calls\": " << calls << ", \"us\": "
          << static_cast<double>(times_[item].nanoseconds) / 1e3 / static_cast<double>(calls);
    out << "}";
    separator = ", ";
  }
  out << "]";
  if (times_) {
    is_told_ = true;
    const Peaks& peaks = measured_peaks();
    out << ", \"peak_gbs\": " << peaks.bytes_per_second / 1e9
        << ", \"peak_gfs\": " << peaks.flops_per_second / 1e9;
  }
  return out.str();
}

std::vector<NamedKernel> named_kernels(const Parts& parts) {
  std::vector<NamedKernel> out;
  for (size_t i = 0; i < parts.functions.size(); ++i)
    if (auto* kernel = std::get_if<loopir::Kernel>(&parts.schedule.items[i]);
        kernel && parts.functions[i].code)
      out.push_back({kernel->name, parts.functions[i].code->code_of(parts.kernels[i].symbol)});
  return out;
}

std::string Executable::describe(int32_t what) const {
  const Statistics& s = parts_.statistics;
  switch (what) {
    case TN_DESC_STATS_JSON:
      return statistics_json(s, parts_.options.code, packed_bytes_, prepacking_.packings(),
                             items_json());
    case TN_DESC_IR:
      return s.loops_before_text;
    case TN_DESC_GRAPH:
      return s.loops_text;
    case TN_DESC_MEMORY_PLAN:
      return s.memory_text;
    case TN_DESC_SOURCE:
      return s.fusion_text;
    case TN_DESC_ASM:
      return disassembler_ ? disassembler_(named_kernels(parts_)) : "";
    default:
      return "";
  }
}

}  // namespace inductor
