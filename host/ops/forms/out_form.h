// The `.out` form of every functional op, derived when it is first asked for.
#pragma once

#include "ops/op_table.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

/// A functional overload that `name.out` or `name.x_out` may be the out form of.
struct OutFormOf {
  std::string functional;              ///< its canonical name
  std::vector<std::string_view> outs;  ///< what the out arguments are called; empty: by rule
  bool is_listed = false;              ///< by a name that follows no rule
};

/// Best first; empty when the name is none of an out form.
std::vector<OutFormOf> functional_names(std::string_view out_name);

/// The schema of the out form `out_name` of `row`; nullopt when the row has none.
std::optional<Schema> out_form_schema(std::string_view out_name, const OpEntry& row,
                                      const OutFormOf& of);

/// Whether `out` says what options of the functional op would: dtype and device of a new tensor.
inline bool out_gives_options(const OpEntry& out_form) {
  return out_form.n_args != out_form.functional->n_args + out_form.n_returns;
}

/// Arguments of the functional op, given those of its out form and what is written.
std::vector<Value> functional_args(const OpEntry& out_form, const Value* args, const Tensor& out);

/// Runs the functional op and stores its results in the out arguments: an empty one takes the
/// result's shape, any other must have it. Throws UserError where the dtype cannot be cast.
void run_out_form(const CallArgs& call);

}  // namespace tenon
