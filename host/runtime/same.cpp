// The rule of accuracy checks, over copies in double precision.
#include "runtime/same.h"

#include "core/tensor/tensor_impl.h"

#include <tenon/ops/view.h>

#include <algorithm>
#include <cmath>

namespace tenon {

namespace {

using Numbers = std::vector<double>;

Numbers numbers_of(const Tensor& t) {
  if (is_complex(t.dtype())) return view_as_real(t).to(Dtype::f64).contiguous().to_vector<double>();
  return t.to(Dtype::f64).contiguous().to_vector<double>();
}

bool close(double found, double reference, double tolerance) {
  if (std::isnan(found) || std::isnan(reference)) return std::isnan(found) && std::isnan(reference);
  if (std::isinf(found) || std::isinf(reference)) return found == reference;
  return std::abs(found - reference) <= tolerance + tolerance * std::abs(reference);
}

bool all_close(const Numbers& found, const Numbers& reference, double tolerance) {
  for (size_t i = 0; i < found.size(); ++i)
    if (!close(found[i], reference[i], tolerance)) return false;
  return true;
}

// NaN and infinities that agree do not count.
double root_mean_square(const Numbers& found, const Numbers& exact) {
  double sum = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    if (close(found[i], exact[i], 0)) continue;
    double d = found[i] - exact[i];
    sum += d * d;
  }
  return found.empty() ? 0 : std::sqrt(sum / static_cast<double>(found.size()));
}

bool has_nan(const Numbers& numbers) {
  return std::any_of(numbers.begin(), numbers.end(), [](double x) { return std::isnan(x); });
}

double multiplier(const Tensor& found, double tolerance) {
  bool narrow = found.dtype() == Dtype::f16 || found.dtype() == Dtype::bf16;
  bool pooled = found.dim() == 4 && found.size(2).word() == 1 && found.size(3).word() == 1;
  return narrow || pooled || found.numel().word() < 1000 || tolerance >= 0.02 ? 3 : 2;
}

// Whether the double run excuses the result.
bool excused(const Tensor& found, const Numbers& numbers, const Numbers& reference,
             const Numbers& exact, double tolerance) {
  if (has_nan(reference) && !has_nan(exact) && !has_nan(numbers))
    return all_close(numbers, exact, 0.04);
  double own = root_mean_square(numbers, exact), theirs = root_mean_square(reference, exact);
  return own <= multiplier(found, tolerance) * theirs + tolerance / 10;
}

std::string first_difference(const Numbers& found, const Numbers& reference, double tolerance) {
  size_t n = 0, first = found.size();
  for (size_t i = 0; i < found.size(); ++i) {
    if (close(found[i], reference[i], tolerance)) continue;
    first = std::min(first, i);
    ++n;
  }
  return message("{} of {} elements differ, the first is {} and must be {}", n, found.size(),
                 found[first], reference[first]);
}

}  // namespace

std::string difference_of(const Tensor& found, const Tensor& reference, const Tensor& exact,
                          const SameOptions& options) {
  if (found.defined() != reference.defined())
    return found.defined() ? "must be undefined" : "is undefined";
  if (!found.defined()) return "";
  bool like = found.dtype() == reference.dtype() && found.dim() == reference.dim();
  for (int64_t d = 0; like && d < found.dim(); ++d)
    like = found.size(d).word() == reference.size(d).word();
  if (!like) return message("is {}, must be {}", found, reference);
  bool floating = is_floating(found.dtype()) || is_complex(found.dtype());
  if (!floating && options.ignore_non_floating) return "";
  double tolerance = floating ? options.tolerance : 0;
  Numbers own = numbers_of(found), theirs = numbers_of(reference);
  if (all_close(own, theirs, tolerance)) return "";
  if (floating && exact.defined() && exact.numel().word() == found.numel().word() &&
      excused(found, own, theirs, numbers_of(exact), tolerance))
    return "";
  return first_difference(own, theirs, tolerance);
}

}  // namespace tenon
