// Numbers among the arguments of pointwise ops.
#include "ops/pointwise/number_roles.h"

#include <tenon/half.h>

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

uint32_t divisors_of(const ScalarProgram& program) {
  uint32_t inputs = 0;
  for (const ScalarInstr& step : program.instr) {
    bool divides = step.op() == ScalarCode::truncdiv || step.op() == ScalarCode::floordiv ||
                   step.op() == ScalarCode::fmod || step.op() == ScalarCode::mod;
    if (divides && step.b < program.n_inputs) inputs |= 1u << step.b;
  }
  return inputs;
}

bool rounds_numbers(const Schema& op) {
  constexpr std::string_view names[] = {
      "add",       "sub",       "subtract", "rsub",    "fmod",       "remainder",
      "pow",       "eq",        "ne",       "lt",      "le",         "gt",
      "ge",        "not_equal", "less",     "greater", "less_equal", "greater_equal",
      "hardshrink"};
  return op.ns == "aten" && std::ranges::find(names, op.name) != std::end(names);
}

double rounded_number(double number, Dtype dtype) {
  auto wide = static_cast<float>(number);
  return dtype == Dtype::f16 ? static_cast<float>(Half(wide)) : static_cast<float>(BFloat16(wide));
}

void check_factors(const CallArgs& call, uint64_t scaling, Dtype dtype) {
  for (uint32_t i = 0; i < call.n_args; ++i)
    require(
        !(scaling >> i & 1) || !call.args[i].is_number() || !call.args[i].number().is_floating(),
        "{}: argument {} of a result of {} must be an integer, found a floating number; cast the "
        "input to a floating dtype",
        call.op->name, call.op->schema.args[i].name, dtype);
}

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
