// Products of two values: plans by shape and strides, slices along one dimension.
#include "batched_product.h"

#include "engine.h"
#include "plan_cache.h"
#include "types.h"

#include <tenon/plugin.hpp>

#include <algorithm>
#include <bit>

namespace onednn {

namespace {

struct Slice {
  int64_t begin;
  Primitive primitive;
};

/// Slices of dimension `cut` of the result.
struct Plan {
  size_t cut;
  std::vector<int64_t> result_strides;
  std::vector<Slice> slices;
};

/// Sizes of the result: batch, m, n.
Dims result_sizes(const BatchedProduct& c) {
  Dims sizes = c.batch;
  sizes.push_back(c.m);
  sizes.push_back(c.n);
  return sizes;
}

Dims dense_strides(const Dims& sizes) {
  Dims strides(sizes.size());
  int64_t step = 1;
  for (size_t d = sizes.size(); d-- > 0; step *= sizes[d]) strides[d] = step;
  return strides;
}

// A batch that is the same for all is one of length 1.
void broadcast(Dims& sizes, Dims& strides, size_t batch_dims) {
  for (size_t d = 0; d < batch_dims; ++d)
    if (strides[d] == 0) sizes[d] = strides[d] = 1;
}

Primitive make_primitive(const BatchedProduct& c, const Plan& plan, int64_t length) {
  Dims result = result_sizes(c), source = result, other = result;
  size_t rows = result.size() - 2, columns = result.size() - 1;
  source[columns] = other[rows] = c.k;
  result[plan.cut] = length;
  if (plan.cut != columns) source[plan.cut] = length;
  if (plan.cut != rows) other[plan.cut] = length;
  auto type = data_type(c.dtype);
  Dims source_strides = c.source_strides, other_strides = c.other_strides;
  broadcast(source, source_strides, rows);
  broadcast(other, other_strides, rows);
  Desc x(source, type, source_strides), w(other, type, other_strides);
  Desc y(result, type, plan.result_strides), bias;
  if (c.bias) {
    Dims sizes(result.size(), 1);
    sizes[columns] = result[columns];
    bias = Desc(sizes, type, dense_strides(sizes));
  }
  dnnl::primitive_attr attr = attributes();
  if (c.alpha != 1) attr.set_output_scales(0, {c.alpha});
  if (c.beta != 0) {
    dnnl::post_ops ops;
    ops.append_sum(c.beta);
    attr.set_post_ops(ops);
  }
  auto desc = c.bias ? dnnl::matmul::desc(x, w, bias, y) : dnnl::matmul::desc(x, w, y);
  dnnl::matmul::primitive_desc pd(desc, attr, engine());
  if (is_reference(pd)) return {};
  return {dnnl::matmul(pd), x, w, bias, y, pd.scratchpad_desc()};
}

// The first dimension of which every worker gets a worthwhile piece; `grain` is what it is cut by.
size_t dimension_to_cut(const Dims& sizes, int64_t workers, int64_t& grain) {
  size_t rows = sizes.size() - 2;
  grain = 1;
  for (size_t d = 0; d < rows; ++d)
    if (sizes[d] >= workers) return d;
  constexpr int64_t row_grain = 16, column_grain = 64;
  if (sizes[rows] >= 2 * row_grain * workers || sizes[rows] >= sizes[rows + 1]) {
    grain = row_grain;
    return rows;
  }
  grain = column_grain;
  return rows + 1;
}

std::shared_ptr<Plan> make_plan(const BatchedProduct& c, int64_t workers) {
  OneThread limit;
  Dims sizes = result_sizes(c);
  int64_t work = c.k, grain = 1;
  for (int64_t s : sizes) work *= s;
  auto plan = std::make_shared<Plan>();
  plan->result_strides = dense_strides(sizes);
  plan->cut = dimension_to_cut(sizes, workers, grain);
  int64_t parts = work < small_work ? 1 : workers;
  int64_t step = (sizes[plan->cut] + parts * grain - 1) / (parts * grain) * grain;
  for (int64_t begin = 0; begin < sizes[plan->cut]; begin += step) {
    Primitive p = make_primitive(c, *plan, std::min(step, sizes[plan->cut] - begin));
    if (!p) return nullptr;
    plan->slices.push_back({begin, std::move(p)});
  }
  return plan;
}

PlanKey key_of(const BatchedProduct& c, int64_t workers) {
  PlanKey key{c.dtype,
              workers,
              c.bias != nullptr,
              std::bit_cast<int32_t>(c.alpha),
              std::bit_cast<int32_t>(c.beta),
              int64_t(c.batch.size()),
              c.k};
  auto add = [&](const Dims& list) { key.insert(key.end(), list.begin(), list.end()); };
  add(result_sizes(c));
  add(c.source_strides);
  add(c.other_strides);
  return key;
}

void run_slice(const BatchedProduct& c, const Plan& plan, const Slice& s) {
  size_t rows = plan.result_strides.size() - 2, columns = rows + 1;
  int64_t in_source = plan.cut == columns ? 0 : s.begin * c.source_strides[plan.cut];
  int64_t in_other = plan.cut == rows ? 0 : s.begin * c.other_strides[plan.cut];
  int64_t in_bias = plan.cut == columns ? s.begin : 0;
  const Primitive& p = s.primitive;
  execute(
      p.run, p.scratchpad,
      {{DNNL_ARG_SRC, p.source, at(c.source, in_source, c.dtype)},
       {DNNL_ARG_WEIGHTS, p.weights, at(c.other, in_other, c.dtype)},
       {DNNL_ARG_BIAS, p.bias, c.bias ? at(c.bias, in_bias, c.dtype) : nullptr},
       {DNNL_ARG_DST, p.result, at(c.result, s.begin * plan.result_strides[plan.cut], c.dtype)}});
}

}  // namespace

bool run_batched_product(const BatchedProduct& c) {
  static auto& plans = *new PlanCache<Plan>;
  int64_t workers = tenon::plugin::host->svc->num_threads();
  std::shared_ptr<const Plan> plan = plans.get(key_of(c, workers), [&] {
    return unless_unsupported([&] { return make_plan(c, workers); });
  });
  if (!plan) return false;
  tenon::plugin::parallel_chunks(int64_t(plan->slices.size()), [&](int64_t chunk, int32_t) {
    OneThread limit;
    run_slice(c, *plan, plan->slices[size_t(chunk)]);
  });
  return true;
}

}  // namespace onednn
