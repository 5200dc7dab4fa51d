// Distinct slices along a dimension: unique_dim, unique_dim_consecutive.
//
// Method: the dimension is moved to the front, so that slices are rows; row numbers are sorted by
//   their rows' elements (or left in order), and equal neighbours become one.
#include "ops/kernel_loops.h"
#include "ops/op.h"
#include "ops/shapes.h"

#include "core/sym/shape_env.h"
#include "core/sym/sym_int.h"

#include <tenon/ops/index.h>
#include <tenon/ops/view.h>

#include <algorithm>
#include <numeric>

namespace tenon::ops {

namespace {

void check_rows(const Tensor& self) {
  require(self.dim() > 0,
          "unique_dim: a tensor with dimensions is expected, found shape []; leave the dimension "
          "out");
}

std::array<TensorMeta, 3> rows_metas(const Tensor& self, int64_t dim) {
  check_rows(self);
  ShapeEnv* env = current_shape_env();
  require(env, ErrorCode::data_dependent,
          "unique_dim: the size of the result is known at run time only");
  SymInt count = env->create_unbacked(Range::at_least(0));
  env->mark_size_like(count);
  auto at = static_cast<size_t>(wrap_dim(dim, self.dim()));
  Dims moved{count}, sizes = dims_of(self.sizes()), strides;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (d != at) moved.push_back(sizes[d]);
  Dims dense = contiguous_strides(list_of(moved));
  for (size_t d = 0; d < sizes.size(); ++d)
    strides.push_back(d == at ? dense[0] : dense[d < at ? d + 1 : d]);
  sizes[at] = count;
  return {TensorMeta{self.dtype(), self.device(), std::move(sizes), std::move(strides)},
          contiguous_meta({self.size(dim)}, Dtype::i64, self.device()),
          contiguous_meta({count}, Dtype::i64, self.device())};
}

struct RowGroups {
  std::vector<int64_t> first, count, inverse;
};

template <class T>
RowGroups group_rows(const T* data, int64_t n, int64_t width, bool sorted) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  auto row = [&](int64_t i) { return data + i * width; };
  auto below = [&](int64_t a, int64_t b) {
    return std::lexicographical_compare(
        row(a), row(a) + width, row(b), row(b) + width, [](T x_, T y_) {
          auto x = static_cast<ComputeOf<T>>(x_), y = static_cast<ComputeOf<T>>(y_);
          return is_nan(x) || is_nan(y) ? !is_nan(x) && is_nan(y)
                                        : x < y;  // NaN last, for an order of all
        });
  };
  auto equal = [&](int64_t a, int64_t b) {
    return std::equal(row(a), row(a) + width, row(b), [](T x, T y) {
      return static_cast<ComputeOf<T>>(x) == static_cast<ComputeOf<T>>(y);
    });
  };
  if (sorted)
    std::sort(order.begin(), order.end(),
              [&](int64_t a, int64_t b) { return below(a, b) || (!below(b, a) && a < b); });
  RowGroups groups;
  groups.inverse.resize(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || !equal(order[i - 1], order[i])) {
      groups.first.push_back(order[i]);
      groups.count.push_back(0);
    }
    ++groups.count.back();
    groups.inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(groups.first.size()) - 1;
  }
  return groups;
}

Tensor as_tensor(const std::vector<int64_t>& values) {
  Tensor t = make_tensor(IntList{static_cast<int64_t>(values.size())}, Dtype::i64);
  std::copy(values.begin(), values.end(), data_of<int64_t>(t));
  return t;
}

std::tuple<Tensor, Tensor, Tensor> unique_rows(const Tensor& self, int64_t dim, bool sorted) {
  check_rows(self);
  Tensor rows = contiguous_of(movedim(self, dim, 0));
  int64_t n = sizes_of(rows)[0], width = n ? numel_of(rows) / n : 0;
  RowGroups groups = dispatch_dtype(self.dtype(), "unique_dim", [&]<class T>() {
    return group_rows<T>(data_of<T>(rows), n, width, sorted);
  });
  Tensor values = index_select(rows, 0, as_tensor(groups.first));
  return {movedim(values, 0, dim), as_tensor(groups.inverse), as_tensor(groups.count)};
}

}  // namespace

static constexpr OpDef index_unique_rows_rows[] = {
    {.schema = "unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, bool "
               "return_counts=False) -> (Tensor, Tensor, Tensor)",
     .tags = OpTags::data_dependent,
     .meta = [](const Tensor& self, int64_t dim, bool, bool,
                bool) { return rows_metas(self, dim); },
     .eager = [](const Tensor& self, int64_t dim, bool, bool,
                 bool) { return unique_rows(self, dim, true); },
     .vjp = nondiff},
    {.schema = "unique_dim_consecutive(Tensor self, int dim, bool return_inverse=False, bool "
               "return_counts=False) -> (Tensor, Tensor, Tensor)",
     .tags = OpTags::data_dependent,
     .meta = [](const Tensor& self, int64_t dim, bool, bool) { return rows_metas(self, dim); },
     .eager = [](const Tensor& self, int64_t dim, bool,
                 bool) { return unique_rows(self, dim, false); },
     .vjp = nondiff},
};

extern constinit const OpFamily op_family_index_unique_rows{index_unique_rows_rows};

}  // namespace tenon::ops
