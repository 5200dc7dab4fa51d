// Views in which elements are repeated by a stride of 0, and ops that repeat data.
#include "ops/kernel_loops.h"
#include "ops/op.h"
#include "ops/shapes.h"
#include "ops/symbols_match.h"

#include <tenon/ops/copy.h>
#include <tenon/ops/view.h>

namespace tenon::ops {

namespace {

// ATen's rule also fixes the stride of new dimensions of size 1: that of a dense tensor.
ViewMeta expanded(const Tensor& self, SymIntList size, bool) {
  auto rank = static_cast<int64_t>(size.size()), missing = rank - self.dim();
  require(missing >= 0, "expand: shape {} has fewer dimensions than the tensor of shape {}", size,
          self.sizes());
  ViewMeta m{Dims(size.size()), Dims(size.size()), sym_offset_of(self)};
  for (int64_t i = rank - 1; i >= 0; --i) {
    auto at = static_cast<size_t>(i);
    bool is_new = i < missing;
    SymInt own = is_new ? SymInt(1) : self.size(i - missing);
    SymInt stride = !is_new         ? self.stride(i - missing)
                    : i == rank - 1 ? SymInt(1)
                                    : m.sizes[at + 1] * m.strides[at + 1];
    bool keeps = !size[at].is_symbolic() && size[at].word() == -1;
    require(!(keeps && is_new), "expand: -1 stands for a size that is there, in shape {} of {}",
            size, self.sizes());
    require(keeps || expect_true(size[at] >= 0), "expand: sizes must not be negative, found {}",
            size);
    m.sizes[at] = keeps ? own : size[at];
    keeps = keeps || symbols_match(own, size[at]);
    bool repeats = !keeps && is_one(own) && (size[at].is_symbolic() || !is_one(size[at]));
    require(keeps || repeats || sizes_match(own, size[at]),
            "expand: shape {} does not expand to {}: size {} of dimension {} is not 1",
            self.sizes(), size, own, i);
    m.strides[at] = repeats ? SymInt(0) : stride;
  }
  return m;
}

std::vector<Tensor> broadcast_all(TensorList tensors) {
  Dims sizes = broadcast_sizes({tensors.data(), tensors.size()});
  std::vector<Tensor> out;
  for (const Tensor& t : tensors) out.push_back(expand(t, list_of(sizes)));
  return out;
}

Dims repeated_sizes(const Tensor& self, SymIntList repeats) {
  require(static_cast<int64_t>(repeats.size()) >= self.dim(),
          "repeat: {} numbers for a tensor with {} dimensions", repeats.size(), self.dim());
  size_t missing = repeats.size() - static_cast<size_t>(self.dim());
  Dims sizes = dims_of(repeats);
  for (size_t i = missing; i < sizes.size(); ++i) sizes[i] = sizes[i] * self.sizes()[i - missing];
  return sizes;
}

// Each dimension of the result is seen as (repeat, size), into which self broadcasts.
void repeat_kernel(Tensor& out, const Tensor& self, IntList repeats) {
  size_t missing = repeats.size() - static_cast<size_t>(self.dim());
  Dims sizes, to, from;
  for (size_t i = 0; i < repeats.size(); ++i) {
    int64_t own = i < missing ? 1 : sizes_of(self)[i - missing];
    sizes.push_back(repeats[i]);
    to.push_back(own * strides_of(out)[i]);
    from.push_back(0);
    sizes.push_back(own);
    to.push_back(strides_of(out)[i]);
    from.push_back(i < missing ? 0 : strides_of(self)[i - missing]);
  }
  if (numel_of(out) == 0) return;
  copy_elements(make_view(out, list_of(sizes), list_of(to), out.storage_offset()),
                make_view(self, list_of(sizes), list_of(from), self.storage_offset()));
}

Tensor tiled(const Tensor& self, SymIntList dims) {
  Dims repeats = dims_of(dims);
  while (static_cast<int64_t>(repeats.size()) < self.dim()) repeats.insert(0, 1);
  return repeat(self, list_of(repeats));
}

std::vector<Tensor> mesh(TensorList tensors, std::string_view indexing) {
  require(indexing == "ij" || indexing == "xy", "meshgrid: indexing must be ij or xy, found '{}'",
          indexing);
  bool swap = indexing == "xy" && tensors.size() >= 2;
  std::vector<Tensor> parts = tensors.vec();
  if (swap) std::swap(parts[0], parts[1]);
  Dims sizes;
  for (const Tensor& t : parts) {
    require(t.dim() <= 1, "meshgrid: tensors must have at most one dimension, found {}", t.sizes());
    sizes.push_back(t.numel());
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    Dims own(parts.size(), SymInt(1));
    own[i] = sizes[i];
    parts[i] = expand(view(parts[i], list_of(own)), list_of(sizes));
  }
  if (swap) std::swap(parts[0], parts[1]);
  return parts;
}

}  // namespace

namespace {

Tensor repeat_vjp(const Tensor& g, SymIntList sizes, SymIntList repeats) {
  Dims split;
  InlineVector<int64_t, 6> repeated;
  size_t added = repeats.size() - sizes.size();
  for (size_t d = 0; d < repeats.size(); ++d) {
    repeated.push_back(static_cast<int64_t>(split.size()));
    split.push_back(repeats[d]);
    if (d >= added) split.push_back(sizes[d - added]);
  }
  if (repeated.empty()) return g;
  return g.reshape(list_of(split)).sum(IntList(repeated.data(), repeated.size()));
}

}  // namespace

static constexpr OpDef view_expand_rows[] = {
    {.schema = "expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)",
     .core = true,
     .view = fn<expanded>,
     .inverse = Without{"shows an element more than once"},
     .vjp = {{"self", "grad, self.sizes",
              [](const Tensor& g, SymIntList sizes) { return g.sum_to_size(sizes); }}}},
    {.schema = "expand_copy(Tensor self, SymInt[] size, *, bool implicit=False) -> Tensor",
     .decomp = [](const Tensor& self, SymIntList size,
                  bool) { return clone(expand(self, size), MemoryFormat::contiguous); },
     .linear = "self"},
    {.schema = "expand_as(Tensor(a) self, Tensor other) -> Tensor(a)",
     .inverse = Without{"shows an element more than once"},
     .decomp = [](const Tensor& self, const Tensor& other) { return expand(self, other.sizes()); }},
    {.schema = "broadcast_to(Tensor(a) self, SymInt[] size) -> Tensor(a)",
     .inverse = Without{"shows an element more than once"},
     .decomp = [](const Tensor& self, SymIntList size) { return expand(self, size); }},
    {.schema = "broadcast_tensors(Tensor[] tensors) -> Tensor[]", .decomp = fn<broadcast_all>},
    {.schema = "repeat(Tensor self, SymInt[] repeats) -> Tensor",
     .core = true,
     .meta =
         [](const Tensor& self, SymIntList repeats) {
           return contiguous_meta(list_of(repeated_sizes(self, repeats)), self.dtype(),
                                  self.device());
         },
     .eager = fn<repeat_kernel>,
     .vjp = {{"self", "grad, self.sizes, repeats", fn<repeat_vjp>}},
     .linear = "self"},
    {.schema = "tile(Tensor self, SymInt[] dims) -> Tensor", .decomp = fn<tiled>},
    {.schema = "meshgrid(Tensor[] tensors) -> Tensor[]",
     .decomp = [](TensorList tensors) { return mesh(tensors, "ij"); }},
    {.schema = "meshgrid.indexing(Tensor[] tensors, *, str indexing) -> Tensor[]",
     .decomp = fn<mesh>},
};

extern constinit const OpFamily op_family_view_expand{view_expand_rows};

}  // namespace tenon::ops
