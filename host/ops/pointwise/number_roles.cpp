// Numbers among the arguments of pointwise ops.
#include "ops/pointwise/number_roles.h"

#include <algorithm>
#include <bit>

namespace tenon {

namespace {

bool is_named(const SchemaArg& arg, std::initializer_list<std::string_view> names) {
  return arg.type.base == BaseType::scalar && std::ranges::find(names, arg.name) != names.end();
}

}  // namespace

bool promotes(const SchemaArg& arg) {
  return is_named(arg, {"other", "exponent", "self", "min", "max"});
}

bool scales(const SchemaArg& arg) { return is_named(arg, {"alpha"}); }

bool bounds(const SchemaArg& arg) { return is_named(arg, {"min", "max", "min_val", "max_val"}); }

uint64_t fitted_bound(ScalarLiteral bound, Dtype dtype) {
  size_t width = 8 * itemsize(dtype);
  if (is_floating(dtype) || dtype == Dtype::bool_) return bound.bits;
  if (width == 64) return bound.bits;
  int64_t low = dtype == Dtype::u8 ? 0 : -(int64_t{1} << (width - 1));
  int64_t high = low + (int64_t{1} << width) - 1;
  if (bound.is_float)
    return std::bit_cast<uint64_t>(
        std::clamp(bound.as_double(), static_cast<double>(low), static_cast<double>(high)));
  return static_cast<uint64_t>(std::clamp(static_cast<int64_t>(bound.bits), low, high));
}

}  // namespace tenon
