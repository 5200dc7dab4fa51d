// Arguments held against the types of a schema, where C++ has not checked them.
#pragma once

#include "core/value.h"
#include "ops/schema.h"

#include <string>

namespace tenon {

/// Whether the schema takes `value` for `arg`: a number for a wider one, but not the other way round;
/// nothing where the argument is optional.
bool fits(const SchemaArg& arg, const Value& value);
/// "Tensor", "int[]", "None": what a value is, in the words of schemas.
std::string type_text(const Value& value);
/// Throws UserError with op, argument, type and what was found where `value` does not fit.
void require_fit(std::string_view op, const SchemaArg& arg, const Value& value);

}  // namespace tenon
