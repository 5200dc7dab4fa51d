// Random tensors: uniform, normal, integers, permutations, Bernoulli masks and dropout.
//
// Every call takes a range of the generator's blocks; element i of the result (in row-major order)
// comes from block i / 4, so that results depend on the seed and the calls before, never on
// threads.
#include "ops/create/options.h"
#include "ops/kernel_loops.h"
#include "ops/op.h"
#include "ops/shape_check.h"

#include "core/random.h"
#include "core/sym/sym_int.h"
#include "core/threads/thread_pool.h"

#include <tenon/ops/copy.h>
#include <tenon/ops/create.h>
#include <tenon/ops/pointwise.h>

#include <cmath>
#include <numbers>
#include <numeric>

namespace tenon::ops {

namespace {

constexpr OpTags random_tags = OpTags::random | OpTags::creation;
constexpr OpTags random_write = OpTags::random;

// `body(index, four values)` with doubles in [0, 1): 53 bits where two blocks serve four elements.
template <class F>
void for_each_four(int64_t n, const F& body) {
  int64_t quads = (n + 3) / 4;
  RngState state = reserve_random(static_cast<uint64_t>(2 * quads));
  parallel_for(0, quads, 4096, [&](int64_t lo, int64_t hi) {
    for (int64_t q = lo; q < hi; ++q) {
      auto a = philox(state.seed, state.offset + 2 * static_cast<uint64_t>(q));
      auto b = philox(state.seed, state.offset + 2 * static_cast<uint64_t>(q) + 1);
      double four[4];
      for (size_t k = 0; k < 4; ++k) four[k] = uniform_double(a[k], b[k]);
      body(4 * q, four);
    }
  });
}

// `value_of(u)` of a uniform number for each element.
template <class F>
void fill_by_uniform(const Tensor& t, const char* op, const F& value_of) {
  Tensor dense = t.is_contiguous() ? t : make_tensor(contiguous_meta(t.sizes(), t.dtype()));
  dispatch_dtype(t.dtype(), op, [&]<class T>() {
    T* to = data_of<T>(dense);
    int64_t n = numel_of(dense);
    for_each_four(n, [&](int64_t i, const double* four) {
      for (int64_t k = 0; k < 4 && i + k < n; ++k)
        to[i + k] = static_cast<T>(value_of(four[k], i + k));
    });
  });
  if (!dense.is_same(t)) copy_elements(t, dense);
}

// Rounding may lift a number of [0, 1) to 1 in a short dtype: it is drawn below again.
void fill_uniform(const Tensor& t, double from, double to) {
  double below = to - from;
  double largest = t.dtype() == Dtype::f32    ? 1 - 0x1p-24
                   : t.dtype() == Dtype::f16  ? 1 - 0x1p-11
                   : t.dtype() == Dtype::bf16 ? 1 - 0x1p-8
                                              : 1;
  fill_by_uniform(t, "uniform",
                  [=](double u, int64_t) { return from + below * (u < largest ? u : u - 0x1p-7); });
}

// Box and Muller: two uniform numbers make two normal ones.
void fill_normal(const Tensor& t, double mean, double deviation) {
  Tensor dense = t.is_contiguous() ? t : make_tensor(contiguous_meta(t.sizes(), t.dtype()));
  dispatch_floating(t.dtype(), "normal", [&]<class T>() {
    T* to = data_of<T>(dense);
    int64_t n = numel_of(dense);
    for_each_four(n, [&](int64_t i, const double* u) {
      for (int64_t k = 0; k < 4 && i + k < n; ++k) {
        double radius = std::sqrt(-2 * std::log1p(-u[k & 2])),
               angle = 2 * std::numbers::pi * u[(k & 2) + 1];
        to[i + k] =
            static_cast<T>(mean + deviation * radius * (k & 1 ? std::sin(angle) : std::cos(angle)));
      }
    });
  });
  if (!dense.is_same(t)) copy_elements(t, dense);
}

void fill_integers(const Tensor& t, int64_t low, int64_t high) {
  // Unsigned: the span may exceed i64.
  uint64_t span = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  auto width = static_cast<double>(span);
  fill_by_uniform(t, "randint", [=](double u, int64_t) {
    auto step = static_cast<uint64_t>(std::min(u * width, 0x1.fffffffffffffp63));
    return static_cast<int64_t>(static_cast<uint64_t>(low) + std::min(step, span - 1));
  });
}

void fill_bernoulli(const Tensor& t, double p) {
  require(p >= 0 && p <= 1, "bernoulli: p must lie in [0, 1], found {}", p);
  fill_by_uniform(t, "bernoulli", [=](double u, int64_t) { return static_cast<int>(u < p); });
}

void fill_bernoulli(const Tensor& t, const Tensor& p) {
  require_shape("bernoulli", "self", t, list_of(broadcast_sizes(p.sizes(), t.sizes())));
  Dims strides = broadcast_strides(p.sizes(), p.strides(), t.sizes());
  Tensor odds =
      converted(make_view(p, t.sizes(), list_of(strides), p.storage_offset()), Dtype::f64);
  const double* at = data_of<double>(odds);
  fill_by_uniform(t, "bernoulli", [=](double u, int64_t i) { return static_cast<int>(u < at[i]); });
}

void fill_permutation(const Tensor& t) {
  int64_t n = numel_of(t);
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::vector<double> draws(order.size());
  for_each_four(n, [&](int64_t i, const double* four) {
    for (int64_t k = 0; k < 4 && i + k < n; ++k) draws[static_cast<size_t>(i + k)] = four[k];
  });
  for (size_t i = order.size(); i-- > 1;)
    std::swap(order[i], order[static_cast<size_t>(draws[i] * static_cast<double>(i + 1))]);
  dispatch_dtype(t.dtype(), "randperm", [&]<class T>() {
    for (size_t i = 0; i < order.size(); ++i) data_of<T>(t)[i] = static_cast<T>(order[i]);
  });
}

TensorMeta sized(SymIntList size, Dtype dtype, Dev device) {
  return contiguous_meta(size, dtype, device.value_or(kCPU));
}
TensorMeta float_meta(SymIntList size, Type dtype, Lay, Dev device, Pin) {
  return sized(size, dtype.value_or(Dtype::f32), device);
}
TensorMeta like_meta(const Tensor& self, Type dtype, Lay, Dev device, Pin, Format format) {
  return {dtype.value_or(self.dtype()), device.value_or(self.device()), dims_of(self.sizes()),
          strides_for(self, format)};
}

void check_range(SymInt low, SymInt high) {
  require(expect_true(low < high), "randint: low {} must be below high {}", low, high);
}

// ---- normal with means and deviations by element

Tensor normal_by_element(const Tensor& mean, const Tensor& deviation) {
  return add(mul(randn_like(add(mean, deviation)), deviation), mean);
}

// ---- dropout

std::array<TensorMeta, 2> dropout_meta(const Tensor& input, double, std::optional<bool>) {
  TensorMeta out = like(input), mask = out;
  mask.dtype = Dtype::bool_;
  return {out, mask};
}

void dropout_kernel(Tensor& out, Tensor& mask, const Tensor& input, double p,
                    std::optional<bool> train) {
  require(p >= 0 && p <= 1, "dropout: p must lie in [0, 1], found {}", p);
  copy_elements(out, input);
  if (!train.value_or(true) || p == 0) return fill_elements(mask, true);
  fill_bernoulli(mask, 1 - p);
  Walk<2> walk;
  add_dims<2>(walk, sizes_of(out), {strides_of(out), strides_of(mask)});
  double scale = p == 1 ? 0 : 1 / (1 - p);
  dispatch_floating(out.dtype(), "dropout", [&]<class T>() {
    for_each_offset(walk, [&](const Offsets<2>& at) {
      T& x = data_of<T>(out)[at[0]];
      x = data_of<bool>(mask)[at[1]] ? static_cast<T>(static_cast<double>(x) * scale) : T(0.0f);
    });
  });
}

Tensor dropped(const Tensor& input, double p, bool train) {
  require(p >= 0 && p <= 1, "dropout: p must lie in [0, 1], found {}", p);
  return train && p > 0 ? std::get<0>(native_dropout(input, p, true)) : input;
}

}  // namespace

static constexpr OpDef rows[] = {
    {.schema =
         "rand(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
         "bool? pin_memory=None) -> Tensor",
     .tags = random_tags,
     .core = true,
     .meta = fn<float_meta>,
     .eager = [](Tensor& out, SymIntList, Type, Lay, Dev, Pin) { fill_uniform(out, 0, 1); }},
    {.schema = "randn(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? "
               "device=None, "
               "bool? pin_memory=None) -> Tensor",
     .tags = random_tags,
     .core = true,
     .meta = fn<float_meta>,
     .eager = [](Tensor& out, SymIntList, Type, Lay, Dev, Pin) { fill_normal(out, 0, 1); }},
    {.schema = "rand_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? "
               "device=None, "
               "bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
     .tags = random_tags,
     .meta = fn<like_meta>,
     .eager = [](Tensor& out, const Tensor&, Type, Lay, Dev, Pin,
                 Format) { fill_uniform(out, 0, 1); },
     .vjp = nondiff},
    {.schema = "randn_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? "
               "device=None, "
               "bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
     .tags = random_tags,
     .meta = fn<like_meta>,
     .eager = [](Tensor& out, const Tensor&, Type, Lay, Dev, Pin,
                 Format) { fill_normal(out, 0, 1); },
     .vjp = nondiff},
    {.schema =
         "randint(SymInt high, SymInt[] size, *, ScalarType? dtype=long, Layout? layout=None, "
         "Device? device=None, bool? pin_memory=None) -> Tensor",
     .tags = random_tags,
     .meta =
         [](SymInt high, SymIntList size, Type dtype, Lay, Dev device, Pin) {
           check_range(0, high);
           return sized(size, dtype.value_or(Dtype::i64), device);
         },
     .eager = [](Tensor& out, SymInt high, SymIntList, Type, Lay, Dev,
                 Pin) { fill_integers(out, 0, high); }},
    {.schema = "randint.low(SymInt low, SymInt high, SymInt[] size, *, ScalarType? dtype=long, "
               "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
     .tags = random_tags,
     .meta =
         [](SymInt low, SymInt high, SymIntList size, Type dtype, Lay, Dev device, Pin) {
           check_range(low, high);
           return sized(size, dtype.value_or(Dtype::i64), device);
         },
     .eager = [](Tensor& out, SymInt low, SymInt high, SymIntList, Type, Lay, Dev,
                 Pin) { fill_integers(out, low, high); }},
    {.schema =
         "randint_like(Tensor self, SymInt high, *, ScalarType? dtype=None, Layout? layout=None, "
         "Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
     .tags = random_tags,
     .meta =
         [](const Tensor& self, SymInt high, Type dtype, Lay layout, Dev device, Pin pin,
            Format format) {
           check_range(0, high);
           return like_meta(self, dtype, layout, device, pin, format);
         },
     .eager = [](Tensor& out, const Tensor&, SymInt high, Type, Lay, Dev, Pin,
                 Format) { fill_integers(out, 0, high); },
     .vjp = nondiff},
    {.schema =
         "randint_like.low_dtype(Tensor self, SymInt low, SymInt high, *, ScalarType? dtype=None, "
         "Layout? layout=None, Device? device=None, bool? pin_memory=None, "
         "MemoryFormat? memory_format=None) -> Tensor",
     .tags = random_tags,
     .meta =
         [](const Tensor& self, SymInt low, SymInt high, Type dtype, Lay layout, Dev device,
            Pin pin, Format format) {
           check_range(low, high);
           return like_meta(self, dtype, layout, device, pin, format);
         },
     .eager = [](Tensor& out, const Tensor&, SymInt low, SymInt high, Type, Lay, Dev, Pin,
                 Format) { fill_integers(out, low, high); },
     .vjp = nondiff},
    {.schema =
         "randperm(SymInt n, *, ScalarType? dtype=long, Layout? layout=None, Device? device=None, "
         "bool? pin_memory=None) -> Tensor",
     .tags = random_tags,
     .core = true,
     .meta = [](SymInt n, Type dtype, Lay, Dev device,
                Pin) { return sized({n}, dtype.value_or(Dtype::i64), device); },
     .eager = [](Tensor& out, SymInt, Type, Lay, Dev, Pin) { fill_permutation(out); }},
    {.schema = "bernoulli(Tensor self, *, Generator? generator=None) -> Tensor",
     .tags = random_write,
     .meta = [](const Tensor& self, Value) { return like(self); },
     .eager = [](Tensor& out, const Tensor& self, Value) { fill_bernoulli(out, self); },
     .vjp = nondiff},
    {.schema = "bernoulli.p(Tensor self, float p, *, Generator? generator=None) -> Tensor",
     .tags = random_write,
     .meta = [](const Tensor& self, double, Value) { return like(self); },
     .eager = [](Tensor& out, const Tensor&, double p, Value) { fill_bernoulli(out, p); },
     .vjp = nondiff},
    {.schema = "bernoulli_.float(Tensor(a!) self, float p=0.5, *, Generator? generator=None) -> "
               "Tensor(a!)",
     .tags = random_write,
     .meta = [](const Tensor&, double, Value) {},
     .eager = [](const Tensor& self, double p, Value) { fill_bernoulli(self, p); },
     .vjp = {{"self", "grad", [](const Tensor& g) { return g.zeros_like(); }}}},
    {.schema =
         "bernoulli_.Tensor(Tensor(a!) self, Tensor p, *, Generator? generator=None) -> Tensor(a!)",
     .tags = random_write,
     .meta = [](const Tensor&, const Tensor&, Value) {},
     .eager = [](const Tensor& self, const Tensor& p, Value) { fill_bernoulli(self, p); },
     .vjp = {{"self", "grad", [](const Tensor& g) { return g.zeros_like(); }}}},
    {.schema =
         "uniform(Tensor self, float from=0., float to=1., *, Generator? generator=None) -> Tensor",
     .tags = random_write,
     .meta = [](const Tensor& self, double, double, Value) { return like(self); },
     .eager = [](Tensor& out, const Tensor&, double from, double to,
                 Value) { fill_uniform(out, from, to); },
     .vjp = nondiff},
    {.schema = "uniform_(Tensor(a!) self, float from=0., float to=1., *, Generator? "
               "generator=None) -> Tensor(a!)",
     .tags = random_write,
     .meta = [](const Tensor&, double, double, Value) {},
     .eager = [](const Tensor& self, double from, double to,
                 Value) { fill_uniform(self, from, to); },
     .vjp = {{"self", "grad", [](const Tensor& g) { return g.zeros_like(); }}}},
    {.schema = "normal_(Tensor(a!) self, float mean=0., float std=1., *, Generator? "
               "generator=None) -> Tensor(a!)",
     .tags = random_write,
     .meta = [](const Tensor&, double, double, Value) {},
     .eager = [](const Tensor& self, double mean, double std,
                 Value) { fill_normal(self, mean, std); },
     .vjp = {{"self", "grad", [](const Tensor& g) { return g.zeros_like(); }}}},
    {.schema =
         "normal.Tensor_float(Tensor mean, float std=1., *, Generator? generator=None) -> Tensor",
     .tags = random_write,
     .decomp = [](const Tensor& mean, double std,
                  Value) { return add(mul(randn_like(mean), std), mean); }},
    {.schema =
         "normal.float_Tensor(float mean, Tensor std, *, Generator? generator=None) -> Tensor",
     .tags = random_write,
     .decomp = [](double mean, const Tensor& std,
                  Value) { return add(mul(randn_like(std), std), mean); }},
    {.schema =
         "normal.Tensor_Tensor(Tensor mean, Tensor std, *, Generator? generator=None) -> Tensor",
     .tags = random_write,
     .decomp = [](const Tensor& mean, const Tensor& std,
                  Value) { return normal_by_element(mean, std); }},
    {.schema =
         "normal.float_float(float mean, float std, SymInt[] size, *, Generator? generator=None, "
         "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) "
         "-> Tensor",
     .tags = random_tags,
     .meta = [](double, double, SymIntList size, Value, Type dtype, Lay layout, Dev device,
                Pin pin) { return float_meta(size, dtype, layout, device, pin); },
     .eager = [](Tensor& out, double mean, double std, SymIntList, Value, Type, Lay, Dev,
                 Pin) { fill_normal(out, mean, std); }},
    {.schema = "native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)",
     .tags = random_write,
     .core = true,
     .meta = fn<dropout_meta>,
     .eager = fn<dropout_kernel>,
     .vjp = {{"input", "grad, result1, p, train",
              [](const Tensor& g, const Tensor& mask, double p, std::optional<bool> train) {
                bool drops = train.value_or(true);
                return native_dropout_backward(g, mask, !drops ? 1.0 : p == 1 ? 0.0 : 1 / (1 - p));
              }}}},
    {.schema = "native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor",
     .decomp = [](const Tensor& grad, const Tensor& mask,
                  double scale) { return mul(mul(grad, mask), scale); }},
    {.schema = "dropout(Tensor input, float p, bool train) -> Tensor",
     .tags = OpTags::random | OpTags::maybe_alias,
     .inverse = whole_content,
     .decomp = fn<dropped>},
    {.schema = "dropout_(Tensor(a!) self, float p, bool train) -> Tensor(a!)",
     .tags = random_write,
     .decomp =
         [](const Tensor& self, double p, bool train) {
           if (train && p > 0) copy_(self, dropped(self, p, train));
           return self;
         }},
};

extern constinit const OpFamily op_family_create_random{rows};

}  // namespace tenon::ops
