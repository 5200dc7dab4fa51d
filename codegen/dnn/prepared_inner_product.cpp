// Inner products: how they are cut, packing, running a slice.
//
// Method (measured: threads.md of the design; 2 cores with AVX-512, 254 of 256 GF/s a core in f32):
// oneDNN's `matmul` with the weights in the layout it likes best: as fast as its `inner_product`,
// which adds in another order where k is no multiple of 64, so that the first product, of weights
// that are not packed yet, would differ from later ones in the last bits. Many rows: each worker
// takes rows, all read the same packed weights. Few rows: each worker takes columns, with packed
// weights of its own; its dense tile is then copied into place, because a strided result makes
// oneDNN leave its fast kernels.
#include "post_ops.h"
#include "types.h"

#include <algorithm>

namespace onednn {

namespace {

/// One piece of the result, by a primitive of its own shape.
struct Slice {
  PreparedInnerProduct::Piece piece;
  size_t packed;  // where its weights begin, in bytes
  Primitive primitive;
};

Primitive make_primitive(const InnerProductShape& shape, const PreparedInnerProduct::Piece& piece,
                         const Desc* weights_layout) {
  using tag = dnnl::memory::format_tag;
  using dnnl::matmul;
  auto type = data_type(shape.dtype);
  Desc source({piece.rows, shape.k}, type, tag::ab),
      result({piece.rows, piece.columns}, type, tag::ab);
  Desc weights = weights_layout ? *weights_layout : Desc({shape.k, piece.columns}, type, tag::any);
  Desc bias = shape.bias ? Desc({1, piece.columns}, type, tag::ab) : Desc();
  auto desc = shape.bias ? matmul::desc(source, weights, bias, result)
                         : matmul::desc(source, weights, result);
  auto pd = describe<matmul::primitive_desc>(desc, attributes());
  if (!pd) return {};
  Call call(matmul(pd), pd.scratchpad_desc(),
            {{DNNL_ARG_SRC, source},
             {DNNL_ARG_WEIGHTS, as_bytes(pd.weights_desc())},
             {DNNL_ARG_BIAS, bias},
             {DNNL_ARG_DST, result}});
  return {std::move(call), source, pd.weights_desc(), result};
}

// Pieces of at least `grain`, all but the last a multiple of it.
std::vector<int64_t> borders(int64_t size, int64_t parts, int64_t grain) {
  int64_t step = (size + parts * grain - 1) / (parts * grain) * grain;
  std::vector<int64_t> out;
  for (int64_t at = 0; at < size; at += step) out.push_back(at);
  out.push_back(size);
  return out;
}

}  // namespace

struct PreparedInnerProduct::Plan {
  InnerProductShape shape;
  bool by_columns;
  std::vector<Slice> slices;
  size_t packed_bytes = 0;
  uint64_t layout = 0;

  bool add(const Piece& piece) {
    // By rows there is one layout for all: they share the packed weights.
    bool shares = !by_columns && !slices.empty();
    Primitive p =
        make_primitive(shape, piece, shares ? &slices.front().primitive.weights : nullptr);
    if (!p) return false;
    if (!shares)
      layout = layout * 31 + fingerprint(p.weights) + static_cast<uint64_t>(piece.column);
    size_t bytes = shares ? 0 : round_up_to_line(p.weights.get_size());
    slices.push_back({piece, shares ? 0 : packed_bytes, std::move(p)});
    packed_bytes += bytes;
    return true;
  }
  bool cut(int64_t workers);
};

bool PreparedInnerProduct::Plan::cut(int64_t workers) {
  constexpr int64_t rows_worth_cutting = 64, row_grain = 16, column_grain = 64;
  // Few rows are as fast as the weights are read.
  bool few_weights = shape.k * shape.n * element_size(shape.dtype) < small_weights;
  bool tiny = shape.m * shape.k * shape.n < small_work && few_weights;
  int64_t parts = tiny ? 1 : workers;
  by_columns = parts > 1 && shape.m < rows_worth_cutting * workers;
  std::vector<int64_t> at =
      by_columns ? borders(shape.n, parts, column_grain) : borders(shape.m, parts, row_grain);
  for (size_t i = 0; i + 1 < at.size(); ++i) {
    int64_t length = at[i + 1] - at[i];
    Piece piece = by_columns ? Piece{0, shape.m, at[i], length} : Piece{at[i], length, 0, shape.n};
    if (!add(piece)) return false;
  }
  return true;
}

std::shared_ptr<const PreparedInnerProduct> PreparedInnerProduct::make(
    const InnerProductShape& shape, int64_t workers) {
  return unless_unsupported([&]() -> std::shared_ptr<const PreparedInnerProduct> {
    OneThread limit;
    auto plan = std::make_unique<Plan>();
    plan->shape = shape;
    if (!plan->cut(workers)) return nullptr;
    return std::shared_ptr<const PreparedInnerProduct>(new PreparedInnerProduct(std::move(plan)));
  });
}

PreparedInnerProduct::PreparedInnerProduct(std::unique_ptr<const Plan> plan)
    : plan_(std::move(plan)) {}
PreparedInnerProduct::~PreparedInnerProduct() = default;

size_t PreparedInnerProduct::packed_bytes() const { return plan_->packed_bytes; }
uint64_t PreparedInnerProduct::packed_layout() const { return plan_->layout; }
int64_t PreparedInnerProduct::slices() const { return static_cast<int64_t>(plan_->slices.size()); }
int64_t PreparedInnerProduct::pack_parts() const { return plan_->by_columns ? slices() : 1; }

PreparedInnerProduct::Piece PreparedInnerProduct::piece(int64_t slice) const {
  return plan_->slices[static_cast<size_t>(slice)].piece;
}

void PreparedInnerProduct::pack(const void* weights, int64_t n_stride, int64_t k_stride,
                                void* packed) const {
  for (int64_t part = 0; part < pack_parts(); ++part)
    pack_part(part, weights, n_stride, k_stride, packed);
}

void PreparedInnerProduct::pack_part(int64_t part, const void* weights, int64_t n_stride,
                                     int64_t k_stride, void* packed) const {
  OneThread limit;
  const InnerProductShape& shape = plan_->shape;
  const Slice& s = plan_->slices[static_cast<size_t>(part)];
  Desc plain({shape.k, s.piece.columns}, data_type(shape.dtype), Dims{k_stride, n_stride});
  Reorder(plain, s.primitive.weights)(at(weights, s.piece.column * n_stride, shape.dtype),
                                      static_cast<std::byte*>(packed) + s.packed);
}

void PreparedInnerProduct::run(int64_t slice, const void* source, const void* packed,
                               const void* bias, void* result) const {
  OneThread limit;
  const InnerProductShape& shape = plan_->shape;
  const Slice& s = plan_->slices[static_cast<size_t>(slice)];
  const Piece& p = s.piece;
  int32_t dtype = shape.dtype;
  Rows<void*> place{at(result, p.row * shape.n + p.column, dtype), shape.n}, to = place;
  if (p.columns != shape.n && p.rows > 1)
    to = {scratch(Scratch::result_tile, s.primitive.result.get_size()), p.columns};
  const void* weights = static_cast<const std::byte*>(packed) + s.packed;
  s.primitive.run({at(source, p.row * shape.k, dtype), weights,
                   shape.bias ? at(bias, p.column, dtype) : nullptr, to.data});
  copy_rows({to.data, to.step}, place, p.rows, p.columns, dtype);
}

}  // namespace onednn
