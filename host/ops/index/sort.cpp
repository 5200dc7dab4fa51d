// Order along a dimension: sort, topk, kthvalue, median, mode.
//
// NaN counts as larger than every number, as in ATen. Sorts are stable; topk and mode are not.
// Method: a line is copied into entries of an unsigned key, which orders as the values do, and a
// place; these are ordered, and the values are fetched by place. So the code is compiled for two
// entries instead of ten dtypes: keys of up to 32 bits share a word with the place, others lie
// beside it. Sorts go byte by byte from the lowest (radix sort) where a line is long enough; bytes
// that all keys share are skipped. Lines are shared out to threads.
// Cost: 8 ns an element of f32 in lines of 1024.
#include "core/threads/thread_pool.h"
#include "ops/op.h"
#include "ops/reduce/reduce_loop.h"

#include "core/sym/sym_int.h"
#include "ops/vjp_rules.h"

#include <tenon/ops/index.h>

#include <algorithm>
#include <bit>

namespace tenon::ops {

namespace {

struct Packed {
  uint64_t bits;
  static Packed of(uint64_t key, int64_t index) {
    return {key << 32 | static_cast<uint64_t>(index)};
  }
  uint64_t key() const { return bits >> 32; }
  int64_t index() const { return static_cast<int64_t>(bits & 0xffffffffu); }
};
struct Wide {
  uint64_t order;
  int64_t place;
  static Wide of(uint64_t key, int64_t index) { return {key, index}; }
  uint64_t key() const { return order; }
  int64_t index() const { return place; }
};

template <class T>
inline constexpr int key_bytes = is_half_type<T> ? 4 : static_cast<int>(sizeof(T));
template <class T>
inline constexpr uint64_t all_ones = ~uint64_t{0} >> (64 - 8 * key_bytes<T>);

// Orders as the values: negative floats have all bits turned over, NaN is above all, zeros are one.
template <class T>
uint64_t key_of(T value) {
  if constexpr (is_float_type<T>) {
    using C = ComputeOf<T>;
    using Bits = std::conditional_t<sizeof(C) == 8, uint64_t, uint32_t>;
    constexpr Bits sign = Bits{1} << (sizeof(C) * 8 - 1);
    C x = static_cast<C>(value);
    Bits bits = x == 0 ? 0 : std::bit_cast<Bits>(x);
    Bits key = (bits & sign) != 0 ? ~bits : bits | sign;
    return x != x ? all_ones<T> : key;
  } else if constexpr (std::is_signed_v<T>) {
    return (static_cast<uint64_t>(value) ^ uint64_t{1} << (sizeof(T) * 8 - 1)) & all_ones<T>;
  } else {
    return static_cast<uint64_t>(value);
  }
}

// The lines of a tensor along a dimension, and where their results go.
struct Lines {
  Walk<3> walk;  // over self, values, indices
  int64_t n, step, value_step, index_step;

  // `values` and `indices` may lack the dimension.
  Lines(const Tensor& self, int64_t dim, const Tensor& values, const Tensor& indices) {
    auto at = static_cast<size_t>(wrap_dim(dim, self.dim()));
    bool keeps = values.dim() == self.dim() && self.dim() > 0;
    for (size_t d = 0, next = 0; d < sizes_of(self).size(); ++d, ++next) {
      if (d != at)
        walk.add(sizes_of(self)[d],
                 {strides_of(self)[d], strides_of(values)[next], strides_of(indices)[next]});
      else if (!keeps)
        --next;
    }
    n = self.dim() ? sizes_of(self)[at] : 1;
    step = self.dim() ? strides_of(self)[at] : 0;
    value_step = keeps ? strides_of(values)[at] : 0;
    index_step = keeps ? strides_of(indices)[at] : 0;
  }
  Offsets<3> offsets_of(int64_t line) const {
    Offsets<3> at{};
    for (size_t d = walk.sizes.size(); d-- > 0; line /= walk.sizes[d])
      for (size_t k = 0; k < 3; ++k) at[k] += line % walk.sizes[d] * walk.strides[d][k];
    return at;
  }
};

// A line as entries, with scratch as long; `bytes` of the keys count, `nan` is the key of NaN.
template <class E>
struct Line {
  E *entries, *scratch;
  int64_t n;
  int bytes;
  uint64_t nan;

  E* begin() const { return entries; }
  E* end() const { return entries + n; }
  bool is_nan(const E& e) const { return nan != 0 && e.key() == nan; }
};

template <class E, class T>
void read_line(E* line, const T* from, int64_t n, int64_t step, bool descending) {
  uint64_t flip = descending ? all_ones<T> : 0;
  for (int64_t i = 0; i < n; ++i) line[i] = E::of(key_of(from[i * step]) ^ flip, i);
}
template <class E, class T>
void write_line(const E* line, int64_t n, const T* from, int64_t step, T* values,
                int64_t value_step, int64_t* indices, int64_t index_step) {
  for (int64_t i = 0; i < n; ++i) {
    values[i * value_step] = from[line[i].index() * step];
    indices[i * index_step] = line[i].index();
  }
}

template <class E, class F>
void run_lines(const char* op, const Tensor& self, const Lines& lines, const Tensor& values,
               const Tensor& indices, bool descending, const F& body) {
  auto room = static_cast<size_t>(lines.n);
  auto run = [&](int64_t lo, int64_t hi) {
    auto memory = std::make_unique_for_overwrite<E[]>(2 * room);
    for (int64_t k = lo; k < hi; ++k) {
      Offsets<3> at = lines.offsets_of(k);
      Line<E> line{memory.get(), memory.get() + room, lines.n, 0, 0};
      dispatch_dtype(self.dtype(), op, [&]<class T>() {
        read_line(line.entries, data_of<T>(self) + at[0], lines.n, lines.step, descending);
        line.bytes = key_bytes<T>;
        line.nan = is_float_type<T> ? all_ones<T> : 0;
      });
      int64_t kept = body(line);
      dispatch_itemsize(self.dtype(), [&]<class T>() {
        write_line(line.entries, kept, data_of<T>(self) + at[0], lines.step,
                   data_of<T>(values) + at[1], lines.value_step, data_of<int64_t>(indices) + at[2],
                   lines.index_step);
      });
    }
  };
  constexpr int64_t grain = 4096;  // elements; 40 us
  int64_t per_thread = std::max<int64_t>(1, grain / std::max<int64_t>(1, lines.n));
  int64_t count = lines.walk.numel();
  if (count <= per_thread) return run(0, count);
  parallel_for(0, count, per_thread, run);
}

// Calls `body(line)` for each line of `self` along `dim`; it orders the entries and says how many
// at the front are results.
template <class F>
void for_each_line_of(const char* op, const Tensor& self, int64_t dim, const Tensor& values,
                      const Tensor& indices, bool descending, const F& body) {
  Lines lines(self, dim, values, indices);
  if (itemsize(self.dtype()) < 8 && lines.n <= int64_t{1} << 32)
    run_lines<Packed>(op, self, lines, values, indices, descending, body);
  else
    run_lines<Wide>(op, self, lines, values, indices, descending, body);
}

template <class E>
bool is_before(const E& a, const E& b) {
  return a.key() < b.key();
}

// One pass for the counts of all bytes, then one for each byte in which keys differ.
template <class E>
void radix_sort(const Line<E>& line) {
  std::vector<int64_t> counts(static_cast<size_t>(line.bytes) * 256, 0);
  for (const E& e : line) {
    uint64_t key = e.key();
    for (int b = 0; b < line.bytes; ++b, key >>= 8)
      ++counts[static_cast<size_t>(b) * 256 + (key & 255)];
  }
  E *from = line.entries, *to = line.scratch;
  for (int b = 0; b < line.bytes; ++b) {
    int64_t* count = counts.data() + static_cast<size_t>(b) * 256;
    if (count[from->key() >> (8 * b) & 255] == line.n) continue;
    for (int64_t i = 0, before = 0; i < 256; ++i) before += std::exchange(count[i], before);
    for (int64_t i = 0; i < line.n; ++i) to[count[from[i].key() >> (8 * b) & 255]++] = from[i];
    std::swap(from, to);
  }
  if (from != line.entries) std::copy_n(from, line.n, line.entries);
}

// Equal values keep their places.
template <class E>
void order(const Line<E>& line) {
  constexpr int64_t shortest_radix = 128;
  if (line.n >= shortest_radix) return radix_sort(line);
  std::sort(line.begin(), line.end(), [](const E& a, const E& b) {
    return a.key() != b.key() ? a.key() < b.key() : a.index() < b.index();
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
  for_each_line_of("sort", self, dim, values, indices, descending, [](const auto& line) {
    order(line);
    return line.n;
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

// Puts the first k of the order to the front. Among equal values those that ATen takes: the
// algorithms of the standard library are chosen as it chooses them.
template <class E>
void order_first(const Line<E>& line, int64_t k) {
  E *first = line.begin(), *last = first + k;
  if (k * 64 <= line.n) {
    std::partial_sort(first, last, line.end(), is_before<E>);
  } else {
    std::nth_element(first, last - 1, line.end(), is_before<E>);
    std::sort(first, last - 1, is_before<E>);
  }
}

void topk_kernel(Tensor& values, Tensor& indices, const Tensor& self, SymInt k, int64_t dim,
                 bool largest, bool) {
  if (numel_of(values) == 0) return;
  // Of a tensor without dimensions also k = 0 gives the element.
  int64_t n = self.dim() > 0 ? k.guard_int() : 1;
  for_each_line_of("topk", self, dim, values, indices, largest, [n](const auto& line) {
    order_first(line, n);
    return n;
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
  for_each_line_of(op, self, dim, values, indices, false, [&](const auto& line) {
    auto one = pick(line);
    *line.begin() = one;
    return 1;
  });
}

constexpr auto kthvalue_kernel = [](Tensor& values, Tensor& indices, const Tensor& self, SymInt k,
                                    int64_t dim, bool) {
  int64_t n = self.dim() ? self.size(dim).guard_int() : 1, rank = k.guard_int();
  require(rank >= 1 && rank <= n, "kthvalue: k = {} is out of range for a dimension of size {}",
          rank, n);
  choose("kthvalue", self, dim, values, indices, [&](const auto& line) {
    order(line);
    return line.entries[rank - 1];
  });
};

// The lower of two middle elements. A NaN in the line is the median itself, unless they are
// ignored.
template <bool ignores_nan>
constexpr auto median_pick = [](const auto& line) {
  auto is_nan = [&](const auto& e) { return line.is_nan(e); };
  auto first_nan = std::find_if(line.begin(), line.end(), is_nan);
  if (!ignores_nan && first_nan != line.end()) return *first_nan;
  int64_t n = line.n - std::count_if(first_nan, line.end(), is_nan);
  order(line);
  return line.entries[n ? (n - 1) / 2 : 0];
};

template <bool ignores_nan>
constexpr auto median_dim_kernel =
    [](Tensor& values, Tensor& indices, const Tensor& self, int64_t dim, bool) {
      choose("median", self, dim, values, indices, median_pick<ignores_nan>);
    };
template <bool ignores_nan>
constexpr auto median_kernel = [](Tensor& out, const Tensor& self) {
  Tensor in = contiguous_of(self), index = make_tensor(IntList{}, Dtype::i64);
  if (numel_of(in) == 0) return fill_elements(out, std::numeric_limits<double>::quiet_NaN());
  choose("median", make_view(in, {numel_of(in)}, {1}, in.storage_offset()), 0, out, index,
         median_pick<ignores_nan>);
};

// The most frequent value, the smallest of those.
constexpr auto mode_pick = [](const auto& line) {
  std::sort(line.begin(), line.end(), [](const auto& a, const auto& b) { return is_before(a, b); });
  int64_t best = 0, best_count = 0, start = 0;
  for (int64_t i = 1; i <= line.n; ++i) {
    if (i < line.n && line.entries[start].key() == line.entries[i].key()) continue;
    if (i - start > best_count) best = i - 1, best_count = i - start;
    start = i;
  }
  return line.entries[best];
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

static constexpr OpDef index_sort_rows[] = {
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

extern constinit const OpFamily op_family_index_sort{index_sort_rows};

}  // namespace tenon::ops
