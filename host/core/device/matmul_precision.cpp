// The precision by its name.
#include "core/device/matmul_precision.h"

#include "core/error.h"

#include <tenon/devices.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace tenon {

thread_local constinit MatmulPrecision matmul_precision = MatmulPrecision::highest;

namespace {

constexpr std::array<std::string_view, 3> names = {"highest", "high", "medium"};

}  // namespace

void set_float32_matmul_precision(std::string_view precision) {
  auto found = std::find(names.begin(), names.end(), precision);
  require(found != names.end(),
          "set_float32_matmul_precision: \"highest\", \"high\" or \"medium\" is expected, found "
          "\"{}\"",
          precision);
  matmul_precision = static_cast<MatmulPrecision>(found - names.begin());
}

std::string get_float32_matmul_precision() {
  return std::string(names[static_cast<size_t>(matmul_precision)]);
}

}  // namespace tenon
