// What two branches take for granted about sizes.
//
// Problem: guards that the first branch has added are known while the second is recorded, so the
// second adds none for them, whether it needs them or not. Method: what the second branch asks is
// noted, known or not; those questions with their answers, on top of what was known before the
// call, must imply each guard of the first. Whatever the second adds, the first lacks.
#include "capture/guard_match.h"

#include "config/flags.h"
#include "core/error.h"
#include "core/sym/sym_simplify.h"

#include <algorithm>

namespace tenon {

GuardMatch::GuardMatch(std::string place)
    : place_(std::move(place)),
      env_(config::flags().dynamo.enforce_cond_guards_match ? current_shape_env() : nullptr) {
  if (!env_) return;
  before_ = env_->facts();
  n_before_ = n_between_ = env_->guards().size();
}

void GuardMatch::next() {
  if (!env_) return;
  n_between_ = env_->guards().size();
  second_.emplace();
}

std::string GuardMatch::list(const std::vector<const Expr*>& conditions) const {
  std::string text;
  for (const Expr* c : conditions) text += (text.empty() ? "" : ", ") + env_->source_text(c);
  return text.empty() ? "nothing" : text;
}

// The program wrote a number there; that it became a symbol is nothing that it could decide outside.
bool GuardMatch::is_about_body_number(const Expr* guard) const {
  return std::ranges::any_of(free_symbols(guard), [&](const Expr* symbol) {
    return env_->info(symbol).source.kind == SymbolSource::Kind::body_number;
  });
}

void GuardMatch::check() {
  if (!env_) return;
  SymFacts second = before_;
  for (const Expr* asked : second_->asked())
    if (std::optional<bool> holds = env_->statically_known(asked))
      second.assume(*holds ? asked : make_expr(SymOp::not_, {asked}));
  second_.reset();
  std::vector<const Expr*> of_first, of_second;
  bool match = true;
  for (size_t i = n_before_; i < env_->guards().size(); ++i) {
    const Expr* guard = env_->guards()[i].condition;
    bool added_by_first = i < n_between_;
    bool needed_by_second = !added_by_first || simplify(guard, &second)->is_true();
    if (added_by_first) of_first.push_back(guard);
    if (needed_by_second) of_second.push_back(guard);
    match = match && ((added_by_first && needed_by_second) || is_about_body_number(guard));
  }
  require(match,
          "{}: the branches take different things for granted about sizes: true_graph {}, "
          "false_graph {}; make both decide alike, decide outside, or set "
          "dynamo.enforce_cond_guards_match = false to guard both",
          place_, list(of_first), list(of_second));
}

}  // namespace tenon
