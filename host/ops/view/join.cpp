// Tensors put side by side: cat, stack and their named directions.
#include "core/sym/sym_int.h"
#include "ops/kernel_loops.h"
#include "ops/op.h"
#include "ops/promotion.h"
#include "ops/shapes.h"

#include <tenon/ops/nn.h>
#include <tenon/ops/view.h>

namespace tenon::ops {

namespace {

// Vectors without elements are left out, whatever the shape of the others (an old rule of torch).
bool is_left_out(const Tensor& t) {
  return t.dim() == 1 && !t.size(0).is_symbolic() && t.size(0).word() == 0;
}

// channels_last only where all parts are.
MemoryFormat joint_format(TensorList tensors) {
  MemoryFormat format = suggest_memory_format(tensors[0]);
  for (const Tensor& t : tensors)
    if (suggest_memory_format(t) != format) return MemoryFormat::contiguous;
  return format;
}

const Tensor& first_that_counts(TensorList tensors) {
  require(!tensors.empty(), "cat: at least one tensor is expected");
  for (const Tensor& t : tensors) {
    require(t.dim() > 0, "cat: a tensor without dimensions cannot be joined; use stack");
    if (!is_left_out(t)) return t;
  }
  return tensors[0];
}

TensorMeta cat_meta(TensorList tensors, int64_t dim) {
  const Tensor& first = first_that_counts(tensors);
  Promotion promotion;
  promotion.add(tensors);
  auto at = static_cast<size_t>(wrap_dim(dim, first.dim()));
  Dims sizes = dims_of(first.sizes());
  sizes[at] = 0;
  for (const Tensor& t : tensors) {
    if (is_left_out(t)) continue;
    require(t.dim() == first.dim(), "cat: shapes {} and {} have different numbers of dimensions",
            first.sizes(), t.sizes());
    for (size_t i = 0; i < sizes.size(); ++i)
      require(i == at || sizes_match(sizes[i], t.sizes()[i]),
              "cat: shapes {} and {} differ beside dimension {}", first.sizes(), t.sizes(), at);
    sizes[at] = sizes[at] + t.sizes()[at];
  }
  Dims strides = strides_for(list_of(sizes), joint_format(tensors));
  return {promotion.result(), first.device(), std::move(sizes), std::move(strides)};
}

void cat_kernel(Tensor& out, TensorList tensors, int64_t dim) {
  auto at = static_cast<size_t>(wrap_dim(dim, out.dim()));
  int64_t start = 0;
  for (const Tensor& t : tensors) {
    if (numel_of(t) == 0) {
      start += is_left_out(t) ? 0 : sizes_of(t)[at];
      continue;
    }
    copy_elements(make_view(out, t.sizes(), out.strides(),
                            out.storage_offset() + start * strides_of(out)[at]),
                  t);
    start += sizes_of(t)[at];
  }
}

int64_t stack_dim(TensorList tensors, int64_t dim) {
  require(!tensors.empty(), "stack: at least one tensor is expected");
  for (const Tensor& t : tensors) {
    bool same = t.dim() == tensors[0].dim();
    for (size_t i = 0; same && i < t.sizes().size(); ++i)
      same = sizes_match(t.sizes()[i], tensors[0].sizes()[i]);
    require(same, "stack: all shapes must be equal, found {} and {}", tensors[0].sizes(),
            t.sizes());
  }
  return wrap_dim(dim, tensors[0].dim() + 1);
}

Tensor stacked(TensorList tensors, int64_t dim) {
  int64_t at = stack_dim(tensors, dim);
  std::vector<Tensor> parts;
  for (const Tensor& t : tensors) parts.push_back(unsqueeze(t, at));
  return cat(parts, at);
}

Tensor joined_columns(TensorList tensors) {
  std::vector<Tensor> parts;
  for (const Tensor& t : tensors) parts.push_back(t.dim() <= 1 ? reshape(t, {t.numel(), 1}) : t);
  return cat(parts, 1);
}

// As long as the longest one.
Tensor padded_sequences(TensorList sequences, bool batch_first, double value,
                        std::string_view side) {
  require(!sequences.empty(), "pad_sequence: at least one sequence is expected");
  require(side == "left" || side == "right",
          "pad_sequence: padding_side must be left or right, found {}", side);
  SymInt longest = 0;
  for (const Tensor& t : sequences) {
    require(t.dim() > 0, "pad_sequence: a tensor without dimensions is not a sequence");
    longest = sym_max(longest, t.size(0));
  }
  std::vector<Tensor> parts;
  for (const Tensor& t : sequences) {
    Dims pad(static_cast<size_t>(2 * t.dim()), SymInt(0));
    pad[pad.size() - (side == "left" ? 2 : 1)] = longest - t.size(0);
    parts.push_back(constant_pad_nd(t, list_of(pad), value));
  }
  return stack(parts, batch_first ? 0 : 1);
}

}  // namespace

namespace {

std::vector<Tensor> cat_vjp(const Tensor& g, TensorList parts, int64_t dim) {
  std::vector<Tensor> out;
  SymInt start = 0;
  for (const Tensor& part : parts) {
    // An empty tensor of one dimension joins anything.
    bool skipped = part.dim() == 1 && g.dim() != 1;
    if (skipped) {
      out.push_back(g.new_zeros(part.sizes()));
      continue;
    }
    SymInt length = part.size(dim);
    out.push_back(g.narrow(dim, start, length));
    start = start + length;
  }
  return out;
}

}  // namespace

static constexpr OpDef view_join_rows[] = {
    {.schema = "cat(Tensor[] tensors, int dim=0) -> Tensor",
     .core = true,
     .meta = fn<cat_meta>,
     .eager = fn<cat_kernel>,
     .vjp = {{"tensors", "grad, tensors.meta, dim", fn<cat_vjp>}},
     .linear = "tensors",
     .autocast = Autocast::promote},
    {.schema = "concat(Tensor[] tensors, int dim=0) -> Tensor",
     .decomp = [](TensorList tensors, int64_t dim) { return cat(tensors, dim); }},
    {.schema = "concatenate(Tensor[] tensors, int dim=0) -> Tensor",
     .decomp = [](TensorList tensors, int64_t dim) { return cat(tensors, dim); }},
    {.schema = "stack(Tensor[] tensors, int dim=0) -> Tensor",
     .decomp = fn<stacked>,
     .linear = "tensors",
     .autocast = Autocast::promote},
    {.schema = "hstack(Tensor[] tensors) -> Tensor",
     .decomp =
         [](TensorList tensors) {
           std::vector<Tensor> parts = atleast_1d(tensors);
           require(!parts.empty(), "hstack: at least one tensor is expected");
           return cat(parts, parts[0].dim() == 1 ? 0 : 1);
         }},
    {.schema = "vstack(Tensor[] tensors) -> Tensor",
     .decomp = [](TensorList tensors) { return cat(atleast_2d(tensors), 0); }},
    {.schema = "row_stack(Tensor[] tensors) -> Tensor",
     .decomp = [](TensorList tensors) { return vstack(tensors); }},
    {.schema = "pad_sequence(Tensor[] sequences, bool batch_first=False, float padding_value=0., "
               "str padding_side=\"right\") -> Tensor",
     .decomp = fn<padded_sequences>},
    {.schema = "dstack(Tensor[] tensors) -> Tensor",
     .decomp = [](TensorList tensors) { return cat(atleast_3d(tensors), 2); }},
    {.schema = "column_stack(Tensor[] tensors) -> Tensor", .decomp = fn<joined_columns>},
};

extern constinit const OpFamily op_family_view_join{view_join_rows};

}  // namespace tenon::ops
