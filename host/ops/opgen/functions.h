// The C++ functions of the public API: one per overload, with names and defaults that C++'s
// overload resolution can tell apart.
#pragma once

#include "ops/opgen/scan.h"

#include <string>
#include <vector>

namespace tenon::opgen {

struct Param {
  std::string type, name;
  std::string default_text;  ///< empty: required
  size_t arg = 0;            ///< index of the argument in the schema
  bool kwarg_only = false;
  bool exact = false;  ///< a bool that numbers must not convert to
};

struct Function {
  Schema schema;
  std::string name;
  std::vector<Param> params;   ///< arguments that are written and keyword-only come first
  size_t required = 0;         ///< parameters before this one have no default
  size_t schema_required = 0;  ///< the same, by the schema alone
  std::string result;  ///< "void" for none, a tuple for several, or a class with their names
  std::vector<std::string> result_types;  ///< of each
  std::string tuple;                      ///< where `result` is such a class: its tuple
  bool is_method = false;                 ///< also a method of Tensor
  std::string space() const { return schema.ns == "aten" ? "" : schema.ns; }
};

/// The functions for `schemas`, in their order. Overloads that C++ cannot express have none:
/// namespaces `sym` and `tenon`, names that begin with "__", types without a C++ form, a required
/// Generator.
std::vector<Function> make_functions(const std::vector<Schema>& schemas);

}  // namespace tenon::opgen
