// Random tensors: uniform, normal, integers, permutations, Bernoulli masks and dropout.
//
// Every call takes a range of the generator's blocks; element i of the result (in row-major order)
// comes from block i / 4, so that results depend on the seed and the calls before, never on
// threads.
#include "ops/create/options.h"
#include "ops/kernel_loops.h"
#include "ops/op.h"
#include "ops/shape_check.h"

#include "core/kernels/pointwise_loop.h"
#include "core/random.h"
#include "core/scalar/scalar_constant.h"
#include "core/sym/sym_int.h"
#include "core/threads/thread_pool.h"

#include <tenon/ops/copy.h>
#include <tenon/ops/create.h>
#include <tenon/ops/pointwise.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

namespace tenon::ops {

namespace {

constexpr OpTags random_tags = OpTags::random | OpTags::creation;
constexpr OpTags random_write = OpTags::random;

constexpr int64_t chunk = 1024;  // numbers that are made together; they stay in the first cache

// Takes numbers [first, first + n).
using TakeFn = FunctionRef<void(int64_t first, const double* values, int64_t n, const RngState&)>;

// `body` for chunks of n numbers that `make`, one of the block kernels, draws.
void for_each_chunk(int64_t n, RandomFn make, TakeFn body) {
  int64_t quads = (n + 3) / 4, chunks = (n + chunk - 1) / chunk;
  RngState state = reserve_random(static_cast<uint64_t>(2 * quads));
  parallel_for(0, chunks, 16, [&](int64_t lo, int64_t hi) {
    double values[chunk + 4 * random_row];
    for (int64_t c = lo; c < hi; ++c) {
      int64_t first = c * chunk, count = std::min(chunk, n - first);
      make(values, state.seed, state.offset + static_cast<uint64_t>(first / 2), (count + 3) / 4);
      body(first, values, count, state);
    }
  });
}

// Calls `fill(to)` with a row-major tensor of t's shape, which becomes the content of t.
void fill_dense(const Tensor& t, const char* op, FunctionRef<void(const Tensor& to)> fill) {
  require(is_computing(t.dtype()), ErrorCode::unsupported,
          "{} does not compute on dtype {}; cast the input to a real dtype", op, t.dtype());
  Tensor dense = t.is_contiguous() ? t : make_tensor(contiguous_meta(t.sizes(), t.dtype()));
  fill(dense);
  if (!dense.is_same(t)) copy_elements(t, dense);
}

// Elements [first, first + n) of `to` become `values`, converted.
template <class V>
void store_values(const Tensor& to, int64_t first, const V* values, int64_t n) {
  char* at = data_of<char>(to) + first * itemsize(to.dtype());
  BlockType from = block_type(dtype_of<V>), type = block_type(to.dtype());
  if (from == type)
    std::memcpy(at, values, static_cast<size_t>(n) * sizeof(V));
  else
    block_kernels().convert[static_cast<int>(from)][static_cast<int>(type)](at, values, n);
}

// `value_of(u, index)`, a double or an i64, of a uniform number for each element.
template <class F>
void fill_by_uniform(const Tensor& t, const char* op, const F& value_of) {
  using V = decltype(value_of(0.5, 0));
  fill_dense(t, op, [&](const Tensor& dense) {
    for_each_chunk(numel_of(dense), block_kernels().uniform,
                   [&](int64_t first, const double* u, int64_t count, const RngState&) {
                     V values[chunk];
                     for (int64_t i = 0; i < count; ++i) values[i] = value_of(u[i], first + i);
                     store_values(dense, first, values, count);
                   });
  });
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

// Number `index` of the normal ones, by libm.
double normal_number(const RngState& state, int64_t index) {
  uint64_t block = state.offset + 2 * static_cast<uint64_t>(index / 4);
  auto a = philox(state.seed, block), b = philox(state.seed, block + 1);
  size_t pair = static_cast<size_t>(index) & 2;
  double radius = std::sqrt(-2 * std::log1p(-uniform_double(a[pair], b[pair])));
  double angle = 2 * std::numbers::pi * uniform_double(a[pair + 1], b[pair + 1]);
  return radius * (index & 1 ? std::sin(angle) : std::cos(angle));
}

// Rounds what the kernel gives where all numbers near it round alike, so that results are those of
// libm on every CPU.
void round_normals(float* to, const double* z, int64_t n, int64_t first, const RngState& state,
                   double mean, double deviation) {
  constexpr int64_t group = 16;
  auto near = [=](double z_i, double side) {
    double part = deviation * z_i, value = mean + part;
    return static_cast<float>(value + side * 1e-11 * (std::abs(part) + std::abs(value)));
  };
  for (int64_t i = 0; i < n; i += group) {
    uint32_t doubtful = 0;
    for (int64_t k = i; k < i + group; ++k) {
      to[k] = near(z[k], -1);
      doubtful |= to[k] != near(z[k], 1) ? 1u : 0u;
    }
    for (int64_t k = i; doubtful != 0 && k < i + group; ++k)
      if (near(z[k], -1) != near(z[k], 1))
        to[k] = static_cast<float>(mean + deviation * normal_number(state, first + k));
  }
}

void fill_normal(const Tensor& t, double mean, double deviation) {
  fill_dense(t, "normal", [&](const Tensor& dense) {
    for_each_chunk(numel_of(dense), block_kernels().normal,
                   [&](int64_t first, const double* z, int64_t count, const RngState& state) {
                     if (dense.dtype() == Dtype::f64) {
                       for (int64_t i = first; i < first + count; ++i)
                         data_of<double>(dense)[i] = mean + deviation * normal_number(state, i);
                       return;
                     }
                     float values[chunk];
                     round_normals(values, z, (count + 15) / 16 * 16, first, state, mean,
                                   deviation);
                     store_values(dense, first, values, count);
                   });
  });
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
  fill_by_uniform(t, "bernoulli", [=](double u, int64_t) { return int64_t{u < p}; });
}

void fill_bernoulli(const Tensor& t, const Tensor& p) {
  Dims strides = broadcast_strides(p.sizes(), p.strides(), t.sizes());
  Tensor odds =
      converted(make_view(p, t.sizes(), list_of(strides), p.storage_offset()), Dtype::f64);
  const double* at = data_of<double>(odds);
  fill_by_uniform(t, "bernoulli", [=](double u, int64_t i) { return int64_t{u < at[i]}; });
}

// Fisher and Yates from the last place down, with draw i for place i. Short numbers keep the order in
// the cache for longer.
template <class Index>
void shuffle_into(const Tensor& t) {
  int64_t n = numel_of(t), quads = (n + 3) / 4;
  RngState state = reserve_random(static_cast<uint64_t>(2 * quads));
  std::vector<Index> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), Index{0});
  double draws[chunk + 4 * random_row];
  for (int64_t i = n; i-- > 1;) {
    int64_t place = i % chunk, first = i - place;
    if (i == n - 1 || place == chunk - 1)
      block_kernels().uniform(draws, state.seed, state.offset + static_cast<uint64_t>(first / 2),
                              (place + 4) / 4);
    auto other = static_cast<size_t>(draws[place] * static_cast<double>(i + 1));
    std::swap(order[static_cast<size_t>(i)], order[other]);
  }
  store_values(t, 0, order.data(), n);
}

void fill_permutation(const Tensor& t) {
  if (numel_of(t) > std::numeric_limits<int32_t>::max()) return shuffle_into<int64_t>(t);
  shuffle_into<int32_t>(t);
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

void check_chance(const char* op, double p) {
  require(p >= 0 && p <= 1, "{}: p must lie in [0, 1], found {}", op, p);
}

TensorMeta normal_meta(SymIntList size, Type dtype, Lay layout, Dev device, Pin pin) {
  TensorMeta out = float_meta(size, dtype, layout, device, pin);
  require_floating("normal", out.dtype);
  return out;
}
TensorMeta normal_like_meta(const Tensor& self, Type dtype, Lay layout, Dev device, Pin pin,
                            Format format) {
  TensorMeta out = like_meta(self, dtype, layout, device, pin, format);
  require_floating("normal", out.dtype);
  return out;
}

void check_range(SymInt low, SymInt high) {
  require(expect_true(low < high), "randint: low {} must be below high {}", low, high);
}

// ---- normal with means and deviations by element

Tensor normal_by_element(const Tensor& mean, const Tensor& deviation) {
  return add(mul(randn_like(add(mean, deviation)), deviation), mean);
}

// ---- dropout

std::array<TensorMeta, 2> dropout_meta(const Tensor& input, double p, std::optional<bool>) {
  check_chance("dropout", p);
  require_floating("dropout", input.dtype());
  TensorMeta out = like(input), mask = out;
  mask.dtype = Dtype::bool_;
  return {out, mask};
}

void dropout_kernel(Tensor& out, Tensor& mask, const Tensor& input, double p,
                    std::optional<bool> train) {
  copy_elements(out, input);
  if (!train.value_or(true) || p == 0) return fill_elements(mask, true);
  fill_bernoulli(mask, 1 - p);
  Walk<2> walk;
  add_dims<2>(walk, sizes_of(out), {strides_of(out), strides_of(mask)});
  double scale = p == 1 ? 0 : 1 / (1 - p);
  dispatch_floating(out.dtype(), "dropout", [&]<class T>() {
    for_each_row(walk, [&](const Offsets<2>& at, int64_t n, const Offsets<2>& step) {
      T* x = data_of<T>(out) + at[0];
      const uint8_t* kept = data_of<uint8_t>(mask) + at[1];
      auto drop = [=](int64_t x_step, int64_t kept_step) {
        for (int64_t i = 0; i < n; ++i) {
          auto scaled = static_cast<T>(static_cast<double>(x[i * x_step]) * scale);
          x[i * x_step] = kept[i * kept_step] != 0 ? scaled : T(0.0f);
        }
      };
      step[0] == 1 && step[1] == 1 ? drop(1, 1) : drop(step[0], step[1]);
    });
  });
}

Tensor dropped(const Tensor& input, double p, bool train) {
  check_chance("dropout", p);
  return train && p > 0 ? std::get<0>(native_dropout(input, p, true)) : input;
}

}  // namespace

static constexpr OpDef create_random_rows[] = {
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
     .meta = fn<normal_meta>,
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
     .meta = fn<normal_like_meta>,
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
     .meta =
         [](const Tensor& self, double p, Value) {
           check_chance("bernoulli", p);
           return like(self);
         },
     .eager = [](Tensor& out, const Tensor&, double p, Value) { fill_bernoulli(out, p); },
     .vjp = nondiff},
    {.schema = "bernoulli_.float(Tensor(a!) self, float p=0.5, *, Generator? generator=None) -> "
               "Tensor(a!)",
     .tags = random_write,
     .meta = [](const Tensor&, double p, Value) { check_chance("bernoulli", p); },
     .eager = [](const Tensor& self, double p, Value) { fill_bernoulli(self, p); },
     .vjp = {{"self", "grad", [](const Tensor& g) { return g.zeros_like(); }}}},
    {.schema =
         "bernoulli_.Tensor(Tensor(a!) self, Tensor p, *, Generator? generator=None) -> Tensor(a!)",
     .tags = random_write,
     .meta =
         [](const Tensor& self, const Tensor& p, Value) {
           require_shape("bernoulli", "self", self,
                         list_of(broadcast_sizes(p.sizes(), self.sizes())));
         },
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
     .meta = [](const Tensor& self, double, double,
                Value) { require_floating("normal", self.dtype()); },
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
                Pin pin) { return normal_meta(size, dtype, layout, device, pin); },
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

extern constinit const OpFamily op_family_create_random{create_random_rows};

}  // namespace tenon::ops
