// Order along a dimension: sort, topk, kthvalue, median, mode.
//
// NaN counts as larger than every number, as in ATen. Sorts are stable; topk and mode are not. A
// line is copied into (value, index) pairs, ordered there and written back.
#include "ops/op.h"
#include "ops/reduce/reduce_loop.h"

#include "core/sym_int.h"
#include "ops/vjp_rules.h"

#include <tenon/ops.h>

#include <algorithm>

namespace tenon::ops {

namespace {

template <class T>
struct Entry {
  T value;
  int64_t index;
};

template <class T>
bool is_less(T a, T b) {
  if (is_nan(a)) return false;
  return is_nan(b) || static_cast<ComputeOf<T>>(a) < static_cast<ComputeOf<T>>(b);
}

// Equal values keep their places.
template <class T>
void order(std::vector<Entry<T>>& line, bool descending) {
  std::sort(line.begin(), line.end(), [descending](const Entry<T>& a, const Entry<T>& b) {
    bool before = descending ? is_less(b.value, a.value) : is_less(a.value, b.value);
    bool after = descending ? is_less(a.value, b.value) : is_less(b.value, a.value);
    return before || (!after && a.index < b.index);
  });
}

// Calls `body(line)` for each line of `self` along `dim`, then writes the entries that it leaves in
// the line to `values` and `indices`. `keepdim` tells whether these have the dimension.
template <class T, class F>
void for_each_line_of(const Tensor& self, int64_t dim, const Tensor& values, const Tensor& indices,
                      const F& body) {
  auto at = static_cast<size_t>(wrap_dim(dim, self.dim()));
  bool keeps = values.dim() == self.dim() && self.dim() > 0;
  Walk<3> walk;
  for (size_t d = 0, next = 0; d < sizes_of(self).size(); ++d, ++next) {
    if (d != at)
      walk.add(sizes_of(self)[d],
               {strides_of(self)[d], strides_of(values)[next], strides_of(indices)[next]});
    else if (!keeps)
      --next;
  }
  int64_t n = self.dim() ? sizes_of(self)[at] : 1, step = self.dim() ? strides_of(self)[at] : 0;
  int64_t value_step = keeps ? strides_of(values)[at] : 0,
          index_step = keeps ? strides_of(indices)[at] : 0;
  std::vector<Entry<T>> line;
  for_each_offset(walk, [&](const Offsets<3>& o) {
    line.resize(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i)
      line[static_cast<size_t>(i)] = {data_of<T>(self)[o[0] + i * step], i};
    body(line);
    for (size_t i = 0; i < line.size(); ++i) {
      auto k = static_cast<int64_t>(i);
      data_of<T>(values)[o[1] + k * value_step] = line[i].value;
      data_of<int64_t>(indices)[o[2] + k * index_step] = line[i].index;
    }
  });
}

std::array<TensorMeta, 2> sort_meta(const Tensor& self, int64_t dim) {
  wrap_dim(dim, self.dim());
  TensorMeta values = like(self), indices = values;
  indices.dtype = Dtype::i64;
  return {values, indices};
}

void sort_kernel(Tensor& values, Tensor& indices, const Tensor& self, int64_t dim,
                 bool descending) {
  if (numel_of(self) == 0) return;
  dispatch_dtype(self.dtype(), "sort", [&]<class T>() {
    for_each_line_of<T>(self, dim, values, indices,
                        [&](std::vector<Entry<T>>& line) { order(line, descending); });
  });
}

std::array<TensorMeta, 2> topk_meta(const Tensor& self, SymInt k, int64_t dim, bool, bool) {
  auto at = static_cast<size_t>(wrap_dim(dim, self.dim()));
  require(expect_true(k >= 0) && expect_true(k <= (self.dim() ? self.size(dim) : SymInt(1))),
          "topk: k = {} is out of range for dimension {} of shape {}", k, dim, self.sizes());
  Dims sizes = dims_of(self.sizes());
  if (self.dim()) sizes[at] = k;
  TensorMeta values = contiguous_meta(list_of(sizes), self.dtype(), self.device()),
             indices = values;
  indices.dtype = Dtype::i64;
  return {values, indices};
}

// Leaves the first k of the order. Among equal values those that ATen takes: the algorithms of the
// standard library are chosen as it chooses them.
template <class T>
void keep_first(std::vector<Entry<T>>& line, size_t k, bool largest) {
  auto before = [largest](const Entry<T>& a, const Entry<T>& b) {
    return largest ? is_less(b.value, a.value) : is_less(a.value, b.value);
  };
  auto first = line.begin(), last = line.begin() + static_cast<ptrdiff_t>(k);
  if (k * 64 <= line.size()) {
    std::partial_sort(first, last, line.end(), before);
  } else {
    std::nth_element(first, last - 1, line.end(), before);
    std::sort(first, last - 1, before);
  }
  line.resize(k);
}

void topk_kernel(Tensor& values, Tensor& indices, const Tensor& self, SymInt k, int64_t dim,
                 bool largest, bool) {
  if (numel_of(values) == 0) return;
  auto n = static_cast<size_t>(k.guard_int());
  dispatch_dtype(self.dtype(), "topk", [&]<class T>() {
    for_each_line_of<T>(self, dim, values, indices,
                        [&](std::vector<Entry<T>>& line) { keep_first(line, n, largest); });
  });
}

// ---- one element of a line

std::array<TensorMeta, 2> chosen_meta(const char* op, const Tensor& self, int64_t dim,
                                      bool keepdim) {
  uint64_t mask = mask_of_dim(self, dim);
  require(self.dim() == 0 || !guard_or_false(self.size(dim) == 0),
          "{}: dimension {} of shape {} is empty", op, dim, self.sizes());
  TensorMeta values = reduced_meta(self, mask, keepdim, self.dtype()), indices = values;
  indices.dtype = Dtype::i64;
  return {values, indices};
}

template <class F>
void choose(const char* op, const Tensor& self, int64_t dim, Tensor& values, Tensor& indices,
            const F& pick) {
  dispatch_dtype(self.dtype(), op, [&]<class T>() {
    for_each_line_of<T>(self, dim, values, indices, [&](std::vector<Entry<T>>& line) {
      Entry<T> one = pick(line);
      line.assign(1, one);
    });
  });
}

constexpr auto kthvalue_kernel = [](Tensor& values, Tensor& indices, const Tensor& self, SymInt k,
                                    int64_t dim, bool) {
  int64_t n = self.dim() ? self.size(dim).guard_int() : 1, rank = k.guard_int();
  require(rank >= 1 && rank <= n, "kthvalue: k = {} is out of range for a dimension of size {}",
          rank, n);
  choose("kthvalue", self, dim, values, indices, [&](auto& line) {
    order(line, false);
    return line[static_cast<size_t>(rank - 1)];
  });
};

// The lower of two middle elements. A NaN in the line is the median itself, unless they are
// ignored.
template <bool ignores_nan>
constexpr auto median_pick = [](auto& line) {
  auto first_nan =
      std::find_if(line.begin(), line.end(), [](const auto& e) { return is_nan(e.value); });
  if (!ignores_nan && first_nan != line.end()) return *first_nan;
  order(line, false);
  auto n = static_cast<size_t>(
      std::count_if(line.begin(), line.end(), [](const auto& e) { return !is_nan(e.value); }));
  return line[n ? (n - 1) / 2 : 0];
};

template <bool ignores_nan>
constexpr auto median_dim_kernel =
    [](Tensor& values, Tensor& indices, const Tensor& self, int64_t dim, bool) {
      choose("median", self, dim, values, indices, median_pick<ignores_nan>);
    };
template <bool ignores_nan>
constexpr auto median_kernel = [](Tensor& out, const Tensor& self) {
  Tensor in = contiguous_of(self), index = make_tensor(IntList{}, Dtype::i64);
  require(numel_of(in) > 0 || is_floating(self.dtype()), "median: the tensor is empty");
  if (numel_of(in) == 0) return fill_elements(out, std::numeric_limits<double>::quiet_NaN());
  choose("median", make_view(in, {numel_of(in)}, {1}, in.storage_offset()), 0, out, index,
         median_pick<ignores_nan>);
};

// The most frequent value, the smallest of those.
constexpr auto mode_pick = [](auto& line) {
  std::sort(line.begin(), line.end(),
            [](const auto& a, const auto& b) { return is_less(a.value, b.value); });
  auto same = [](const auto& a, const auto& b) {
    return !is_less(a.value, b.value) && !is_less(b.value, a.value);
  };
  size_t best = 0, best_count = 0, start = 0;
  for (size_t i = 1; i <= line.size(); ++i) {
    if (i < line.size() && same(line[start], line[i])) continue;
    if (i - start > best_count) best = i - 1, best_count = i - start;
    start = i;
  }
  return line[best];
};
constexpr auto mode_kernel = [](Tensor& values, Tensor& indices, const Tensor& self, int64_t dim,
                                bool) { choose("mode", self, dim, values, indices, mode_pick); };

constexpr auto median_dim_meta = [](const Tensor& self, int64_t dim, bool keepdim) {
  return chosen_meta("median, mode", self, dim, keepdim);
};
constexpr auto median_meta = [](const Tensor& self) {
  return reduced_meta(self, all_dims, false, self.dtype());
};

}  // namespace

static constexpr OpDef rows[] = {
    {.schema =
         "sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
     .core = true,
     .meta = [](const Tensor& self, int64_t dim, bool) { return sort_meta(self, dim); },
     .eager = fn<sort_kernel>,
     .vjp = {{"self", "grad, self.sizes, dim, result1",
              [](const Tensor& g, SymIntList sizes, int64_t dim, const Tensor& indices) {
                return scattered(g, sizes, dim, indices, true);
              }}}},
    {.schema = "sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> "
               "(Tensor values, Tensor indices)",
     .meta = [](const Tensor& self, std::optional<bool>, int64_t dim,
                bool) { return sort_meta(self, dim); },
     .eager = [](Tensor& values, Tensor& indices, const Tensor& self, std::optional<bool>,
                 int64_t dim,
                 bool descending) { sort_kernel(values, indices, self, dim, descending); },
     .vjp = {{"self", "grad, self.sizes, dim, result1",
              [](const Tensor& g, SymIntList sizes, int64_t dim, const Tensor& indices) {
                return scattered(g, sizes, dim, indices, true);
              }}}},
    {.schema = "argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor",
     .decomp = [](const Tensor& self, int64_t dim,
                  bool descending) { return std::get<1>(sort(self, dim, descending)); },
     .vjp = nondiff},
    {.schema =
         "argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor",
     .decomp = [](const Tensor& self, bool, int64_t dim,
                  bool descending) { return std::get<1>(sort(self, dim, descending)); },
     .vjp = nondiff},
    {.schema = "msort(Tensor self) -> Tensor",
     .decomp = [](const Tensor& self) { return std::get<0>(sort(self, 0, false)); }},
    {.schema = "topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> "
               "(Tensor values, Tensor indices)",
     .core = true,
     .meta = fn<topk_meta>,
     .eager = fn<topk_kernel>,
     .vjp = {{"self", "grad, self.sizes, dim, result1",
              [](const Tensor& g, SymIntList sizes, int64_t dim, const Tensor& indices) {
                return scattered(g, sizes, dim, indices, true);
              }}}},
    {.schema = "kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> (Tensor values, "
               "Tensor indices)",
     .meta = [](const Tensor& self, SymInt, int64_t dim,
                bool keepdim) { return chosen_meta("kthvalue", self, dim, keepdim); },
     .eager = kthvalue_kernel,
     .vjp = {{"self", "grad, self.sizes, dim, result1, keepdim", fn<scattered>}}},
    {.schema = "median(Tensor self) -> Tensor",
     .meta = median_meta,
     .eager = median_kernel<false>,
     .vjp = {{"self", "grad, self, result",
              [](const Tensor& g, const Tensor& x, const Tensor& y) {
                return shared_out(g, x, y, {}, true);
              }}}},
    {.schema = "nanmedian(Tensor self) -> Tensor",
     .meta = median_meta,
     .eager = median_kernel<true>,
     .vjp = {{"self", "grad, self, result",
              [](const Tensor& g, const Tensor& x, const Tensor& y) {
                return shared_out(g, x, y, {}, true);
              }}}},
    {.schema =
         "median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
     .meta = median_dim_meta,
     .eager = median_dim_kernel<false>,
     .vjp = {{"self", "grad, self.sizes, dim, result1, keepdim", fn<scattered>}}},
    {.schema = "nanmedian.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor "
               "indices)",
     .meta = median_dim_meta,
     .eager = median_dim_kernel<true>,
     .vjp = {{"self", "grad, self.sizes, dim, result1, keepdim", fn<scattered>}}},
    {.schema =
         "mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
     .meta = median_dim_meta,
     .eager = mode_kernel,
     .vjp = {{"self", "grad, self.sizes, dim, result1, keepdim", fn<scattered>}}},
};

extern constinit const OpFamily op_family_index_sort{rows};

}  // namespace tenon::ops
