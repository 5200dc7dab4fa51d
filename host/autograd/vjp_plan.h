// How calls of one op are differentiated: its row's rules with names resolved, or rules derived
// from its formula.
#pragma once

#include "ops/op_table.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

/// One parameter of a rule: what the tape keeps or the engine brings.
struct VjpUse {
  enum class Kind : uint8_t { grad, grads, argument, sizes, meta, result, result_meta, needs };
  Kind kind;
  uint8_t index = 0;  ///< of the argument or result
  bool may_be_undefined = false;
  int8_t unless = -1;  ///< argument that, when true, makes this one undefined
  bool is_of_argument() const {
    return kind == Kind::argument || kind == Kind::sizes || kind == Kind::meta;
  }
  bool is_skipped(const CallArgs& call) const {
    return unless >= 0 && call.args[unless].number().to_bool();
  }
  bool is_saved() const { return kind != Kind::grad && kind != Kind::grads && kind != Kind::needs; }
  friend bool operator==(const VjpUse&, const VjpUse&) = default;
};

struct VjpPlanRule {
  std::vector<uint8_t> wrt;  ///< arguments
  std::vector<VjpUse> uses;
  BoxedFn fn = nullptr;
  const OpEntry* derived = nullptr;  ///< instead of fn: an op that computes the gradient
};

/// What the tape does with a call.
struct VjpPlan {
  enum class Kind : uint8_t {
    rules,    ///< one node
    parts,    ///< the decomposition runs and is recorded
    none,     ///< results have no gradient
    missing,  ///< nothing is known: a node that says so when it is reached
    custom,   ///< an added op with a vjp of its own
  };
  Kind kind = Kind::missing;
  std::vector<VjpPlanRule> rules;
  uint64_t differentiable = 0;  ///< bit i: argument i is in a rule
  /// Bit i: a rule uses the gradient of result i; the others have none, as PyTorch's indices, masks
  /// and weights beside the result.
  uint64_t results = 0;
};

/// The plan for a call of `op` (an in-place form has that of its functional row). Formulas that an
/// argument chooses have a plan each. Made at the first call; lives for good.
const VjpPlan& vjp_plan(const CallArgs& call);

/// Where an op comes from that was derived from a formula: it exists once the op that it is the
/// derivative of was differentiated, so texts that name it go with this.
struct DerivedOrigin {
  std::string op;
  int formula = 0;            ///< of those that an argument chooses
  std::vector<uint8_t> args;  ///< that are inputs of the formula
  friend auto operator<=>(const DerivedOrigin&, const DerivedOrigin&) = default;
};
/// Nothing for ops that are none.
std::optional<DerivedOrigin> origin_of_derived(const OpEntry& op);
/// Makes the derivatives again. Throws UserError where there is no such op, or no such formula.
void derive_ops(const DerivedOrigin& origin);
/// Makes the derivative of that name, where a row's formula has it. Whether it did.
bool derive_op_named(std::string_view name);

}  // namespace tenon
