// Arguments and parameters held against the types of a schema, where C++ has not checked them.
#pragma once

#include "core/value.h"
#include "ops/schema.h"

#include <span>
#include <string>

namespace tenon {

namespace detail {
enum class OpParameter : uint8_t;  // of tenon/library.h
}

/// Whether the schema takes `value` for `arg`: a number for a wider one, but not the other way round;
/// nothing where the argument is optional.
bool fits(const SchemaArg& arg, const Value& value);
/// "Tensor", "int[]", "None": what a value is, in the words of schemas.
std::string type_text(const Value& value);
/// Throws UserError with op, argument, type and what was found where `value` does not fit.
void require_fit(std::string_view op, const SchemaArg& arg, const Value& value);
/// Throws UserError where a function of the program, `what` of an op ("kernel"), cannot take what the
/// schema gives it: another number of arguments, or one of another type. A whole number may come for a
/// real one.
void require_parameters(const Schema& schema, std::string_view what,
                        std::span<const detail::OpParameter> parameters);

}  // namespace tenon
