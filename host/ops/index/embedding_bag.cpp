// Bags of rows of an embedding table: summed, averaged or maximised.
#include "core/threads/thread_pool.h"
#include "ops/index/advanced_index.h"
#include "ops/index/embedding_parts.h"
#include "ops/op.h"
#include "ops/shape_check.h"

#include <tenon/ops/index.h>

#include <algorithm>
#include <array>
#include <vector>

namespace tenon::ops {

namespace {

// ---- bags of rows, folded

enum class Bag : int64_t { sum = 0, mean = 1, max = 2 };

Bag bag_of_mode(int64_t mode) {
  require(mode >= 0 && mode <= 2,
          "embedding_bag: mode must be 0 (sum), 1 (mean) or 2 (max), found {}", mode);
  return static_cast<Bag>(mode);
}

void check_scales(const Tensor& scales, const Tensor& indices) {
  if (scales.defined())
    require_shape("embedding_bag", "per_sample_weights", scales, indices.sizes());
}

struct BagArgs {
  const Tensor &weight, &indices, &offsets;
  Bag mode;
  const Tensor& scales;  // undefined: none
  bool include_last_offset;
  int64_t padding;
};

SymInt bags_in(const BagArgs& a) {
  return a.include_last_offset ? a.offsets.size(0) - 1 : a.offsets.size(0);
}

// ATen's sums of the smaller float types by its fast path leave the second result empty.
bool leaves_bags_unnamed(const BagArgs& a) {
  return a.mode == Bag::sum && a.padding < 0 && a.weight.dtype() != Dtype::f64 &&
         is_one(a.weight.stride(1)) && (!a.scales.defined() || is_one(a.scales.stride(0)));
}

std::array<TensorMeta, 4> bag_meta(const BagArgs& a) {
  require(a.weight.dim() == 2 && a.indices.dim() == 1 && a.offsets.dim() == 1,
          "embedding_bag: a matrix and two vectors are expected, found shapes {}, {} and {}",
          a.weight.sizes(), a.indices.sizes(), a.offsets.sizes());
  check_scales(a.scales, a.indices);
  require_floating("embedding_bag", a.weight.dtype());
  require_index_dtype("embedding_bag", a.indices);
  require_index_dtype("embedding_bag", a.offsets);
  require(!a.include_last_offset || expect_true(a.offsets.size(0) > 0),
          "embedding_bag: include_last_offset needs at least one offset, found none");
  SymInt n_bags = bags_in(a), width = a.weight.size(1);
  auto whole = [&](SymIntList sizes) {
    return contiguous_meta(sizes, a.offsets.dtype(), a.offsets.device());
  };
  return {contiguous_meta({n_bags, width}, a.weight.dtype(), a.weight.device()),
          whole({leaves_bags_unnamed(a) ? SymInt(0) : a.indices.size(0)}), whole({n_bags}),
          a.mode == Bag::max ? whole({n_bags, width}) : whole({n_bags})};
}

/// What the folding of all bags reads and writes.
template <class T>
struct BagFolding {
  using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;  // as ATen's

  const BagArgs& args;
  const int64_t* rows;
  const T* scales;  // null: none
  T* out;
  int64_t* chosen;
  int64_t width = sizes_of(args.weight)[1], n_rows = sizes_of(args.weight)[0];
  const T* weight = data_of<T>(args.weight);
  int64_t row_step = strides_of(args.weight)[0], step = strides_of(args.weight)[1];

  // Inlined with a step of 1, the loop over the columns becomes vectors.
  [[gnu::always_inline]] void add(const T* row, Sum scale, Sum* state, int64_t s) const {
    for (int64_t c = 0; c < width; ++c) state[c] += static_cast<Sum>(row[c * s]) * scale;
  }
  void add_row(int64_t i, int64_t row, Sum* state) const {
    Sum scale = scales ? static_cast<Sum>(scales[i]) : Sum(1);
    const T* at = weight + row * row_step;
    step == 1 ? add(at, scale, state, 1) : add(at, scale, state, step);
  }
  void choose(int64_t i, int64_t row, bool is_first, Sum* state, int64_t* best) const {
    Sum scale = scales ? static_cast<Sum>(scales[i]) : Sum(1);
    for (int64_t c = 0; c < width; ++c) {
      Sum x = static_cast<Sum>(weight[row * row_step + c * step]) * scale;
      if (is_first || x > state[c]) state[c] = x, best[c] = row;
    }
  }
  /// The rows that count.
  int64_t fold(int64_t bag, int64_t from, int64_t to, Sum* state) const {
    std::fill_n(state, width, Sum(0));
    int64_t counted = 0;
    for (int64_t i = from; i < to; ++i) {
      int64_t row = checked_index("embedding_bag", rows[i], n_rows);
      if (row == args.padding) continue;
      if (args.mode == Bag::max)
        choose(i, row, counted == 0, state, chosen + bag * width);
      else
        add_row(i, row, state);
      ++counted;
    }
    Sum divisor = args.mode == Bag::mean && counted ? static_cast<Sum>(counted) : Sum(1);
    for (int64_t c = 0; c < width; ++c) out[bag * width + c] = static_cast<T>(state[c] / divisor);
    return counted;
  }
};

// Where each bag begins among the indices, and where the last one ends.
std::vector<int64_t> borders_of_bags(const Tensor& offsets, int64_t n_bags, int64_t n) {
  Tensor starts = index_of("embedding_bag", offsets);
  const int64_t* at = data_of<int64_t>(starts);
  std::vector<int64_t> borders(at, at + numel_of(starts));
  int64_t first = borders.empty() ? 0 : borders[0];
  require(first == 0, "embedding_bag: offsets[0] must be 0, found {}", first);
  const bool last_is_given = numel_of(starts) > n_bags;
  require(!last_is_given || borders.back() == n,
          "embedding_bag: with include_last_offset the last offset is the number of indices, {}; "
          "found {}",
          n, last_is_given ? borders.back() : n);
  borders.resize(static_cast<size_t>(n_bags) + 1, n);
  for (size_t b = 0; b + 1 < borders.size(); ++b)
    require(borders[b] >= 0 && borders[b] <= borders[b + 1] && borders[b + 1] <= n,
            "embedding_bag: offsets {} to {} do not fit {} indices", borders[b], borders[b + 1], n);
  return borders;
}

void bag_kernel(const BagArgs& a, Tensor& out, Tensor& bag_of, Tensor& sizes, Tensor& chosen) {
  Tensor rows = index_of("embedding_bag", a.indices);
  Tensor scales =
      a.scales.defined() ? contiguous_of(converted(a.scales, a.weight.dtype())) : Tensor();
  int64_t n = numel_of(rows), n_bags = sizes_of(out)[0], width = sizes_of(a.weight)[1];
  Tensor names = make_tensor(IntList{numel_of(bag_of)}, Dtype::i64),
         picks = make_tensor(IntList{a.mode == Bag::max ? numel_of(out) : 0}, Dtype::i64);
  fill_elements(names, 0);
  fill_elements(picks, 0);
  fill_elements(sizes, 0);
  std::vector<int64_t> borders = borders_of_bags(a.offsets, n_bags, n);
  constexpr int64_t fewest_elements = 16384;
  int64_t of_a_bag = std::max<int64_t>(1, n * width / std::max<int64_t>(1, n_bags));
  dispatch_floating(a.weight.dtype(), "embedding_bag", [&]<class T>() {
    BagFolding<T> folding{a, data_of<int64_t>(rows),
                          scales.defined() ? data_of<T>(scales) : nullptr, data_of<T>(out),
                          data_of<int64_t>(picks)};
    parallel_for(0, n_bags, fewest_elements / of_a_bag + 1, [&](int64_t begin, int64_t end) {
      std::vector<typename BagFolding<T>::Sum> state(static_cast<size_t>(width));
      for (int64_t b = begin; b < end; ++b) {
        int64_t from = borders[static_cast<size_t>(b)], to = borders[static_cast<size_t>(b) + 1];
        int64_t counted = folding.fold(b, from, to, state.data());
        if (numel_of(names))
          std::fill(data_of<int64_t>(names) + from, data_of<int64_t>(names) + to, b);
        if (a.mode != Bag::sum)
          store_number(data_of<char>(sizes) + b * itemsize(sizes.dtype()), sizes.dtype(), counted);
      }
    });
  });
  if (numel_of(bag_of)) copy_elements(bag_of, names);
  if (a.mode == Bag::max)
    copy_elements(chosen, make_view(picks, chosen.sizes(), chosen.strides(), 0));
  else
    copy_elements(chosen, sizes);
}

constexpr auto bag_meta_row = [](const Tensor& weight, const Tensor& indices, const Tensor& offsets,
                                 bool, int64_t mode, bool, const Tensor& scales, bool last,
                                 int64_t padding) {
  return bag_meta({weight, indices, offsets, bag_of_mode(mode), scales, last, padding});
};
constexpr auto bag_row = [](Tensor& out, Tensor& bag_of, Tensor& sizes, Tensor& chosen,
                            const Tensor& weight, const Tensor& indices, const Tensor& offsets,
                            bool, int64_t mode, bool, const Tensor& scales, bool last,
                            int64_t padding) {
  bag_kernel({weight, indices, offsets, bag_of_mode(mode), scales, last, padding}, out, bag_of,
             sizes, chosen);
};

std::tuple<Tensor, Tensor, Tensor, Tensor> padded_bag(const Tensor& weight, const Tensor& indices,
                                                      const Tensor& offsets, bool scale_by_count,
                                                      int64_t mode, bool sparse,
                                                      const Tensor& scales, bool last,
                                                      std::optional<int64_t> padding) {
  int64_t row = -1;
  if (padding) row = *padding < 0 ? (*padding + weight.size(0)).guard_int() : *padding;
  return _embedding_bag(weight, indices, offsets, scale_by_count, mode, sparse, scales, last, row);
}

// ---- derivatives of bags

struct BagBackward {
  const Tensor &grad, &indices, &sizes, &chosen;
  Bag mode;
  bool scale_by_count;
  const Tensor& scales;  // undefined: none
  int64_t padding;
};

// The bag of each index by the offsets at which the bags begin.
void fill_by_offsets(std::vector<int64_t>& bags, const Tensor& offsets) {
  Tensor starts = index_of("embedding_bag backward", offsets);
  auto n = static_cast<int64_t>(bags.size());
  for (int64_t b = 0; b < numel_of(starts); ++b) {
    int64_t from = data_of<int64_t>(starts)[b];
    require(from >= 0 && from <= n, "embedding_bag backward: offset {} does not fit {} indices",
            from, n);
    std::fill(bags.begin() + from, bags.end(), b);
  }
}

// The bag of each index: as handed over, or where ATen left it empty by the offsets.
std::vector<int64_t> bags_of(const Tensor& bag_of, const Tensor& offsets, int64_t n,
                             int64_t n_bags) {
  std::vector<int64_t> bags(static_cast<size_t>(n), 0);
  if (numel_of(bag_of) == n) {
    Tensor names = index_of("embedding_bag backward", bag_of);
    std::copy_n(data_of<int64_t>(names), n, bags.begin());
  } else {
    fill_by_offsets(bags, offsets);
  }
  for (int64_t bag : bags)
    require(bag >= 0 && bag < n_bags,
            "embedding_bag backward: bag {} is out of range for a gradient of {} bags", bag,
            n_bags);
  return bags;
}

void spread_chosen(const BagBackward& a, double* sums, const double* g, int64_t bags, int64_t width,
                   int64_t n_rows) {
  Tensor rows = index_of("embedding_bag backward", a.chosen),
         sizes = index_of("embedding_bag backward", a.sizes);
  for (int64_t b = 0; b < bags; ++b)
    for (int64_t c = 0; c < width && data_of<int64_t>(sizes)[b] > 0; ++c) {
      int64_t row =
          checked_index("embedding_bag backward", data_of<int64_t>(rows)[b * width + c], n_rows);
      sums[row * width + c] += g[b * width + c];
    }
}

void bag_backward_kernel(const Tensor& out, const BagBackward& a,
                         const std::vector<int64_t>& bags) {
  Tensor g = contiguous_of(converted(a.grad, Dtype::f64)),
         sums = make_tensor(contiguous_meta(out.sizes(), Dtype::f64)),
         rows = index_of("embedding_bag backward", a.indices);
  fill_elements(sums, 0);
  int64_t width = sizes_of(out)[1], n_rows = sizes_of(out)[0];
  if (a.mode == Bag::max) {
    spread_chosen(a, data_of<double>(sums), data_of<double>(g), sizes_of(g)[0], width, n_rows);
    return copy_elements(out, sums);
  }
  Tensor scales = a.scales.defined() ? contiguous_of(converted(a.scales, Dtype::f64)) : Tensor();
  std::vector<double> uses(static_cast<size_t>(n_rows), 0.0);
  std::vector<double> members(static_cast<size_t>(sizes_of(g)[0]), 0.0);
  for (size_t i = 0; i < bags.size(); ++i) {
    int64_t row = checked_index("embedding_bag backward", data_of<int64_t>(rows)[i], n_rows);
    ++uses[static_cast<size_t>(row)];
    members[static_cast<size_t>(bags[i])] += row != a.padding;
  }
  for (size_t i = 0; i < bags.size(); ++i) {
    int64_t row = checked_index("embedding_bag backward", data_of<int64_t>(rows)[i], n_rows);
    if (row == a.padding) continue;
    double scale = scales.defined() ? data_of<double>(scales)[i] : 1.0;
    if (a.mode == Bag::mean) scale /= members[static_cast<size_t>(bags[i])];
    if (a.scale_by_count) scale /= uses[static_cast<size_t>(row)];
    for (int64_t c = 0; c < width; ++c)
      data_of<double>(sums)[row * width + c] += scale * data_of<double>(g)[bags[i] * width + c];
  }
  copy_elements(out, sums);
}

TensorMeta bag_backward_meta(const BagBackward& a, const Tensor& bag_of, SymInt n_rows) {
  const Tensor &grad = a.grad, &indices = a.indices;
  require(grad.dim() == 2 && indices.dim() == 1,
          "embedding_bag backward: a matrix of gradients and a vector of indices are expected, "
          "found shapes {} and {}",
          grad.sizes(), indices.sizes());
  check_scales(a.scales, indices);
  require_index_dtype("embedding_bag backward", indices);
  require_index_dtype("embedding_bag backward", bag_of);
  if (a.mode == Bag::max) {
    require_shape("embedding_bag backward", "maximum_indices", a.chosen, grad.sizes());
    require_shape("embedding_bag backward", "bag_size", a.sizes, {grad.size(0)});
    require_index_dtype("embedding_bag backward", a.chosen);
    require_index_dtype("embedding_bag backward", a.sizes);
  }
  return contiguous_meta({n_rows, grad.size(1)}, grad.dtype(), grad.device());
}

TensorMeta bag_scales_meta(const Tensor& grad, const Tensor& weight, const Tensor& indices,
                           const Tensor& bag_of) {
  require(grad.dim() == 2 && weight.dim() == 2 && indices.dim() == 1 &&
              sizes_match(grad.size(1), weight.size(1)),
          "embedding_bag backward: gradients and a table of one width and a vector of indices are "
          "expected, found shapes {}, {} and {}",
          grad.sizes(), weight.sizes(), indices.sizes());
  for (const Tensor* t : {&indices, &bag_of}) require_index_dtype("embedding_bag backward", *t);
  return contiguous_meta(indices.sizes(), grad.dtype(), grad.device());
}

// The derivative by the scale of each index.
void bag_scales_backward(Tensor& out, const Tensor& grad, const Tensor& weight,
                         const Tensor& indices, const Tensor& offsets, const Tensor& bag_of,
                         int64_t, int64_t padding) {
  Tensor g = contiguous_of(converted(grad, Dtype::f64)),
         table = contiguous_of(converted(weight, Dtype::f64)),
         rows = index_of("embedding_bag backward", indices),
         dots = make_tensor(contiguous_meta(out.sizes(), Dtype::f64));
  std::vector<int64_t> bags = bags_of(bag_of, offsets, numel_of(rows), sizes_of(g)[0]);
  int64_t width = sizes_of(table)[1];
  for (size_t i = 0; i < bags.size(); ++i) {
    int64_t row =
        checked_index("embedding_bag backward", data_of<int64_t>(rows)[i], sizes_of(table)[0]);
    double dot = 0;
    for (int64_t c = 0; c < width && row != padding; ++c)
      dot += data_of<double>(g)[bags[i] * width + c] * data_of<double>(table)[row * width + c];
    data_of<double>(dots)[i] = dot;
  }
  copy_elements(out, dots);
}

}  // namespace

static constexpr OpDef index_embedding_bag_rows[] = {
    {.schema = "_embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool "
               "scale_grad_by_freq=False, "
               "int mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool "
               "include_last_offset=False, "
               "int padding_idx=-1) -> (Tensor, Tensor, Tensor, Tensor)",
     .core = true,
     .meta = bag_meta_row,
     .eager = bag_row,
     .vjp = {{"weight",
              "grad, indices, offsets, result1, result2, result3, weight.sizes, "
              "scale_grad_by_freq, mode, per_sample_weights, padding_idx",
              [](const Tensor& g, const Tensor& indices, const Tensor& offsets, const Tensor& bag,
                 const Tensor& size, const Tensor& maximum, SymIntList weight, bool by_freq,
                 int64_t mode, const Tensor& per_sample, int64_t padding) {
                return _embedding_bag_backward(g, indices, offsets, bag, size, maximum, weight[0],
                                               by_freq, mode, false, per_sample, padding);
              }},
             {"per_sample_weights", "grad, weight, indices, offsets, result1, mode, padding_idx",
              fn<_embedding_bag_per_sample_weights_backward>}}},
    {.schema =
         "_embedding_bag_forward_only(Tensor weight, Tensor indices, Tensor offsets, "
         "bool scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor? "
         "per_sample_weights=None, "
         "bool include_last_offset=False, int padding_idx=-1) -> (Tensor, Tensor, Tensor, Tensor)",
     .meta = bag_meta_row,
     .eager = bag_row},
    {.schema = "embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool "
               "scale_grad_by_freq=False, "
               "int mode=0, bool sparse=False, Tensor? per_sample_weights=None, "
               "bool include_last_offset=False) -> (Tensor, Tensor, Tensor, Tensor)",
     .decomp =
         [](const Tensor& weight, const Tensor& indices, const Tensor& offsets, bool scale_by_count,
            int64_t mode, bool sparse, const Tensor& scales, bool last) {
           return padded_bag(weight, indices, offsets, scale_by_count, mode, sparse, scales, last,
                             std::nullopt);
         }},
    {.schema = "embedding_bag.padding_idx(Tensor weight, Tensor indices, Tensor offsets, "
               "bool scale_grad_by_freq, int mode, bool sparse, Tensor? per_sample_weights, "
               "bool include_last_offset, int? padding_idx) -> (Tensor, Tensor, Tensor, Tensor)",
     .decomp = fn<padded_bag>},
    {.schema = "_embedding_bag_backward(Tensor grad, Tensor indices, Tensor offsets, Tensor "
               "offset2bag, Tensor bag_size, Tensor maximum_indices, SymInt num_weights, bool "
               "scale_grad_by_freq, int mode, bool sparse, Tensor? per_sample_weights, int "
               "padding_idx=-1) -> Tensor",
     .core = true,
     .meta =
         [](const Tensor& grad, const Tensor& indices, const Tensor& offsets, const Tensor& bag_of,
            const Tensor& sizes, const Tensor& chosen, SymInt n_rows, bool count, int64_t mode,
            bool, const Tensor& scales, int64_t padding) {
           if (is_surely_empty(bag_of)) require_index_dtype("embedding_bag backward", offsets);
           return bag_backward_meta(
               {grad, indices, sizes, chosen, bag_of_mode(mode), count, scales, padding}, bag_of,
               n_rows);
         },
     .eager =
         [](Tensor& out, const Tensor& grad, const Tensor& indices, const Tensor& offsets,
            const Tensor& bag_of, const Tensor& sizes, const Tensor& chosen, SymInt, bool count,
            int64_t mode, bool, const Tensor& scales, int64_t padding) {
           bag_backward_kernel(
               out, {grad, indices, sizes, chosen, bag_of_mode(mode), count, scales, padding},
               bags_of(bag_of, offsets, numel_of(indices), sizes_of(grad)[0]));
         },
     .decomp =
         [](const Tensor& grad, const Tensor& indices, const Tensor& offsets, const Tensor& bag_of,
            const Tensor& sizes, const Tensor& chosen, SymInt n_rows, bool count, int64_t mode,
            bool, const Tensor& scales, int64_t padding) {
           return bag_backward_parts(grad, {indices, offsets, bag_of, padding},
                                     {mode, count, scales, sizes, chosen}, n_rows);
         }},
    {.schema = "_embedding_bag_dense_backward(Tensor grad, Tensor indices, Tensor offset2bag, "
               "Tensor bag_size, Tensor maximum_indices, SymInt num_weights, bool "
               "scale_grad_by_freq, int mode, Tensor? per_sample_weights, int padding_idx=-1) -> "
               "Tensor",
     .core = true,
     .meta =
         [](const Tensor& grad, const Tensor& indices, const Tensor& bag_of, const Tensor& sizes,
            const Tensor& chosen, SymInt n_rows, bool count, int64_t mode, const Tensor& scales,
            int64_t padding) {
           return bag_backward_meta(
               {grad, indices, sizes, chosen, bag_of_mode(mode), count, scales, padding}, bag_of,
               n_rows);
         },
     .eager =
         [](Tensor& out, const Tensor& grad, const Tensor& indices, const Tensor& bag_of,
            const Tensor& sizes, const Tensor& chosen, SymInt, bool count, int64_t mode,
            const Tensor& scales, int64_t padding) {
           bag_backward_kernel(
               out, {grad, indices, sizes, chosen, bag_of_mode(mode), count, scales, padding},
               bags_of(bag_of, bag_of, numel_of(indices), sizes_of(grad)[0]));
         },
     .decomp =
         [](const Tensor& grad, const Tensor& indices, const Tensor& bag_of, const Tensor& sizes,
            const Tensor& chosen, SymInt n_rows, bool count, int64_t mode, const Tensor& scales,
            int64_t padding) {
           return bag_backward_parts(grad, {indices, bag_of, bag_of, padding},
                                     {mode, count, scales, sizes, chosen}, n_rows);
         }},
    {.schema = "_embedding_bag_per_sample_weights_backward(Tensor grad, Tensor weight, Tensor "
               "indices, Tensor offsets, Tensor offset2bag, int mode, int padding_idx=-1) -> "
               "Tensor",
     .core = true,
     .meta = [](const Tensor& grad, const Tensor& weight, const Tensor& indices, const Tensor&,
                const Tensor& bag_of, int64_t,
                int64_t) { return bag_scales_meta(grad, weight, indices, bag_of); },
     .eager = fn<bag_scales_backward>,
     .decomp =
         [](const Tensor& grad, const Tensor& weight, const Tensor& indices, const Tensor& offsets,
            const Tensor& bag_of, int64_t, int64_t padding) {
           return bag_scales_backward_parts(grad, weight, {indices, offsets, bag_of, padding});
         }},
};

extern constinit const OpFamily op_family_index_embedding_bag{index_embedding_bag_rows};

}  // namespace tenon::ops
