// Values looked up or counted: searchsorted, bucketize, isin, bincount, one_hot, repeat_interleave,
// and distinct values.
#include "ops/index/advanced_index.h"
#include "ops/op.h"
#include "ops/promotion.h"
#include "ops/shape_check.h"

#include "core/sym/shape_env.h"
#include "core/sym/sym_int.h"

#include <tenon/ops/copy.h>
#include <tenon/ops/create.h>
#include <tenon/ops/index.h>
#include <tenon/ops/pointwise.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/view.h>

#include <algorithm>

namespace tenon::ops {

namespace {

// NaN lies above every number.
template <class T>
bool is_below(T a, T b) {
  if (is_nan(a)) return false;
  return is_nan(b) || static_cast<ComputeOf<T>>(a) < static_cast<ComputeOf<T>>(b);
}

TensorMeta search_meta(const Tensor& self, bool out_int32) {
  return contiguous_meta(self.sizes(), out_int32 ? Dtype::i32 : Dtype::i64, self.device());
}

bool is_right(bool right, std::optional<std::string_view> side) {
  require(!side || *side == "left" || *side == "right",
          "searchsorted: side must be left or right, found '{}'", side.value_or(""));
  return side ? *side == "right" : right;
}

void check_search(const Tensor& sorted, SymIntList values, const Tensor& sorter) {
  SymIntList rows = sorted.sizes();
  bool fits = rows.size() == 1 || (!rows.empty() && rows.size() == values.size());
  for (size_t d = 0; fits && rows.size() > 1 && d + 1 < rows.size(); ++d)
    fits = sizes_match(rows[d], values[d]);
  require(fits,
          "searchsorted: a sorted vector, or sorted rows for the rows of the values, are expected, "
          "found shapes {} and {}",
          rows, values);
  if (!sorter.defined()) return;
  require_shape("searchsorted", "sorter", sorter, sorted.sizes());
  require_index_dtype("searchsorted", sorter);
}

// Each row of `sorted` serves the row of `values` with the same leading index; a vector serves all.
// `sorter` (or undefined) holds the order of each row.
void search_kernel(Tensor& out, const Tensor& sorted, const Tensor& self, bool right,
                   const Tensor& sorter) {
  Promotion promotion;
  promotion.add(sorted);
  promotion.add(self);
  Dtype common = promotion.result();
  Tensor edges = converted(sorted, common), values = converted(self, common);
  Tensor ranks = sorter.defined() ? index_of("searchsorted", sorter) : Tensor();
  Tensor found = make_tensor(contiguous_meta(out.sizes(), Dtype::i64));
  if (numel_of(values) == 0) return;
  int64_t n = sizes_of(edges).back(),
          per_row = sorted.dim() == 1 ? numel_of(values) : sizes_of(values).back();
  dispatch_dtype(common, "searchsorted", [&]<class T>() {
    for (int64_t i = 0; i < numel_of(values); ++i) {
      int64_t row = i / std::max<int64_t>(per_row, 1) * n, low = 0, high = n;
      T x = data_of<T>(values)[i];
      while (low < high) {
        int64_t mid = (low + high) / 2,
                at = ranks.defined()
                         ? checked_index("searchsorted", data_of<int64_t>(ranks)[row + mid], n)
                         : mid;
        T edge = data_of<T>(edges)[row + at];
        bool goes_on = right ? !is_below(x, edge) : is_below(edge, x);
        if (goes_on)
          low = mid + 1;
        else
          high = mid;
      }
      data_of<int64_t>(found)[i] = low;
    }
  });
  copy_elements(out, found);
}

void isin_kernel(Tensor& out, const Tensor& elements, const Tensor& test_elements, bool,
                 bool invert) {
  Promotion promotion;
  promotion.add(elements);
  promotion.add(test_elements);
  Tensor values = converted(elements, promotion.result()),
         known = converted(test_elements, promotion.result());
  dispatch_dtype(values.dtype(), "isin", [&]<class T>() {
    std::vector<T> sorted(data_of<T>(known), data_of<T>(known) + numel_of(known));
    std::sort(sorted.begin(), sorted.end(), is_below<T>);
    for (int64_t i = 0; i < numel_of(values); ++i) {
      T x = data_of<T>(values)[i];
      data_of<bool>(out)[i] = (!is_nan(x) && std::binary_search(sorted.begin(), sorted.end(), x,
                                                                is_below<T>)) != invert;
    }
  });
}

SymInt unknown_count(const char* op) {
  ShapeEnv* env = current_shape_env();
  require(env, ErrorCode::data_dependent, "{}: the size of the result is known at run time only",
          op);
  SymInt count = env->create_unbacked(Range::at_least(0));
  env->mark_size_like(count);
  return count;
}

Tensor bincount_kernel(const Tensor& self, const Tensor& weights, SymInt minlength) {
  require(self.dim() == 1, "bincount: a vector is expected, found shape {}", self.sizes());
  Tensor values = converted(self, Dtype::i64);
  const int64_t* at = data_of<int64_t>(values);
  if (weights.defined()) require_shape("bincount", "weights", weights, self.sizes());
  int64_t n = numel_of(values), length = minlength;
  for (int64_t i = 0; i < n; ++i) {
    require(at[i] >= 0, "bincount: values must not be negative, found {}", at[i]);
    length = std::max<int64_t>(length, SymInt(at[i]) + 1);
  }
  if (!weights.defined()) {
    Tensor out = make_tensor(IntList{length}, Dtype::i64);
    fill_elements(out, 0);
    for (int64_t i = 0; i < n; ++i) ++data_of<int64_t>(out)[at[i]];
    return out;
  }
  Tensor scale = converted(weights, Dtype::f64), sums = make_tensor(IntList{length}, Dtype::f64);
  fill_elements(sums, 0);
  for (int64_t i = 0; i < n; ++i) data_of<double>(sums)[at[i]] += data_of<double>(scale)[i];
  return converted(sums, weights.dtype() == Dtype::f32 ? Dtype::f32 : Dtype::f64);
}

void check_one_hot(const Tensor& self, int64_t num_classes) {
  require_index_dtype("one_hot", self);
  require(num_classes >= -1,
          "one_hot: num_classes must not be negative, found {}; leave it out for one class more "
          "than the greatest value",
          num_classes);
}

TensorMeta one_hot_meta(const Tensor& self, int64_t num_classes) {
  check_one_hot(self, num_classes);
  Dims sizes = dims_of(self.sizes());
  sizes.push_back(num_classes >= 0 ? SymInt(num_classes) : unknown_count("one_hot"));
  return contiguous_meta(list_of(sizes), Dtype::i64, self.device());
}

Tensor one_hot_kernel(const Tensor& self, int64_t num_classes) {
  check_one_hot(self, num_classes);
  Tensor classes = index_of("one_hot", self);
  const int64_t* at = data_of<int64_t>(classes);
  int64_t n = numel_of(classes), count = num_classes;
  require(count >= 0 || n > 0, "one_hot: no values to count classes by; pass num_classes");
  for (int64_t i = 0; i < n; ++i)
    require(at[i] >= 0, "one_hot: class values must not be negative, found {}", at[i]);
  if (count < 0) count = *std::max_element(at, at + n) + 1;
  IntList rows = sizes_of(self);
  std::vector<int64_t> sizes(rows.begin(), rows.end());
  sizes.push_back(count);
  Tensor out = make_tensor(IntList(sizes), Dtype::i64);
  fill_elements(out, 0);
  for (int64_t i = 0; i < n; ++i) {
    require(at[i] < count, "one_hot: class {} is out of bounds for {} classes", at[i], count);
    data_of<int64_t>(out)[i * count + at[i]] = 1;
  }
  return out;
}

Tensor one_hot_rows(const Tensor& self, int64_t num_classes) {
  SymInt count = num_classes >= 0 ? SymInt(num_classes) : item(amax(self)).sym_int() + 1;
  Dims sizes = dims_of(self.sizes());
  sizes.push_back(count);
  Tensor classes = unsqueeze(classes_within(self, count), -1);
  return scatter(zeros(list_of(sizes), Dtype::i64, std::nullopt, self.device()), -1, classes, 1);
}

// ---- repetition

void check_repeats(const Tensor& repeats, int64_t least_dim) {
  require(repeats.dim() >= least_dim && repeats.dim() <= 1,
          "repeat_interleave: repeats must have one dimension, found shape {}", repeats.sizes());
}

Tensor repeats_kernel(const Tensor& repeats, std::optional<SymInt> output_size) {
  check_repeats(repeats, 1);
  Tensor counts = index_of("repeat_interleave", repeats);
  int64_t total = 0;
  for (int64_t i = 0; i < numel_of(counts); ++i) {
    require(data_of<int64_t>(counts)[i] >= 0, "repeat_interleave: repeats must not be negative");
    total = SymInt(total) + data_of<int64_t>(counts)[i];
  }
  require(!output_size || *output_size == total,
          "repeat_interleave: output_size is {}, the repeats add up to {}", output_size.value_or(0),
          total);
  Tensor out = make_tensor(IntList{total}, Dtype::i64);
  int64_t* to = data_of<int64_t>(out);
  for (int64_t i = 0; i < numel_of(counts); ++i)
    to = std::fill_n(to, data_of<int64_t>(counts)[i], i);
  return converted(out, repeats.dtype());
}

Tensor repeated_along(const Tensor& self, const Tensor& repeats, std::optional<int64_t> dim,
                      std::optional<SymInt> output_size) {
  check_repeats(repeats, 0);
  Tensor in = dim ? self : flatten(self);
  int64_t at = dim.value_or(0);
  Tensor counts = repeats.dim() == 0 || (is_one(repeats.size(0)) && !is_one(in.size(at)))
                      ? expand(reshape(repeats, {1}), {in.size(at)})
                      : repeats;
  return index_select(in, at, repeat_interleave_Tensor(counts, output_size));
}

Tensor repeated_times(const Tensor& self, SymInt repeats, std::optional<int64_t> dim) {
  Tensor in = dim ? self : flatten(self);
  int64_t at = wrap_dim(dim.value_or(0), in.dim());
  Dims sizes = dims_of(in.sizes());
  sizes.insert(static_cast<size_t>(at) + 1, repeats);
  Tensor wide = clone(expand(unsqueeze(in, at + 1), list_of(sizes)), MemoryFormat::contiguous);
  return flatten(wide, at, at + 1);
}

// ---- distinct values

struct Distinct {
  Tensor values, inverse, counts;
};

// Equal neighbours of `values` are one. `order` (undefined: as they are) says where each lies in
// the tensor of shape `sizes`.
template <class T>
Distinct group(const Tensor& values, const Tensor& order, SymIntList sizes, bool return_inverse,
               bool return_counts) {
  const T* p = data_of<T>(values);
  int64_t n = numel_of(values);
  std::vector<int64_t> first;
  for (int64_t i = 0; i < n; ++i)
    if (i == 0 || !(p[i] == p[i - 1])) first.push_back(i);
  auto count = static_cast<int64_t>(first.size());
  Distinct out{
      make_tensor(IntList{count}, values.dtype()),
      make_tensor(contiguous_meta(return_inverse ? sizes : SymIntList{SymInt(0)}, Dtype::i64)),
      make_tensor(IntList{return_counts ? count : 0}, Dtype::i64)};
  for (int64_t k = 0; k < count; ++k) {
    int64_t begin = first[static_cast<size_t>(k)],
            end = k + 1 < count ? first[static_cast<size_t>(k) + 1] : n;
    data_of<T>(out.values)[k] = p[begin];
    if (return_counts) data_of<int64_t>(out.counts)[k] = end - begin;
    for (int64_t i = begin; return_inverse && i < end; ++i)
      data_of<int64_t>(out.inverse)[order.defined() ? data_of<int64_t>(order)[i] : i] = k;
  }
  return out;
}

Distinct distinct(const Tensor& self, bool sorted, bool return_inverse, bool return_counts) {
  Tensor values = reshape(contiguous_of(self), {-1}), order;
  if (sorted) std::tie(values, order) = sort(values, 0);  // equal ones stay in order
  return dispatch_dtype(self.dtype(), "unique", [&]<class T>() {
    return group<T>(values, order, self.sizes(), return_inverse, return_counts);
  });
}

std::array<TensorMeta, 3> distinct_meta(const Tensor& self, bool return_inverse,
                                        bool return_counts) {
  SymInt count = unknown_count("unique");
  return {contiguous_meta({count}, self.dtype(), self.device()),
          contiguous_meta(return_inverse ? self.sizes() : SymIntList{SymInt(0)}, Dtype::i64,
                          self.device()),
          contiguous_meta({return_counts ? count : SymInt(0)}, Dtype::i64, self.device())};
}

// Of a vector, its elements are what lies along its one dimension.
bool is_of_all(const Tensor& self, std::optional<int64_t> dim) {
  return !dim || (*dim == 0 && self.dim() == 1);
}

}  // namespace

static constexpr OpDef index_search_rows[] = {
    {.schema = "searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, "
               "bool right=False, str? side=None, Tensor? sorter=None) -> Tensor",
     .meta =
         [](const Tensor& sorted, const Tensor& self, bool out_int32, bool right,
            std::optional<std::string_view> side, const Tensor& sorter) {
           is_right(right, side);
           check_search(sorted, self.sizes(), sorter);
           return search_meta(self, out_int32);
         },
     .eager =
         [](Tensor& out, const Tensor& sorted, const Tensor& self, bool, bool right,
            std::optional<std::string_view> side, const Tensor& sorter) {
           search_kernel(out, sorted, self, is_right(right, side), sorter);
         },
     .vjp = nondiff},
    {.schema = "searchsorted.Scalar(Tensor sorted_sequence, Scalar self, *, bool out_int32=False, "
               "bool right=False, str? side=None, Tensor? sorter=None) -> Tensor",
     .meta =
         [](const Tensor& sorted, Number, bool out_int32, bool right,
            std::optional<std::string_view> side, const Tensor& sorter) {
           is_right(right, side);
           check_search(sorted, {}, sorter);
           return contiguous_meta({}, out_int32 ? Dtype::i32 : Dtype::i64, sorted.device());
         },
     .eager =
         [](Tensor& out, const Tensor& sorted, Number self, bool, bool right,
            std::optional<std::string_view> side, const Tensor& sorter) {
           search_kernel(out, sorted, wrapped_number_tensor(self), is_right(right, side), sorter);
         },
     .vjp = nondiff},
    {.schema = "bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32=False, bool "
               "right=False) -> Tensor",
     .meta =
         [](const Tensor& self, const Tensor& boundaries, bool out_int32, bool) {
           check_search(boundaries, self.sizes(), Tensor());
           return search_meta(self, out_int32);
         },
     .eager = [](Tensor& out, const Tensor& self, const Tensor& boundaries, bool,
                 bool right) { search_kernel(out, boundaries, self, right, Tensor()); },
     .vjp = nondiff},
    {.schema = "bucketize.Scalar(Scalar self, Tensor boundaries, *, bool out_int32=False, bool "
               "right=False) -> Tensor",
     .decomp = [](Number self, const Tensor& boundaries, bool out_int32,
                  bool right) { return searchsorted(boundaries, self, out_int32, right); }},
    {.schema =
         "isin.Tensor_Tensor(Tensor elements, Tensor test_elements, *, bool assume_unique=False, "
         "bool invert=False) -> Tensor",
     .meta =
         [](const Tensor& elements, const Tensor&, bool, bool) {
           return contiguous_meta(elements.sizes(), Dtype::bool_, elements.device());
         },
     .eager = fn<isin_kernel>,
     .vjp = nondiff},
    {.schema = "isin.Tensor_Scalar(Tensor elements, Scalar test_element, *, bool "
               "assume_unique=False, bool invert=False) -> Tensor",
     .decomp = [](const Tensor& elements, Number known, bool,
                  bool invert) { return invert ? ne(elements, known) : eq(elements, known); }},
    {.schema = "isin.Scalar_Tensor(Scalar element, Tensor test_elements, *, bool "
               "assume_unique=False, bool invert=False) -> Tensor",
     .decomp =
         [](Number element, const Tensor& known, bool, bool invert) {
           Tensor found = any(eq(known, element));
           return invert ? logical_not(found) : found;
         }},
    {.schema = "bincount(Tensor self, Tensor? weights=None, SymInt minlength=0) -> Tensor",
     .tags = OpTags::data_dependent,
     .meta =
         [](const Tensor& self, const Tensor& weights, SymInt) {
           Dtype dtype = !weights.defined()              ? Dtype::i64
                         : weights.dtype() == Dtype::f32 ? Dtype::f32
                                                         : Dtype::f64;
           return contiguous_meta({unknown_count("bincount")}, dtype, self.device());
         },
     .eager = fn<bincount_kernel>,
     .vjp = nondiff},
    {.schema = "one_hot(Tensor self, int num_classes=-1) -> Tensor",
     .tags = OpTags::data_dependent,
     .meta = fn<one_hot_meta>,
     .eager = fn<one_hot_kernel>,
     .decomp = fn<one_hot_rows>,
     .sized_by = "num_classes",
     .vjp = nondiff},
    {.schema = "repeat_interleave.Tensor(Tensor repeats, *, SymInt? output_size=None) -> Tensor",
     .tags = OpTags::data_dependent,
     .meta =
         [](const Tensor& repeats, std::optional<SymInt> output_size) {
           check_repeats(repeats, 1);
           require_index_dtype("repeat_interleave", repeats);
           SymInt size = output_size ? *output_size : unknown_count("repeat_interleave");
           require(expect_true(size >= 0),
                   "repeat_interleave: output_size must not be negative, found {}", size);
           return contiguous_meta({size}, repeats.dtype(), repeats.device());
         },
     .eager = fn<repeats_kernel>,
     .sized_by = "output_size"},
    {.schema = "repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, "
               "SymInt? output_size=None) -> Tensor",
     .tags = OpTags::data_dependent,
     .decomp = fn<repeated_along>,
     .sized_by = "output_size"},
    {.schema = "repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, "
               "SymInt? output_size=None) -> Tensor",
     .decomp = [](const Tensor& self, SymInt repeats, std::optional<int64_t> dim,
                  std::optional<SymInt>) { return repeated_times(self, repeats, dim); }},
    {.schema = "_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool "
               "return_counts=False) -> "
               "(Tensor, Tensor, Tensor)",
     .tags = OpTags::data_dependent,
     .meta = [](const Tensor& self, bool, bool inverse,
                bool counts) { return distinct_meta(self, inverse, counts); },
     .eager =
         [](const Tensor& self, bool, bool inverse, bool counts) {
           Distinct d = distinct(self, true, inverse, counts);
           return std::tuple(d.values, d.inverse, d.counts);
         },
     .vjp = nondiff},
    {.schema =
         "_unique(Tensor self, bool sorted=True, bool return_inverse=False) -> (Tensor, Tensor)",
     .tags = OpTags::data_dependent,
     .meta =
         [](const Tensor& self, bool, bool inverse) {
           std::array<TensorMeta, 3> metas = distinct_meta(self, inverse, false);
           return std::array<TensorMeta, 2>{metas[0], metas[1]};
         },
     .eager =
         [](const Tensor& self, bool, bool inverse) {
           Distinct d = distinct(self, true, inverse, false);
           return std::tuple(d.values, d.inverse);
         },
     .vjp = nondiff},
    {.schema =
         "unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, "
         "int? dim=None) -> (Tensor, Tensor, Tensor)",
     .tags = OpTags::data_dependent,
     .meta =
         [](const Tensor& self, bool inverse, bool counts, std::optional<int64_t> dim) {
           if (is_of_all(self, dim)) return distinct_meta(self, inverse, counts);
           auto [values, places, sizes] = unique_dim_consecutive(self, *dim, true, true);
           return std::array<TensorMeta, 3>{meta_of(values), meta_of(places), meta_of(sizes)};
         },
     .eager =
         [](const Tensor& self, bool inverse, bool counts, std::optional<int64_t> dim) {
           if (!is_of_all(self, dim)) return unique_dim_consecutive(self, *dim, true, true);
           Distinct d = distinct(self, false, inverse, counts);
           return std::tuple(d.values, d.inverse, d.counts);
         },
     .vjp = nondiff},
};

extern constinit const OpFamily op_family_index_search{index_search_rows};

}  // namespace tenon::ops
