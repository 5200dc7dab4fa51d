// Flag dynamo.enforce_cond_guards_match: both branches of a cond take the same for granted.
#pragma once

#include "core/sym/shape_env.h"
#include "core/sym/size_questions.h"

#include <optional>
#include <string>
#include <vector>

namespace tenon {

/// Made before the first branch is recorded; does nothing where the flag is off.
class GuardMatch {
 public:
  explicit GuardMatch(std::string place);
  /// Between the branches.
  void next();
  /// After the second one. Throws UserError that lists what each takes for granted about sizes,
  /// unless each implies the other's.
  void check();

 private:
  std::string list(const std::vector<const Expr*>& conditions) const;
  bool is_about_body_number(const Expr* guard) const;

  std::string place_;
  ShapeEnv* env_;
  SymFacts before_;
  size_t n_before_, n_between_;
  std::optional<SizeQuestions> second_;
};

}  // namespace tenon
