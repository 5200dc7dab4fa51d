// Products of groups of rows with a matrix each, as mixtures of experts compute them.
#include "core/sym/sym_int.h"
#include "ops/kernel_loops.h"
#include "ops/op.h"
#include "ops/shapes.h"

#include <tenon/ops/copy.h>
#include <tenon/ops/create.h>
#include <tenon/ops/linalg.h>
#include <tenon/ops/view.h>

namespace tenon::ops {

namespace {

// Group g of the grouped dimension is [offs[g - 1], offs[g]): of the rows of a 2-d left side, of the
// columns of a 2-d right side, of what is summed over where both are 2-d.
enum class Grouped { rows, columns, inner, batch };

Grouped kind_of(const Tensor& a, const Tensor& b) {
  if (a.dim() == 2) return b.dim() == 2 ? Grouped::inner : Grouped::rows;
  return b.dim() == 2 ? Grouped::columns : Grouped::batch;
}

using Type = std::optional<Dtype>;

TensorMeta grouped_meta(const Tensor& a, const Tensor& b, const Tensor& offs, const Tensor& bias,
                        Type dtype) {
  constexpr const char* op = "_grouped_mm";
  auto is_fit = [](const Tensor& t) { return t.dim() == 2 || t.dim() == 3; };
  require(is_fit(a) && is_fit(b) && a.dtype() == b.dtype() && is_floating(a.dtype()),
          "{}: two floating matrices or batches of them are expected, found {} and {}", op, a, b);
  require(!bias.defined(), ErrorCode::unsupported, "{}: bias is not supported; add it", op);
  require(sizes_match(a.size(-1), b.size(-2)), "{}: shapes {} and {} do not fit", op, a.sizes(),
          b.sizes());
  Grouped kind = kind_of(a, b);
  require(offs.defined() == (kind != Grouped::batch), "{}: offs is for groups in a 2-d side", op);
  if (offs.defined())
    require(offs.dim() == 1 && offs.dtype() == Dtype::i32,
            "{}: offs must be a vector of int32, found {}", op, offs);
  SymInt groups = kind == Grouped::rows ? b.size(0) : a.dim() == 3 ? a.size(0) : offs.size(0);
  if (offs.defined())
    require(sizes_match(offs.size(0), groups), "{}: {} groups need as many offs, found {}", op,
            groups, offs.size(0));
  if (kind == Grouped::batch)
    require(sizes_match(a.size(0), b.size(0)), "{}: shapes {} and {} do not fit", op, a.sizes(),
            b.sizes());
  Dims sizes;
  if (kind == Grouped::inner || kind == Grouped::batch) sizes.push_back(groups);
  sizes.push_back(a.size(-2));
  sizes.push_back(b.size(-1));
  return contiguous_meta(list_of(sizes), dtype.value_or(a.dtype()), a.device());
}

void check_ends(const std::vector<int64_t>& ends, int64_t size) {
  int64_t before = 0;
  for (int64_t end : ends) {
    require(end >= before && end <= size,
            "_grouped_mm: offs must grow and end at {} at most, found {} after {}", size, end,
            before);
    before = end;
  }
}

void grouped_kernel(Tensor& out, const Tensor& a, const Tensor& b, const Tensor& offs,
                    const Tensor&, Type) {
  Grouped kind = kind_of(a, b);
  if (kind == Grouped::batch) return copy_elements(out, bmm(a, b));
  std::vector<int64_t> ends = to(offs, Dtype::i64).to_vector<int64_t>();
  check_ends(ends, kind == Grouped::columns ? b.size(-1) : a.size(kind == Grouped::rows ? 0 : 1));
  zero_(out);
  for (int64_t g = 0, from = 0; g < static_cast<int64_t>(ends.size()); from = ends[g++]) {
    int64_t n = ends[static_cast<size_t>(g)] - from;
    if (n == 0) continue;
    if (kind == Grouped::rows)
      copy_elements(narrow(out, 0, from, n), mm(narrow(a, 0, from, n), select(b, 0, g)));
    else if (kind == Grouped::columns)
      copy_elements(narrow(out, 1, from, n), mm(select(a, 0, g), narrow(b, 1, from, n)));
    else
      copy_elements(select(out, 0, g), mm(narrow(a, 1, from, n), narrow(b, 0, from, n)));
  }
}

Tensor turned(const Tensor& t) { return transpose(t, -1, -2); }

}  // namespace

static constexpr OpDef linalg_grouped_rows[] = {
    {.schema = "_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, "
               "ScalarType? out_dtype=None) -> Tensor",
     .tags = OpTags::matmul,
     .meta = fn<grouped_meta>,
     .eager = fn<grouped_kernel>,
     .vjp = {{"self", "grad, mat2, offs",
              [](const Tensor& g, const Tensor& b, const Tensor& offs) {
                return _grouped_mm(g.to(b.dtype()), turned(b), offs);
              }},
             {"mat2", "grad, self, offs",
              [](const Tensor& g, const Tensor& a, const Tensor& offs) {
                return _grouped_mm(turned(a), g.to(a.dtype()), offs);
              }}},
     .linear = "self * mat2"},
    // What Transformers calls where PyTorch has no grouped product: exported models hold it.
    {.schema = "transformers::grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs) -> "
               "Tensor",
     .decomp = [](const Tensor& input, const Tensor& weight,
                  const Tensor& offs) { return _grouped_mm(input, weight, to(offs, Dtype::i32)); }},
};

extern constinit const OpFamily op_family_linalg_grouped{linalg_grouped_rows};

}  // namespace tenon::ops
