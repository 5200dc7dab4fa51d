// What the rows of Fourier transforms share.
#pragma once

#include "ops/shapes.h"

#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace tenon::ops {

/// The plugin that has the kernels of Fourier transforms.
inline constexpr const char* fftw = "kernels_fftw";

/// ATen's numbers: what a transform of n elements is divided by.
enum class FftNorm : int64_t { none = 0, by_root_n = 1, by_n = 2 };
/// A norm by its name; unset: "backward".
using Norm = std::optional<std::string_view>;
/// ATen's number of a norm. Throws UserError for unknown names.
int64_t number_of(Norm name, bool forward);

inline std::vector<SymInt> as_symbolic(std::span<const int64_t> dims) {
  return {dims.begin(), dims.end()};
}

/// The element type that a transform computes in; `complex`: the complex one. Throws UserError for
/// types that have no transform.
Tensor as_transformable(std::string_view op, const Tensor& t, bool complex);

/// Which dimensions are transformed, and the sizes that they are cut or padded to.
struct FftPlaces {
  std::vector<int64_t> dims;  ///< in [0, rank), in the order of the call
  Dims sizes;                 ///< of each
};
/// Throws UserError where `dim` names a dimension twice or `s` has another length.
FftPlaces fft_places(std::string_view op, const Tensor& t, OptSymIntList s, OptIntList dim);
/// Cut or padded with zeros at the end.
Tensor fft_resized(const Tensor& t, const FftPlaces& places);

}  // namespace tenon::ops
