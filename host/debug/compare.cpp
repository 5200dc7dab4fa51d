// Comparing tensors element by element in double precision.
#include "debug/compare.h"

#include "core/error.h"
#include "core/tensor/tensor_impl.h"

#include <tenon/ops/view.h>

#include <algorithm>
#include <cmath>

namespace tenon {

namespace {

struct Tolerance {
  double relative, absolute;
};

Tolerance tolerance_of(Dtype dtype, const CompareOptions& options) {
  double factor = (options.gradient ? 10 : 1) * options.slack;
  switch (dtype) {
    case Dtype::f64:
    case Dtype::c128:
      return {1e-9 * factor, 1e-9 * factor};
    case Dtype::f32:
    case Dtype::c64:
      return {1e-4 * factor, 1e-5 * factor};
    default:
      return {1e-2 * factor, 1e-2 * factor};
  }
}

std::vector<double> as_doubles(const Tensor& t) {
  Tensor flat = is_complex(t.dtype()) ? view_as_real(t) : t;
  return flat.to(Dtype::f64).to_vector<double>();
}

bool is_exact(Dtype dtype) { return is_integral(dtype) || dtype == Dtype::bool_; }

std::string problem_of(const Tensor& found, const Tensor& expected, bool any_dtype) {
  if (!found.defined() || !expected.defined())
    return message("expected {}, found {}", symbolic_text(expected), symbolic_text(found));
  bool same_sizes = symbolic_text(found.sizes()) == symbolic_text(expected.sizes());
  if (!same_sizes || (!any_dtype && found.dtype() != expected.dtype()))
    return message("expected {}, found {}", symbolic_text(expected), symbolic_text(found));
  return "";
}

// Integers beyond 2^53 do not fit a double.
void compare_integers(const Tensor& found, const Tensor& expected, Comparison& out) {
  auto a = found.to(Dtype::i64).to_vector<int64_t>();
  auto b = expected.to(Dtype::i64).to_vector<int64_t>();
  out.ok = a == b;
}

}  // namespace

Comparison compare_tensors(const Tensor& found, const Tensor& expected,
                           const CompareOptions& options) {
  Comparison out;
  out.problem = problem_of(found, expected, options.any_dtype);
  if (!out.problem.empty()) return out;
  std::vector<double> a = as_doubles(found), b = as_doubles(expected);
  double largest = 1;
  for (double y : b)
    if (std::isfinite(y)) largest = std::max(largest, std::abs(y));
  Tolerance tolerance = tolerance_of(found.dtype(), options);
  Tolerance other = tolerance_of(expected.dtype(), options);
  if (other.relative > tolerance.relative) tolerance = other;
  double aa = 0, bb = 0, ab = 0;
  out.ok = true;
  for (size_t i = 0; i < a.size(); ++i) {
    bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]));
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) {
      if (!same) {
        out.ok = false;
        out.max_abs = out.max_rel = INFINITY;
      }
      continue;
    }
    double error = std::abs(a[i] - b[i]);
    out.max_abs = std::max(out.max_abs, error);
    if (error > 0) out.max_rel = std::max(out.max_rel, error / std::max(std::abs(b[i]), 1e-30));
    if (error > tolerance.relative * std::abs(b[i]) + tolerance.absolute * largest) out.ok = false;
    aa += a[i] * a[i];
    bb += b[i] * b[i];
    ab += a[i] * b[i];
  }
  out.cosine = aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : (aa == bb ? 1 : 0);
  if (is_exact(found.dtype()) && is_exact(expected.dtype())) compare_integers(found, expected, out);
  return out;
}

}  // namespace tenon
