// How the types and defaults of schemas are written in the C++ API.
#pragma once

#include "ops/schema.h"

#include <string>

namespace tenon::opgen {

/// "const Tensor&", "SymIntList", "std::optional<double>", ...; empty when no C++ type carries it.
std::string param_type(const SchemaType& type);
/// "Tensor", "std::vector<Tensor>", ...; empty when no C++ type carries it.
std::string result_type(const SchemaType& type);
/// The default of an argument as an initialiser: "{0, 1}", "std::nullopt", "Dtype::i64".
std::string default_text(const SchemaArg& arg);
/// The name, with a trailing underscore where C++ keeps it for itself.
std::string identifier(std::string_view name);
/// True for types that a plain number converts to (or is) when passed for them.
bool takes_numbers(std::string_view param_type);
/// True where that conversion is a constructor, so that C++ does not prefer one of two such types.
bool constructs_from_number(std::string_view param_type);

}  // namespace tenon::opgen
