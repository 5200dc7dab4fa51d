// Random numbers of further distributions, from uniform and normal ones, and draws from given
// probabilities.
#include "core/sym/sym_int.h"
#include "ops/kernel_loops.h"
#include "ops/op.h"
#include "ops/shapes.h"

#include <tenon/ops.h>

#include <cmath>
#include <numbers>

namespace tenon::ops {

namespace {

constexpr OpTags drawn = OpTags::random;

/// Uniform numbers in (0, 1], in a floating dtype also for integers.
Tensor uniform_like(const Tensor& self) {
  Dtype dtype = is_floating(self.dtype()) ? self.dtype() : Dtype::f64;
  return rsub(rand_like(self, dtype), 1);
}

void require_floating(std::string_view op, const Tensor& self) {
  require(is_floating(self.dtype()), "{}: a floating dtype is expected, found {}", op,
          self.dtype());
}

Tensor exponential_of(const Tensor& self, double rate) {
  require_floating("exponential", self);
  require(rate > 0, "exponential: lambd must be positive, found {}", rate);
  return div(neg(log(uniform_like(self))), rate);
}

Tensor cauchy_of(const Tensor& self, double median, double sigma) {
  require_floating("cauchy", self);
  require(sigma > 0, "cauchy: sigma must be positive, found {}", sigma);
  Tensor angle = mul(sub(uniform_like(self), 0.5), std::numbers::pi);
  return add(mul(tan(angle), sigma), median);
}

Tensor log_normal_of(const Tensor& self, double mean, double deviation) {
  require_floating("log_normal", self);
  require(deviation > 0, "log_normal: std must be positive, found {}", deviation);
  return exp(add(mul(randn_like(self), deviation), mean));
}

// How many trials it takes to the first success.
Tensor geometric_of(const Tensor& self, double p) {
  require(p > 0 && p < 1, "geometric: p must lie between 0 and 1, found {}", p);
  Tensor trials = ceil(div(log(uniform_like(self)), std::log1p(-p)));
  return to(clamp_min(trials, 1), self.dtype());
}

/// Integers in [from, to), or all that the dtype counts exactly.
Tensor random_of(const Tensor& self, int64_t from, std::optional<int64_t> to_) {
  Dtype t = self.dtype();
  int64_t most = t == Dtype::f64     ? int64_t{1} << 53
                 : t == Dtype::f32   ? int64_t{1} << 24
                 : t == Dtype::f16   ? int64_t{1} << 11
                 : t == Dtype::bf16  ? int64_t{1} << 8
                 : t == Dtype::i64   ? INT64_MAX
                 : t == Dtype::i32   ? INT32_MAX
                 : t == Dtype::i16   ? INT16_MAX
                 : t == Dtype::bool_ ? 1
                 : t == Dtype::u8    ? UINT8_MAX
                                     : INT8_MAX;
  bool whole = is_integral(t) || t == Dtype::bool_ || is_floating(t);
  int64_t end = to_ ? *to_ : whole && most < INT64_MAX ? most + 1 : most;
  require(from < end, "random_: from {} must be below to {}", from, end);
  return to(randint_like(self, from, end, Dtype::i64), t);
}

// ---- draws from given probabilities

TensorMeta multinomial_meta(const Tensor& self, SymInt n, bool replacement, Value) {
  require(self.dim() == 1 || self.dim() == 2,
          "multinomial: a vector or a matrix of probabilities is expected, found shape {}",
          self.sizes());
  require_floating("multinomial", self);
  require(expect_true(n > 0), "multinomial: num_samples must be positive, found {}", n);
  require(replacement || expect_true(n <= self.size(-1)),
          "multinomial: without replacement there are {} samples at most, found num_samples {}",
          self.size(-1), n);
  Dims sizes = dims_of(self.sizes());
  sizes.back() = n;
  return contiguous_meta(list_of(sizes), Dtype::i64, self.device());
}

void check_probabilities(const Tensor& p) {
  auto holds = [](const Tensor& t) { return *data_of<bool>(tenon::all(t)); };
  require(holds(logical_and(isfinite(p), ge(p, 0))),
          "multinomial: probabilities must be finite and not negative");
  require(holds(gt(sum(p, -1), 0)), "multinomial: the probabilities of a row must not all be zero");
}

// With replacement by the distribution's inverse; without, the first to happen when each happens
// after an exponential time with its probability as the rate (Efraimidis and Spirakis, 2006).
void multinomial_kernel(Tensor& out, const Tensor& self, SymInt n, bool replacement, Value) {
  Tensor p = to(self, Dtype::f64);
  check_probabilities(p);
  if (!replacement) {
    Tensor keys = div(exponential_of(p, 1), p);
    return copy_elements(out, std::get<1>(topk(keys, n, -1, false)));
  }
  Tensor sums = cumsum(p, -1);
  Tensor draws = mul(rand(out.sizes(), Dtype::f64), narrow(sums, -1, self.size(-1) - 1, 1));
  Tensor found = searchsorted(sums.contiguous(), draws, false, true);
  copy_elements(out, clamp_max(found, Number(self.size(-1) - 1)));
}

}  // namespace

static constexpr OpDef rows[] = {
    {.schema = "exponential(Tensor self, float lambd=1., *, Generator? generator=None) -> Tensor",
     .tags = drawn,
     .decomp = [](const Tensor& self, double rate, Value) { return exponential_of(self, rate); },
     .vjp = nondiff},
    {.schema = "exponential_(Tensor(a!) self, float lambd=1., *, Generator? generator=None) -> "
               "Tensor(a!)",
     .tags = drawn,
     .decomp = [](const Tensor& self, double rate,
                  Value) { return copy_(self, exponential_of(self, rate)); }},
    {.schema = "cauchy(Tensor self, float median=0., float sigma=1., *, Generator? "
               "generator=None) -> Tensor",
     .tags = drawn,
     .decomp = [](const Tensor& self, double median, double sigma,
                  Value) { return cauchy_of(self, median, sigma); },
     .vjp = nondiff},
    {.schema = "cauchy_(Tensor(a!) self, float median=0., float sigma=1., *, Generator? "
               "generator=None) -> Tensor(a!)",
     .tags = drawn,
     .decomp = [](const Tensor& self, double median, double sigma,
                  Value) { return copy_(self, cauchy_of(self, median, sigma)); }},
    {.schema = "log_normal(Tensor self, float mean=1., float std=2., *, Generator? "
               "generator=None) -> Tensor",
     .tags = drawn,
     .decomp = [](const Tensor& self, double mean, double std,
                  Value) { return log_normal_of(self, mean, std); },
     .vjp = nondiff},
    {.schema = "log_normal_(Tensor(a!) self, float mean=1., float std=2., *, Generator? "
               "generator=None) -> Tensor(a!)",
     .tags = drawn,
     .decomp = [](const Tensor& self, double mean, double std,
                  Value) { return copy_(self, log_normal_of(self, mean, std)); }},
    {.schema = "geometric(Tensor self, float p, *, Generator? generator=None) -> Tensor",
     .tags = drawn,
     .decomp = [](const Tensor& self, double p, Value) { return geometric_of(self, p); },
     .vjp = nondiff},
    {.schema = "geometric_(Tensor(a!) self, float p, *, Generator? generator=None) -> Tensor(a!)",
     .tags = drawn,
     .decomp = [](const Tensor& self, double p,
                  Value) { return copy_(self, geometric_of(self, p)); }},
    {.schema = "random_(Tensor(a!) self, *, Generator? generator=None) -> Tensor(a!)",
     .tags = drawn,
     .decomp = [](const Tensor& self,
                  Value) { return copy_(self, random_of(self, 0, std::nullopt)); }},
    {.schema = "random_.to(Tensor(a!) self, int to, *, Generator? generator=None) -> Tensor(a!)",
     .tags = drawn,
     .decomp = [](const Tensor& self, int64_t end,
                  Value) { return copy_(self, random_of(self, 0, end)); }},
    {.schema = "random_.from(Tensor(a!) self, int from, int? to, *, Generator? generator=None) -> "
               "Tensor(a!)",
     .tags = drawn,
     .decomp = [](const Tensor& self, int64_t from, std::optional<int64_t> end,
                  Value) { return copy_(self, random_of(self, from, end)); }},
    {.schema = "multinomial(Tensor self, SymInt num_samples, bool replacement=False, *, "
               "Generator? generator=None) -> Tensor",
     .tags = drawn,
     .meta = fn<multinomial_meta>,
     .eager = fn<multinomial_kernel>,
     .vjp = nondiff},
};

extern constinit const OpFamily op_family_create_distributions{rows};

}  // namespace tenon::ops
