// Random numbers of further distributions, from uniform and normal ones, and draws from given
// probabilities.
#include "core/sym/sym_int.h"
#include "ops/kernel_loops.h"
#include "ops/op.h"
#include "ops/shape_check.h"

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

Tensor exponential_of(const Tensor& self, double rate) {
  require_floating("exponential", self.dtype());
  require(rate > 0, "exponential: lambd must be positive, found {}", rate);
  return div(neg(log(uniform_like(self))), rate);
}

Tensor cauchy_of(const Tensor& self, double median, double sigma) {
  require_floating("cauchy", self.dtype());
  require(sigma > 0, "cauchy: sigma must be positive, found {}", sigma);
  Tensor angle = mul(sub(uniform_like(self), 0.5), std::numbers::pi);
  return add(mul(tan(angle), sigma), median);
}

Tensor log_normal_of(const Tensor& self, double mean, double deviation) {
  require_floating("log_normal", self.dtype());
  require(deviation > 0, "log_normal: std must be positive, found {}", deviation);
  return exp(add(mul(randn_like(self), deviation), mean));
}

// How many trials it takes to the first success.
Tensor geometric_of(const Tensor& self, double p) {
  require(p > 0 && p < 1, "geometric: p must lie between 0 and 1, found {}", p);
  Tensor trials = ceil(div(log(uniform_like(self)), std::log1p(-p)));
  return to(clamp_min(trials, 1), self.dtype());
}

struct Range {
  int64_t least, most;
};

/// The integers that a dtype holds; of those beyond i64, i64's.
Range range_of(Dtype t) {
  switch (t) {
    case Dtype::bool_:
      return {0, 1};
    case Dtype::u8:
      return {0, UINT8_MAX};
    case Dtype::i8:
      return {INT8_MIN, INT8_MAX};
    case Dtype::i16:
      return {INT16_MIN, INT16_MAX};
    case Dtype::i32:
      return {INT32_MIN, INT32_MAX};
    case Dtype::f16:
      return {-65504, 65504};
    default:
      return {INT64_MIN, INT64_MAX};
  }
}

/// Up to which integer the dtype has all.
int64_t last_exact(Dtype t) {
  switch (t) {
    case Dtype::f64:
      return int64_t{1} << 53;
    case Dtype::f32:
      return int64_t{1} << 24;
    case Dtype::f16:
      return int64_t{1} << 11;
    case Dtype::bf16:
      return int64_t{1} << 8;
    default:
      return range_of(t).most;
  }
}

/// Integers in [from, to), or to the last that the dtype counts exactly.
Tensor random_of(const Tensor& self, int64_t from, std::optional<int64_t> to_) {
  Dtype t = self.dtype();
  require(!is_complex(t), ErrorCode::unsupported,
          "random_ does not compute on dtype {}; fill view_as_real() instead", t);
  int64_t exact = last_exact(t), end = to_ ? *to_ : exact < INT64_MAX ? exact + 1 : exact;
  require(from < end, "random_: from {} must be below to {}", from, end);
  Range range = range_of(t);
  require(from >= range.least && end - 1 <= range.most,
          "random_: {} holds {} to {}, found from {} and to {}", t, range.least, range.most, from,
          end);
  return to(randint_like(self, from, end, Dtype::i64), t);
}

// ---- draws from given probabilities

TensorMeta multinomial_meta(const Tensor& self, SymInt n, bool replacement, Value) {
  require(self.dim() == 1 || self.dim() == 2,
          "multinomial: a vector or a matrix of probabilities is expected, found shape {}",
          self.sizes());
  require_floating("multinomial", self.dtype());
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

static constexpr OpDef create_distributions_rows[] = {
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

extern constinit const OpFamily op_family_create_distributions{create_distributions_rows};

}  // namespace tenon::ops
