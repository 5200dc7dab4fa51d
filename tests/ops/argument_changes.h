// What an argument of a recorded call can become so that the call makes no sense any more.
#pragma once

#include "debug/op_compare.h"

#include <functional>
#include <string>
#include <vector>

namespace tenon::testing {

/// A change of one argument: what it is called, and how it is made on a fresh call.
struct Change {
  std::string what;
  std::function<void(CallValues&)> apply;
};

/// Adds the changes that the type of argument `arg` admits.
void add_changes(std::vector<Change>& out, const SchemaArg& schema, size_t arg);

/// The tensors of a list; none where `v` is not one.
std::vector<Tensor> list_in(const Value& v);

}  // namespace tenon::testing
