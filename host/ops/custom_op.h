// Ops that a program or a plugin adds at run time.
#pragma once

#include "core/scalar/scalar_program.h"
#include "ops/op_table.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

/// What an op is made of. Its functions may be called on any threads at once. Without a kernel the
/// formula runs, else the decomposition; without `meta` and `like`, shapes come from the formula,
/// else from the decomposition run on fakes.
struct CustomOp {
  std::string schema;               ///< "my::swiglu(Tensor x, Tensor gate) -> Tensor"
  std::string owner = "a program";  ///< who added it, for messages
  OpTags tags = OpTags::none;       ///< facts that nothing else tells
  bool pt2_compliant = false;       ///< may enter graphs under dynamo.only_allow_pt2_compliant_ops
  bool seen_through = false;  ///< functional graphs have its decomposition, whatever the backend
  std::optional<ScalarProgram> formula;
  formula::Types formula_types = formula::floats;
  std::optional<uint32_t> like;  ///< each result has this argument's dtype, sizes and strides
  std::function<void(const CallArgs&, Metas&)> meta;
  std::function<void(const CallArgs&)> kernel;  ///< CPU; fills the results
  std::function<void(const CallArgs&)> decomp;  ///< calls other ops, on fakes too
  /// The gradient for each tensor argument and each element of a list, in the order of the
  /// arguments; undefined where there is none.
  std::function<std::vector<Tensor>(const CallArgs&, std::span<const Tensor> results,
                                    std::span<const Tensor> grads)>
      vjp;
};

/// Adds an op for the life of the process. Throws UserError, and adds nothing, for a schema that
/// does not parse or whose results an added op cannot have, a name that is taken, a formula that
/// does not fit the schema, or when nothing says how to run it or what its results look like. Any
/// thread.
const OpEntry& add_custom_op(CustomOp op);

/// What an op was made of, or null for ops of Tenon. In-place forms have none of their own.
const CustomOp* custom_op_of(const OpEntry& op);

/// An added op without a tag for it can draw random numbers in its parts: noted when they are first
/// recorded to know what its results look like. Any thread.
void note_drawing_parts(const OpEntry& op);
bool has_drawing_parts(const OpEntry& op);

/// Likewise: its parts read tensors that are not among its arguments.
void note_reading_around(const OpEntry& op);

/// An added op that captured graphs do not hold as one node: it reads tensors around it, which only
/// its parts show, or it is a function of allow_in_graph, by flag
/// dynamo.allowed_functions_module_string_ignorelist.
bool is_traced_through(const OpEntry& op);

}  // namespace tenon
