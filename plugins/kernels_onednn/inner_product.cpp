// Linear layers: plans by shape, packing, slices by rows or columns.
#include "inner_product.h"

#include "engine.h"
#include "packed_weights.h"
#include "plan_cache.h"
#include "types.h"

#include <tenon/plugin.hpp>

#include <algorithm>
#include <cstring>

namespace onednn {

namespace {

/// One piece of the result, by a primitive of its own shape.
struct Slice {
  int64_t row, rows, column, columns;
  Primitive primitive;
};

struct Plan {
  bool by_columns;
  std::vector<Slice> slices;
};

Primitive make_primitive(const InnerProduct& c, int64_t rows, int64_t columns,
                         const Desc* weights_layout) {
  using tag = dnnl::memory::format_tag;
  auto type = data_type(c.dtype);
  Desc source({rows, c.k}, type, tag::nc), result({rows, columns}, type, tag::nc);
  Desc weights = weights_layout ? *weights_layout : Desc({columns, c.k}, type, tag::any);
  Desc bias = c.bias ? Desc({columns}, type, tag::x) : Desc();
  auto kind = dnnl::prop_kind::forward_inference;
  auto desc = c.bias ? dnnl::inner_product_forward::desc(kind, source, weights, bias, result)
                     : dnnl::inner_product_forward::desc(kind, source, weights, result);
  dnnl::inner_product_forward::primitive_desc pd(desc, attributes(), engine());
  if (is_reference(pd)) return {};
  return {dnnl::inner_product_forward(pd),
          source,
          pd.weights_desc(),
          bias,
          result,
          pd.scratchpad_desc()};
}

// Pieces of at least `grain`, all but the last a multiple of it.
std::vector<int64_t> borders(int64_t size, int64_t parts, int64_t grain) {
  int64_t step = (size + parts * grain - 1) / (parts * grain) * grain;
  std::vector<int64_t> out;
  for (int64_t at = 0; at < size; at += step) out.push_back(at);
  out.push_back(size);
  return out;
}

std::shared_ptr<Plan> make_plan(const InnerProduct& c, int64_t workers) {
  constexpr int64_t rows_worth_cutting = 64, row_grain = 16, column_grain = 64;
  OneThread limit;
  bool tiny = c.m * c.k * c.n < small_work;
  auto plan = std::make_shared<Plan>();
  plan->by_columns = !tiny && workers > 1 && c.m < rows_worth_cutting * workers;
  int64_t parts = tiny ? 1 : workers;
  if (plan->by_columns) {
    std::vector<int64_t> at = borders(c.n, parts, column_grain);
    for (size_t i = 0; i + 1 < at.size(); ++i)
      plan->slices.push_back(
          {0, c.m, at[i], at[i + 1] - at[i], make_primitive(c, c.m, at[i + 1] - at[i], nullptr)});
  } else {
    std::vector<int64_t> at = borders(c.m, parts, row_grain);
    const Desc* layout = nullptr;  // one for all rows: they share the packed weights
    for (size_t i = 0; i + 1 < at.size(); ++i) {
      plan->slices.push_back(
          {at[i], at[i + 1] - at[i], 0, c.n, make_primitive(c, at[i + 1] - at[i], c.n, layout)});
      layout = &plan->slices.front().primitive.weights;
    }
  }
  for (const Slice& s : plan->slices)
    if (!s.primitive) return nullptr;
  return plan;
}

PackedPtr packed_weights(const InnerProduct& c, const Slice& s) {
  WeightsKey key(*c.weights, {c.weights_n_stride, c.weights_k_stride, s.column, s.columns},
                 s.primitive.weights);
  if (PackedPtr known = find_packed(key)) return known;
  auto packed = std::make_shared<Packed>(s.primitive.weights.get_size());
  Desc plain({s.columns, c.k}, data_type(c.dtype), Dims{c.weights_n_stride, c.weights_k_stride});
  Reorder pack(plain, s.primitive.weights);
  pack(at(c.weights->data, s.column * c.weights_n_stride, c.dtype), packed->data());
  keep_packed(key, packed);
  return packed;
}

void run_slice(const InnerProduct& c, const Plan& plan, const Slice& s, const Packed& weights) {
  const Primitive& p = s.primitive;
  bool tiled = plan.by_columns && s.columns != c.n && c.m > 1;
  void* place = at(c.result, s.row * c.n + s.column, c.dtype);
  void* result = tiled ? scratch(Scratch::result_tile, p.result.get_size()) : place;
  const void* bias = c.bias ? at(c.bias, s.column, c.dtype) : nullptr;
  execute(p.run, p.scratchpad,
          {{DNNL_ARG_SRC, p.source, at(c.source, s.row * c.k, c.dtype)},
           {DNNL_ARG_WEIGHTS, p.weights, weights.data()},
           {DNNL_ARG_BIAS, p.bias, bias},
           {DNNL_ARG_DST, p.result, result}});
  if (!tiled) return;
  size_t bytes = static_cast<size_t>(s.columns * element_size(c.dtype));
  for (int64_t r = 0; r < c.m; ++r)
    std::memcpy(at(place, r * c.n, c.dtype), at(result, r * s.columns, c.dtype), bytes);
}

}  // namespace

bool run_inner_product(const InnerProduct& c) {
  static auto& plans = *new PlanCache<Plan>;
  int64_t workers = tenon::plugin::host->svc->num_threads();
  PlanKey key{c.dtype, c.m, c.k, c.n, c.bias != nullptr, workers};
  std::shared_ptr<const Plan> plan =
      plans.get(key, [&] { return unless_unsupported([&] { return make_plan(c, workers); }); });
  if (!plan) return false;
  PackedPtr shared;  // by rows: packed once, before the workers read it
  if (!plan->by_columns) {
    OneThread limit;
    shared = packed_weights(c, plan->slices.front());
  }
  tenon::plugin::parallel_chunks(int64_t(plan->slices.size()), [&](int64_t chunk, int32_t) {
    OneThread limit;
    const Slice& s = plan->slices[size_t(chunk)];
    PackedPtr weights = shared ? shared : packed_weights(c, s);
    run_slice(c, *plan, s, *weights);
  });
  return true;
}

}  // namespace onednn
