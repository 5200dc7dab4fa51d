// Where values and indices are known, and whether they differ from lane to lane.
#include "scopes.h"

#include <algorithm>

namespace blocks {

using loopir::IndexKind;
using loopir::ValueNode;

void Scopes::open() {
  code_.bodies.emplace_back();
  scopes_.push_back({static_cast<uint32_t>(code_.bodies.size() - 1), {}, {}, {}, {}});
}

uint32_t Scopes::close() {
  uint32_t body = scopes_.back().body;
  scopes_.pop_back();
  return body;
}

Id Scopes::new_value(size_t bytes, bool is_block) {
  registers_.push_back({bytes, is_block});
  return static_cast<Id>(registers_.size() - 1);
}

void Scopes::bind(Id variable, Id number) {
  scope_of_variable_[variable] = innermost();
  variables_[variable] = number;
}

bool Scopes::varies(Id v) {
  if (!lanes.are_open()) return false;
  if (lanes.are_rows && after_folds_.has_value(v)) return true;
  const loopir::Ids& all = program_.expressions.variables_of(v);
  return std::ranges::any_of(
      lanes.variables, [&](Id lane) { return std::binary_search(all.begin(), all.end(), lane); });
}

bool Scopes::is_of_rows(Id v) {
  if (lanes.elements == none || !varies(v)) return false;
  const loopir::Ids& all = program_.expressions.variables_of(v);
  return !std::binary_search(all.begin(), all.end(), lanes.elements);
}

bool Scopes::index_varies(Id i) {
  if (!lanes.are_open()) return false;
  return (lanes.are_rows && after_folds_.has_index(i)) ||
         std::ranges::any_of(lanes.variables,
                             [&](Id lane) { return program_.expressions.depends_on(i, lane); });
}

std::optional<loopir::Ids> Scopes::lane_steps(Id i) {
  if (lanes.are_rows && after_folds_.has_index(i)) return std::nullopt;  // each lane has its own
  loopir::Ids out;
  for (Id lane : lanes.variables) {
    std::optional<Id> step = program_.expressions.coefficient(i, lane);
    // One that grows with another variable of the lanes is not a line.
    bool is_fixed = step && std::ranges::none_of(lanes.variables, [&](Id other) {
                      return program_.expressions.depends_on(*step, other);
                    });
    if (!is_fixed) return std::nullopt;
    out.push_back(*step);
  }
  return out;
}

size_t Scopes::of_variables(const loopir::Ids& variables) const {
  size_t out = 0;
  for (Id v : variables)
    if (auto at = scope_of_variable_.find(v); at != scope_of_variable_.end())
      out = std::max(out, at->second);
  return out;
}

size_t Scopes::of_value(Id v) {
  size_t out = of_variables(program_.expressions.variables_of(v));
  return after_folds_.has_value(v) ? std::max(out, row) : out;
}

size_t Scopes::of_index(Id i) {
  size_t out = of_variables(program_.expressions.variables_of_index(i));
  return after_folds_.has_index(i) ? std::max(out, row) : out;
}

}  // namespace blocks
