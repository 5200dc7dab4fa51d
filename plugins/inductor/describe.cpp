// What describe() gives: statistics and texts.
#include "executable.h"

#include <algorithm>
#include <sstream>

namespace inductor {

namespace {

std::string statistics_json(const Statistics& s, const CodeOptions& code) {
  std::ostringstream out;
  out << "{\"kernels\": " << s.kernels << ", \"extern_calls\": " << s.extern_calls
      << ", \"extern_ops\": [";
  for (size_t i = 0; i < s.extern_ops.size(); ++i)
    out << (i ? ", " : "") << '"' << s.extern_ops[i] << '"';
  out << "], \"fused_nodes\": " << s.fused_nodes << ", \"planned_bytes\": " << s.planned_bytes
      << ", \"naive_bytes\": " << s.naive_bytes << ", \"compile_ms\": " << s.compile_ms
      << ", \"codegen_ms\": " << s.codegen_ms
      << ", \"from_cache\": " << (s.from_cache ? "true" : "false") << ", \"gemm\": " << s.products
      << ", \"conv\": " << s.convolutions << ", \"regions\": " << s.regions
      << ", \"epilogues\": " << s.epilogues << ", \"prologues\": " << s.prologues
      << ", \"views_removed\": " << s.views_removed << ", \"setup_items\": " << s.setup_items
      << ", \"peak_lower_bound_bytes\": " << s.lower_bound
      << ", \"distinct_kernels\": " << s.distinct_kernels
      << ", \"kernel_cache_hits\": " << s.kernel_cache_hits
      << ", \"object_bytes\": " << s.object_bytes << ", \"cpu\": \"" << code.cpu
      << "\", \"vector_bits\": " << code.vector_bits << "}";
  return out.str();
}

std::string name_of(const loopir::Item& item) {
  if (auto* k = std::get_if<loopir::Kernel>(&item)) return "kernel " + k->name;
  if (auto* p = std::get_if<loopir::Product>(&item)) return "product " + p->name;
  if (auto* c = std::get_if<loopir::Convolution>(&item)) return "convolution " + c->name;
  if (auto* a = std::get_if<loopir::Attention>(&item)) return "attention " + a->name;
  return "extern " + std::get<loopir::Extern>(item).name;
}

}  // namespace

// The slowest items first: µs a call, share, name.
std::string Executable::profile_text() const {
  struct Row {
    double microseconds;
    std::string name;
  };
  std::vector<Row> rows;
  double sum = 0;
  for (size_t i = 0; i < parts_.schedule.items.size(); ++i) {
    int64_t calls = times_[i].calls;
    if (!calls || parts_.in_setup[i]) continue;
    double us = double(times_[i].nanoseconds) / 1e3 / double(calls);
    auto begins = [&](const Region& region) { return region.first == i; };
    bool is_region = std::any_of(parts_.regions.begin(), parts_.regions.end(), begins);
    rows.push_back({us, (is_region ? "region from " : "") + name_of(parts_.schedule.items[i])});
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

std::string Executable::describe(int32_t what) const {
  const Statistics& s = parts_.statistics;
  switch (what) {
    case TN_DESC_STATS_JSON:
      return statistics_json(s, parts_.options.code);
    case TN_DESC_GRAPH:
      return s.loops_text;
    case TN_DESC_MEMORY_PLAN:
      return s.memory_text;
    case TN_DESC_SOURCE:
      return s.fusion_text;
    default:
      return "";
  }
}

}  // namespace inductor
