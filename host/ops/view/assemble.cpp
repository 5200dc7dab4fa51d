// Tensors assembled from others: block_diag, cartesian_prod, combinations, vander, _chunk_cat; and
// complex numbers from their parts.
#include "core/sym/sym_int.h"
#include "ops/kernel_loops.h"
#include "ops/op.h"
#include "ops/promotion.h"
#include "ops/shapes.h"

#include <tenon/ops/copy.h>
#include <tenon/ops/create.h>
#include <tenon/ops/index.h>
#include <tenon/ops/nn.h>
#include <tenon/ops/pointwise.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/view.h>

#include <algorithm>
#include <numeric>

namespace tenon::ops {

namespace {

// Each block becomes a band of rows, padded left and right to the full width.
Tensor block_diag_decomp(TensorList tensors) {
  Promotion promotion;
  promotion.add(tensors);
  if (tensors.empty()) return zeros({1, 0}, Dtype::f32);
  std::vector<Tensor> blocks;
  SymInt width = 0, left = 0;
  for (const Tensor& t : tensors) {
    require(t.dim() <= 2, "block_diag: tensors of at most two dimensions are expected, found {}",
            t.sizes());
    Tensor block = to(t.dim() == 2 ? t : reshape(t, {SymInt(1), t.numel()}), promotion.result());
    width = width + block.size(1);
    blocks.push_back(block);
  }
  for (Tensor& block : blocks) {
    SymInt own = block.size(1);
    block = constant_pad_nd(block, {left, width - left - own}, 0);
    left = left + own;
  }
  return cat(blocks, 0);
}

Tensor cartesian_prod_decomp(TensorList tensors) {
  for (const Tensor& t : tensors)
    require(t.dim() == 1, "cartesian_prod: vectors are expected, found shape {}", t.sizes());
  if (tensors.size() == 1) return tensors[0];
  std::vector<Tensor> grids = meshgrid(tensors, "ij");
  for (Tensor& g : grids) g = flatten(g);
  return stack(grids, 1);
}

// Powers 0 to N - 1 (or down from it) of each element, by repeated multiplication.
// 1, x, ..., x^(n - 1) in a last dimension of its own.
Tensor powers_of(const Tensor& x, SymInt n) {
  bool whole = is_integral(x.dtype()) || x.dtype() == Dtype::bool_;
  Tensor base = unsqueeze(whole ? to(x, Dtype::i64) : x, -1);
  Dims sizes = dims_of(x.sizes());
  sizes.push_back(n - 1);
  return cat({ones_like(base), cumprod(expand(base, list_of(sizes)), -1)}, -1);
}

Tensor vander_decomp(const Tensor& x, std::optional<int64_t> count, bool increasing) {
  require(x.dim() == 1, "vander: a vector is expected, found shape {}", x.sizes());
  SymInt n = count ? SymInt(*count) : x.size(0);
  std::optional<bool> is_empty = decided(n == 0);
  if (is_empty.value_or(false)) return narrow(powers_of(x, 1), -1, 0, 0);
  Tensor powers = powers_of(x, is_empty ? n : sym_max(n, 1));
  if (!is_empty) powers = slice(powers, -1, SymInt(0), n);
  return increasing ? powers : flip(powers, {-1});
}

// ---- combinations

int64_t number_of_combinations(int64_t n, int64_t r, bool repeats) {
  if (repeats) n = (SymInt(n) + r - 1).guard_int();
  if (r > n) return 0;
  // Of the smaller part, so that the number at least doubles with each step: a loop without bound
  // ends in the error about sizes.
  int64_t k = std::min(r, n - r), count = 1;
  for (int64_t i = 1; i <= k; ++i) count = (SymInt(count) * (n - k + i)).guard_int() / i;
  return count;
}

TensorMeta combinations_meta(const Tensor& self, int64_t r, bool repeats) {
  require(self.dim() == 1, "combinations: a vector is expected, found shape {}", self.sizes());
  require(r >= 0, "combinations: r must not be negative, found {}", r);
  if (r == 0) return contiguous_meta({SymInt(0)}, self.dtype(), self.device());
  return contiguous_meta(
      {SymInt(number_of_combinations(self.size(0).guard_int(), r, repeats)), SymInt(r)},
      self.dtype(), self.device());
}

// Index tuples in lexicographic order.
void combinations_kernel(Tensor& out, const Tensor& self, int64_t r, bool repeats) {
  if (numel_of(out) == 0) return;
  Tensor in = contiguous_of(self);
  int64_t n = numel_of(in), rows = sizes_of(out)[0];
  std::vector<int64_t> at(static_cast<size_t>(r), 0);
  if (!repeats) std::iota(at.begin(), at.end(), int64_t{0});
  dispatch_itemsize(self.dtype(), [&]<class T>() {
    T* to = data_of<T>(out);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t i : at) *to++ = data_of<T>(in)[i];
      int64_t k = r - 1;
      while (k > 0 && at[static_cast<size_t>(k)] == (repeats ? n - 1 : n - r + k)) --k;
      ++at[static_cast<size_t>(k)];
      for (auto i = static_cast<size_t>(k) + 1; i < at.size(); ++i)
        at[i] = at[i - 1] + (repeats ? 0 : 1);
    }
  });
}

Tensor combinations_vjp(const Tensor& g, SymIntList sizes, int64_t r, bool repeats) {
  Tensor places =
      arange(Number(sizes[0]), Dtype::i64, std::nullopt, g.device()).combinations(r, repeats);
  return g.new_zeros(sizes).index_add(0, places.reshape({-1}), g.reshape({-1}));
}

// ---- _chunk_cat

// Each tensor is padded along `dim` to a multiple of the chunks, folded from there on, and joined.
Tensor chunk_cat_decomp(TensorList tensors, int64_t dim, int64_t num_chunks) {
  require(!tensors.empty() && num_chunks > 0,
          "_chunk_cat: at least one tensor and one chunk are expected");
  std::vector<Tensor> parts;
  for (const Tensor& t : tensors) {
    int64_t at = wrap_dim(dim, t.dim());
    SymInt size = t.size(at), chunk = (size + (num_chunks - 1)) / num_chunks;
    std::vector<SymInt> pad(2 * static_cast<size_t>(t.dim() - at), SymInt(0));
    pad.back() = chunk * num_chunks - size;
    Dims sizes = dims_of(sizes_before(t, static_cast<size_t>(t.dim() - at)));
    sizes.push_back(num_chunks);
    sizes.push_back(-1);
    parts.push_back(reshape(constant_pad_nd(t, List<SymInt>(pad), 0), list_of(sizes)));
  }
  return cat(parts, dim < 0 ? -1 : dim + 1);
}

// ---- complex numbers

Tensor complex_decomp(const Tensor& real, const Tensor& imag) {
  require(real.dtype() == imag.dtype() && is_floating(real.dtype()),
          "complex: real and imag need one floating dtype, found {} and {}", real.dtype(),
          imag.dtype());
  // The parts may lie in any order; the pairs must lie side by side.
  return view_as_complex(
      stack(broadcast_tensors(std::vector<Tensor>{real, imag}), -1).contiguous());
}

Tensor angle_decomp(const Tensor& self) {
  if (is_complex(self.dtype())) {
    // The angle of 0 has no gradient: its own formula would give one that is not a number.
    Tensor re = real(self), im = imag(self);
    Tensor is_zero = logical_and(eq(re, 0), eq(im, 0));
    return where(is_zero, atan2(detach(im), detach(re)), atan2(im, masked_fill(re, is_zero, 1)));
  }
  Tensor x = is_floating(self.dtype()) ? self : to(self, Dtype::f32);
  Tensor half_turn = mul(to(lt(x, 0), x.dtype()), 3.14159265358979323846);
  return where(ne(x, x), x, half_turn);
}

}  // namespace

static constexpr OpDef view_assemble_rows[] = {
    {.schema = "block_diag(Tensor[] tensors) -> Tensor", .decomp = fn<block_diag_decomp>},
    {.schema = "cartesian_prod(Tensor[] tensors) -> Tensor",
     .tags = OpTags::maybe_alias,
     .decomp = fn<cartesian_prod_decomp>},
    {.schema = "vander(Tensor x, int? N=None, bool increasing=False) -> Tensor",
     .decomp = fn<vander_decomp>},
    {.schema = "linalg_vander(Tensor x, *, SymInt? N=None) -> Tensor",
     .decomp =
         [](const Tensor& given, std::optional<SymInt> count) {
           Tensor x = given.dim() ? given : unsqueeze(given, 0);
           SymInt n = count ? *count : x.size(-1);
           require(expect_true(n > 1), "linalg_vander: N must be greater than 1, found {}", n);
           return powers_of(x, n);
         }},
    {.schema = "combinations(Tensor self, int r=2, bool with_replacement=False) -> Tensor",
     .meta = fn<combinations_meta>,
     .eager = fn<combinations_kernel>,
     .vjp = {{"self", "grad, self.sizes, r, with_replacement", fn<combinations_vjp>}},
     .linear = "self"},
    {.schema = "_chunk_cat(Tensor[] tensors, int dim, int num_chunks) -> Tensor",
     .decomp = fn<chunk_cat_decomp>},
    {.schema = "complex(Tensor real, Tensor imag) -> Tensor", .decomp = fn<complex_decomp>},
    {.schema = "polar(Tensor abs, Tensor angle) -> Tensor",
     .decomp =
         [](const Tensor& length, const Tensor& angle) {
           return complex(mul(length, cos(angle)), mul(length, sin(angle)));
         },
     .autocast = Autocast::fp32},
    {.schema = "angle(Tensor self) -> Tensor", .decomp = fn<angle_decomp>},
};

extern constinit const OpFamily op_family_view_assemble{view_assemble_rows};

}  // namespace tenon::ops
