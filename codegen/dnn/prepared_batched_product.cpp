// Products of two values: slices along one dimension.
//
// oneDNN's `matmul` reads strided operands as they are. The work is cut along the first dimension
// that is long enough for all workers: a batch dimension, else rows, else columns. A result whose
// rows are not dense makes `matmul` leave its fast kernels (20-150 % slower in bf16): such a slice
// writes a tile, which is copied into place.
#include "post_ops.h"
#include "types.h"

#include <algorithm>

namespace onednn {

namespace {

using Shape = BatchedProductShape;

/// Sizes of the result: batch, m, n.
Dims result_sizes(const Shape& c) {
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

int64_t product(const Dims& sizes) {
  int64_t all = 1;
  for (int64_t s : sizes) all *= s;
  return all;
}

/// How the result is cut: along one dimension, every `step`.
struct Cut {
  size_t dimension;
  int64_t step;
};

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

bool has_dense_rows(const Dims& sizes, const Dims& strides) {
  size_t rows = sizes.size() - 2;
  return sizes[rows] == 1 || strides[rows] == sizes[rows + 1];
}

Cut choose_cut(const Shape& c, const Dims& result_strides, int64_t workers) {
  constexpr int64_t tile_bytes = 1 << 20;  // fits the second-level cache
  Dims sizes = result_sizes(c);
  int64_t grain = 1, work = c.k * product(sizes);
  size_t d = dimension_to_cut(sizes, workers, grain);
  int64_t parts = work < small_work ? 1 : workers;
  int64_t step = (sizes[d] + parts * grain - 1) / (parts * grain) * grain;
  int64_t unit = product(sizes) / sizes[d] * element_size(c.dtype) * grain;
  if (d + 1 < sizes.size() && !has_dense_rows(sizes, result_strides))
    step = std::min(step, std::max<int64_t>(1, tile_bytes / unit) * grain);
  return {d, step};
}

/// Calls f(offset, offset) for each matrix of a batch, with the offsets under both strides.
template <class F>
void for_each_matrix(const Dims& sizes, const Dims& one, const Dims& other, F f) {
  size_t batch_dims = sizes.size() - 2;
  int64_t index[DNNL_MAX_NDIMS] = {}, a = 0, b = 0;
  int64_t matrices = 1;
  for (size_t d = 0; d < batch_dims; ++d) matrices *= sizes[d];
  for (int64_t i = 0; i < matrices; ++i) {
    f(a, b);
    for (size_t d = batch_dims; d-- > 0; index[d] = 0) {
      a += one[d];
      b += other[d];
      if (++index[d] < sizes[d]) break;
      a -= sizes[d] * one[d];
      b -= sizes[d] * other[d];
    }
  }
}

struct Slice {
  int64_t begin;
  Dims sizes;  // of its result
  Dims tile;   // strides of its tile; empty: it writes in place
  Primitive primitive;
};

void copy(const Slice& s, const void* from, const Dims& from_strides, void* to,
          const Dims& to_strides, int32_t dtype) {
  size_t rows = s.sizes.size() - 2;
  for_each_matrix(s.sizes, from_strides, to_strides, [&](int64_t a, int64_t b) {
    copy_rows({at(from, a, dtype), from_strides[rows]}, {at(to, b, dtype), to_strides[rows]},
              s.sizes[rows], s.sizes[rows + 1], dtype);
  });
}

dnnl::primitive_attr attributes_of(const Shape& c) {
  dnnl::primitive_attr attr = attributes();
  if (c.alpha != 1) attr.set_output_scales(0, {c.alpha});
  if (c.beta == 0) return attr;
  dnnl::post_ops ops;
  ops.append_sum(c.beta);
  attr.set_post_ops(ops);
  return attr;
}

Primitive make_primitive(const Shape& c, const Slice& s, const Dims& strides, int64_t sets) {
  Dims source = s.sizes, other = s.sizes;
  size_t rows = s.sizes.size() - 2, columns = rows + 1;
  source[columns] = other[rows] = c.k;
  Dims source_strides = c.source_strides, other_strides = c.other_strides;
  broadcast(source, source_strides, rows);
  broadcast(other, other_strides, rows);
  auto type = data_type(c.dtype);
  Desc x(source, type, source_strides), w(other, type, other_strides), bias;
  Desc y(s.sizes, type, strides);
  if (c.bias) {
    Dims sizes(s.sizes.size(), 1);
    sizes[columns] = s.sizes[columns];
    bias = Desc(sizes, type, dense_strides(sizes));
  }
  auto desc = c.bias ? dnnl::matmul::desc(x, w, bias, y) : dnnl::matmul::desc(x, w, y);
  dnnl::matmul::primitive_desc pd(desc, attributes_of(c), engine());
  if (is_reference(pd)) return {};
  Call call(dnnl::matmul(pd), pd.scratchpad_desc(),
            {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_BIAS, bias}, {DNNL_ARG_DST, y}},
            sets);
  return {std::move(call), x, w, y};
}

}  // namespace

struct PreparedBatchedProduct::Plan {
  Shape shape;
  Cut cut;
  std::vector<Slice> slices;

  bool add(int64_t begin, int64_t workers);
};

bool PreparedBatchedProduct::Plan::add(int64_t begin, int64_t workers) {
  Slice s{begin, result_sizes(shape), {}, {}};
  int64_t left = s.sizes[cut.dimension] - begin;
  s.sizes[cut.dimension] = std::min(cut.step, left);
  if (!has_dense_rows(s.sizes, shape.result_strides)) s.tile = dense_strides(s.sizes);
  const Dims& strides = s.tile.empty() ? shape.result_strides : s.tile;
  // All but the last have one shape and share the primitive.
  s.primitive = slices.empty() || slices.front().sizes != s.sizes
                    ? make_primitive(shape, s, strides, workers)
                    : slices.front().primitive;
  if (!s.primitive) return false;
  slices.push_back(std::move(s));
  return true;
}

std::shared_ptr<const PreparedBatchedProduct> PreparedBatchedProduct::make(const Shape& shape,
                                                                           int64_t workers) {
  return unless_unsupported([&]() -> std::shared_ptr<const PreparedBatchedProduct> {
    OneThread limit;
    Dims sizes = result_sizes(shape);
    auto plan = std::make_unique<Plan>();
    plan->shape = shape;
    if (shape.result_strides.empty()) plan->shape.result_strides = dense_strides(sizes);
    if (plan->shape.result_strides.back() != 1 && shape.n != 1) return nullptr;
    plan->cut = choose_cut(shape, plan->shape.result_strides, workers);
    for (int64_t begin = 0; begin < sizes[plan->cut.dimension]; begin += plan->cut.step)
      if (!plan->add(begin, workers)) return nullptr;
    return std::shared_ptr<const PreparedBatchedProduct>(
        new PreparedBatchedProduct(std::move(plan)));
  });
}

PreparedBatchedProduct::PreparedBatchedProduct(std::unique_ptr<const Plan> plan)
    : plan_(std::move(plan)) {}
PreparedBatchedProduct::~PreparedBatchedProduct() = default;

int64_t PreparedBatchedProduct::slices() const {
  return static_cast<int64_t>(plan_->slices.size());
}

PreparedBatchedProduct::Piece PreparedBatchedProduct::piece(int64_t slice) const {
  const Slice& s = plan_->slices[static_cast<size_t>(slice)];
  return {plan_->cut.dimension, s.begin, s.sizes[plan_->cut.dimension]};
}

void PreparedBatchedProduct::run(int64_t slice, const void* source, const void* other, void* result,
                                 const void* bias) const {
  OneThread limit;
  const Shape& c = plan_->shape;
  const Slice& s = plan_->slices[static_cast<size_t>(slice)];
  size_t cut = plan_->cut.dimension, rows = s.sizes.size() - 2, columns = rows + 1;
  int64_t in_source = cut == columns ? 0 : s.begin * c.source_strides[cut];
  int64_t in_other = cut == rows ? 0 : s.begin * c.other_strides[cut];
  int64_t in_bias = cut == columns ? s.begin : 0;
  void* place = at(result, s.begin * c.result_strides[cut], c.dtype);
  void* to = place;
  if (!s.tile.empty()) {
    to = scratch(Scratch::result_tile, s.primitive.result.get_size());
    if (c.beta != 0) copy(s, place, c.result_strides, to, s.tile, c.dtype);
  }
  s.primitive.run({at(source, in_source, c.dtype), at(other, in_other, c.dtype),
                   c.bias ? at(bias, in_bias, c.dtype) : nullptr, to});
  if (!s.tile.empty()) copy(s, to, s.tile, place, c.result_strides, c.dtype);
}

}  // namespace onednn
