// Extremes and where they are: amax, max, argmax, aminmax, and their minimum forms.
#include "core/kernels/narrow.h"
#include "ops/op.h"
#include "ops/reduce/reduce_loop.h"

#include "core/sym/sym_int.h"
#include "ops/vjp_rules.h"

#include <tenon/ops/reduce.h>

#include <algorithm>
#include <limits>

namespace tenon::ops {

namespace {

// Whether x replaces the best so far: NaN wins once and for all, equal values keep the first.
template <class T, bool largest>
bool beats(T x, T best) {
  if (is_nan(best)) return false;
  if (is_nan(x)) return true;
  return largest ? x > best : x < best;
}

template <class T, bool largest>
struct Extreme {
  struct State {
    T best;
    int64_t index = -1;  // -1: nothing seen
  };
  T* values;         // or null
  int64_t* indices;  // or null
  State start() const { return {T(), -1}; }
  void step(State& s, T x, int64_t index) const {
    if (s.index < 0 || beats<T, largest>(x, s.best)) s = {x, index};
  }
  State join(State a, State b) const {
    if (b.index < 0) return a;
    return a.index < 0 || beats<T, largest>(b.best, a.best) ? b : a;
  }
  void store(int64_t at, State s, int64_t) const {
    if (values) values[at] = s.best;
    if (indices) indices[at] = s.index;
  }
};

// The value alone: no index, so elements are folded side by side; 16-bit floats as f32.
template <class T, bool largest>
struct ExtremeValue {
  using State = ComputeOf<T>;
  static constexpr bool is_float = is_float_type<T>;
  T* values;

  State start() const {
    using Limits = std::numeric_limits<State>;
    if constexpr (is_float)
      return largest ? -Limits::infinity() : Limits::infinity();
    else
      return largest ? Limits::lowest() : Limits::max();
  }
  static State better(State best, State x) {  // a NaN stays, and takes the place of anything else
    bool wins = largest ? x > best : x < best;
    return wins || x != x ? x : best;
  }
  void step(State& s, T x, int64_t) const { s = better(s, static_cast<State>(x)); }

  void fold(State& s, const T* in, int64_t n, int64_t) const {
    if constexpr (!is_float) {
      s = fold_integers(largest ? ScalarCode::max : ScalarCode::min, s, in, n, better);
    } else {
      const auto& level = kernels::row_level<State>();
      auto of_row = largest ? level.largest : level.smallest;
      widened(in, n, [&](const State* x, int64_t m, int64_t) { s = of_row(x, m, s); });
    }
  }
  void fold_line(State* states, const T* in, int64_t n, int64_t) const {
    if constexpr (!is_float) {
      for (int64_t k = 0; k < n; ++k) states[k] = better(states[k], in[k]);
    } else {
      const auto& level = kernels::row_level<State>();
      auto of_each = largest ? level.largest_of_each : level.smallest_of_each;
      widened(in, n, [&](const State* x, int64_t m, int64_t at) { of_each(x, states + at, m); });
    }
  }
  State join(State a, State b) const { return better(a, b); }
  void store(int64_t at, State s, int64_t) const { values[at] = static_cast<T>(s); }

 private:
  // `body(elements, count, offset)` with elements in the compute type.
  template <class F>
  static void widened(const T* in, int64_t n, const F& body) {
    if constexpr (std::is_same_v<T, State>) {
      body(in, n, 0);
    } else {
      State wide[512];
      for (int64_t i = 0; i < n; i += 512) {
        int64_t m = std::min<int64_t>(512, n - i);
        kernels::widen(in + i, wide, m);
        body(wide, m, i);
      }
    }
  }
};

void require_elements(const char* op, const Tensor& self, uint64_t mask) {
  for (size_t d = 0; d < self.sizes().size(); ++d)
    require(!(mask >> d & 1) || !guard_or_false(self.sizes()[d] == 0),
            "{}: dimension {} is empty and has no extreme; shape {}", op, d, self.sizes());
}

template <bool largest>
void find_extremes(const Tensor& self, const Tensor* values, const Tensor* indices, uint64_t mask) {
  dispatch_dtype(self.dtype(), largest ? "max" : "min", [&]<class T>() {
    if constexpr (!std::is_same_v<T, bool>)
      if (!indices)
        return reduce<T>(self, *values, mask, ExtremeValue<T, largest>{data_of<T>(*values)});
    Extreme<T, largest> op{values ? data_of<T>(*values) : nullptr,
                           indices ? data_of<int64_t>(*indices) : nullptr};
    reduce<T>(self, values ? *values : *indices, mask, op);
  });
}

TensorMeta extreme_meta(const char* op, const Tensor& self, uint64_t mask, bool keepdim) {
  require_elements(op, self, mask);
  return reduced_meta(self, mask, keepdim, self.dtype());
}

constexpr auto values_meta = [](const Tensor& self, IntList dims, bool keepdim) {
  return extreme_meta("amax, amin", self, dims_mask(OptIntList(dims), self.dim()), keepdim);
};
template <bool largest>
constexpr auto values_kernel = [](Tensor& out, const Tensor& self, IntList dims, bool) {
  find_extremes<largest>(self, &out, nullptr, dims_mask(OptIntList(dims), self.dim()));
};

constexpr auto whole_meta = [](const Tensor& self) {
  return extreme_meta("max, min", self, all_dims, false);
};
template <bool largest>
constexpr auto whole_kernel =
    [](Tensor& out, const Tensor& self) { find_extremes<largest>(self, &out, nullptr, all_dims); };

constexpr auto pair_meta = [](const Tensor& self, int64_t dim, bool keepdim) {
  TensorMeta values = extreme_meta("max, min", self, mask_of_dim(self, dim), keepdim),
             indices = values;
  indices.dtype = Dtype::i64;
  return std::array<TensorMeta, 2>{values, indices};
};
template <bool largest>
constexpr auto pair_kernel =
    [](Tensor& values, Tensor& indices, const Tensor& self, int64_t dim, bool) {
      find_extremes<largest>(self, &values, &indices, mask_of_dim(self, dim));
    };

using OptDim = std::optional<int64_t>;
uint64_t mask_of(const Tensor& self, OptDim dim) {
  return dim ? mask_of_dim(self, *dim) : all_dims;
}

constexpr auto arg_meta = [](const Tensor& self, OptDim dim, bool keepdim) {
  TensorMeta meta = extreme_meta("argmax, argmin", self, mask_of(self, dim), keepdim);
  meta.dtype = Dtype::i64;
  return meta;
};
template <bool largest>
constexpr auto arg_kernel = [](Tensor& out, const Tensor& self, OptDim dim, bool) {
  find_extremes<largest>(self, nullptr, &out, mask_of(self, dim));
};

constexpr auto both_meta = [](const Tensor& self, OptDim dim, bool keepdim) {
  TensorMeta meta = extreme_meta("aminmax", self, mask_of(self, dim), keepdim);
  return std::array<TensorMeta, 2>{meta, meta};
};
constexpr auto both_kernel = [](Tensor& low, Tensor& high, const Tensor& self, OptDim dim, bool) {
  find_extremes<false>(self, &low, nullptr, mask_of(self, dim));
  find_extremes<true>(self, &high, nullptr, mask_of(self, dim));
};

}  // namespace

static constexpr OpDef reduce_arg_rows[] = {
    {.schema = "amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
     .tags = OpTags::reduction,
     .core = true,
     .meta = values_meta,
     .eager = values_kernel<true>,
     .vjp = {{"self", "grad, self, result, dim, keepdim",
              [](const Tensor& g, const Tensor& x, const Tensor& y, IntList dim, bool keepdim) {
                return shared_out(g, x, y, OptIntList(dim), keepdim);
              }}}},
    {.schema = "amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
     .tags = OpTags::reduction,
     .core = true,
     .meta = values_meta,
     .eager = values_kernel<false>,
     .vjp = {{"self", "grad, self, result, dim, keepdim",
              [](const Tensor& g, const Tensor& x, const Tensor& y, IntList dim, bool keepdim) {
                return shared_out(g, x, y, OptIntList(dim), keepdim);
              }}}},
    {.schema = "max(Tensor self) -> Tensor",
     .tags = OpTags::reduction,
     .meta = whole_meta,
     .eager = whole_kernel<true>,
     .decomp = [](const Tensor& self) { return amax(self); },
     .vjp = {{"self", "grad, self, result",
              [](const Tensor& g, const Tensor& x, const Tensor& y) {
                return shared_out(g, x, y, {}, true);
              }}}},
    {.schema = "min(Tensor self) -> Tensor",
     .tags = OpTags::reduction,
     .meta = whole_meta,
     .eager = whole_kernel<false>,
     .decomp = [](const Tensor& self) { return amin(self); },
     .vjp = {{"self", "grad, self, result",
              [](const Tensor& g, const Tensor& x, const Tensor& y) {
                return shared_out(g, x, y, {}, true);
              }}}},
    {.schema =
         "max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
     .tags = OpTags::reduction,
     .core = true,
     .meta = pair_meta,
     .eager = pair_kernel<true>,
     .vjp = {{"self", "grad, self.sizes, dim, result1, keepdim", fn<scattered>}}},
    {.schema =
         "min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
     .tags = OpTags::reduction,
     .core = true,
     .meta = pair_meta,
     .eager = pair_kernel<false>,
     .vjp = {{"self", "grad, self.sizes, dim, result1, keepdim", fn<scattered>}}},
    {.schema = "argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
     .tags = OpTags::reduction,
     .core = true,
     .meta = arg_meta,
     .eager = arg_kernel<true>,
     .vjp = nondiff},
    {.schema = "argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
     .tags = OpTags::reduction,
     .core = true,
     .meta = arg_meta,
     .eager = arg_kernel<false>,
     .vjp = nondiff},
    {.schema =
         "aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)",
     .tags = OpTags::reduction,
     .meta = both_meta,
     .eager = both_kernel,
     .decomp =
         [](const Tensor& self, std::optional<int64_t> dim, bool keepdim) {
           return dim ? std::tuple(amin(self, {*dim}, keepdim), amax(self, {*dim}, keepdim))
                      : std::tuple(amin(self, {}, keepdim), amax(self, {}, keepdim));
         },
     .vjp = {{"self", "grad0?, grad1?, self, result0, result1, dim, keepdim",
              [](const Tensor& low, const Tensor& high, const Tensor& x, const Tensor& min,
                 const Tensor& max, std::optional<int64_t> dim, bool keepdim) {
                int64_t one = dim.value_or(0);
                OptIntList dims = dim ? OptIntList(IntList(&one, 1)) : OptIntList();
                Tensor out;
                if (low.defined()) out = shared_out(low, x, min, dims, keepdim || !dim);
                if (!high.defined()) return out;
                Tensor rest = shared_out(high, x, max, dims, keepdim || !dim);
                return out.defined() ? out.add(rest) : rest;
              }}}},
};

extern constinit const OpFamily op_family_reduce_arg{reduce_arg_rows};

}  // namespace tenon::ops
