#include "making.h"

#include <loopir/making/static_items.h>

#include <algorithm>
#include <set>

namespace inductor {

using loopir::Buffer;
using loopir::Id;

static std::vector<int64_t> hints_of(const loopir::Program& p) {
  std::vector<int64_t> out;
  for (const loopir::Symbol& s : p.expressions.symbols) out.push_back(s.hint);
  return out;
}

bool has_fast_kernel(const loopir::Program& p, const loopir::Step& step,
                     const RunOptions& options) {
  auto is_there = [&](const auto& call) {
    return call.dtype != TN_BF16 || options.code.has("avx512bf16");
  };
  if (auto* gradient = std::get_if<loopir::ConvolutionGradient>(&step))
    return is_there(*gradient) && prepare(p, *gradient, options.workers)->is_fast(hints_of(p));
  auto& convolution = std::get<loopir::Convolution>(step);
  return is_there(convolution) &&
         prepare(p, convolution, options.packs_weights, options.workers)->is_fast(hints_of(p));
}

bool needs_layout(const loopir::Program& p, const loopir::Convolution& c,
                  const RunOptions& options) {
  return prepare(p, c, options.packs_weights, options.workers)->needs_layout(hints_of(p));
}

bool is_fast(const loopir::Program& p, const loopir::Item& item, const RunOptions& options) {
  if (auto* product = std::get_if<loopir::Product>(&item))
    return prepare(p, *product, options.packs_weights, options.workers)->is_fast(hints_of(p));
  auto& convolution = std::get<loopir::Convolution>(item);
  return prepare(p, convolution, options.packs_weights, options.workers)->is_fast(hints_of(p));
}

static bool runs_by_rows(const Parts& parts, size_t item, const std::vector<bool>& is_static) {
  const loopir::Program& p = parts.program;
  const auto& product = std::get<loopir::Product>(parts.schedule.items[item]);
  bool is_packed = is_static[product.right.buffer] && parts.options.packs_weights;
  return prepare(p, product, is_packed, parts.options.workers)->runs_by_rows(hints_of(p));
}

// A kernel in a region is part of the products there: what is done before the first or after one.
void count_regions(Parts& parts) {
  Statistics& s = parts.statistics;
  s.regions = static_cast<uint32_t>(parts.regions.size());
  for (const Region& region : parts.regions) {
    bool is_behind_product = false;
    for (size_t i = region.first; i <= region.last; ++i) {
      if (parts.is_prepacked[i]) continue;
      bool is_kernel = std::holds_alternative<loopir::Kernel>(parts.schedule.items[i]);
      is_behind_product |= !is_kernel;
      if (!is_kernel) continue;
      --s.kernels;
      ++(is_behind_product ? s.epilogues : s.prologues);
    }
  }
}

void describe_items(Parts& parts) {
  for (size_t i = 0; i < parts.schedule.items.size(); ++i) {
    loopir::Item& item = parts.schedule.items[i];
    parts.accesses.push_back(loopir::access_of(parts.program, item));
    if (auto* op = std::get_if<loopir::Extern>(&item))
      parts.externs.emplace(i, loopir::ExternCall(*op));
  }
}

void count_items(Parts& parts) {
  Statistics& s = parts.statistics;
  for (const loopir::Item& item : parts.schedule.items) {
    if (auto* e = std::get_if<loopir::Extern>(&item)) {
      ++s.extern_calls;
      s.extern_ops.push_back(e->name);
    }
    s.products += std::holds_alternative<loopir::Product>(item);
    s.convolutions += std::holds_alternative<loopir::Convolution>(item) ||
                      std::holds_alternative<loopir::ConvolutionGradient>(item);
  }
  s.prepacked_items =
      static_cast<uint32_t>(std::count(parts.is_prepacked.begin(), parts.is_prepacked.end(), true));
  s.views_removed = parts.program.views_removed;
}

std::vector<bool> static_when_prepacked(Parts& parts) {
  std::vector<bool> out = loopir::static_buffers(parts.program);
  for (size_t i = 0; i < parts.schedule.items.size(); ++i)
    if (parts.is_prepacked[i])
      for (Id b : loopir::access_of(parts.program, parts.schedule.items[i]).writes) out[b] = true;
  return out;
}

void find_regions_of(Parts& parts, const std::vector<loopir::Nest>& nests,
                     const std::vector<bool>& is_static) {
  parts.regions =
      find_regions({parts.program, parts.schedule.items, nests, parts.kernels, parts.is_prepacked,
                    [&](size_t i) { return runs_by_rows(parts, i, is_static); }});
}

}  // namespace inductor
