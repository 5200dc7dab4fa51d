#include "split.h"

#include <algorithm>

namespace blocks {

using loopir::Expressions;
using loopir::Id;
using loopir::Ids;
using loopir::IndexKind;
using loopir::none;
using loopir::Stage;
using loopir::Statement;

namespace {

class Splitter {
 public:
  Splitter(loopir::Program& program, loopir::Nest nest)
      : x_(program.expressions), nest_(std::move(nest)) {}

  loopir::Nest run() {
    loopir::Kernel& kernel = nest_.kernel;
    if (nest_.lanes != none) {
      std::vector<Stage*> all;
      for (Stage& stage : kernel.stages) all.push_back(&stage);
      split(kernel.outer, nest_.lanes, all);
      nest_.rows = x_.constant(1);
      for (Id v : kernel.outer)
        if (v != nest_.lanes) nest_.rows = x_.multiply(nest_.rows, x_.extent_of(v));
    }
    for (size_t s = 0; s < kernel.stages.size(); ++s)
      if (Id& lanes = nest_.lanes_of_stage[s]; lanes != none && !is_scan(kernel.stages[s]))
        split(kernel.stages[s].inner, lanes, {&kernel.stages[s]});
    return std::move(nest_);
  }

 private:
  static bool is_scan(const Stage& stage) {
    return std::ranges::any_of(stage.statements, &Statement::is_scan);
  }

  // Until nothing is taken apart, at most a few times.
  void split(Ids& variables, Id& lanes, const std::vector<Stage*>& stages) {
    constexpr int most = 3;
    for (int round = 0; round < most; ++round) {
      int64_t n = divisor_of(lanes, stages);
      if (n == 0) return;
      int64_t extent = *x_.number_of(x_.extent_of(lanes));
      Id slow = x_.variable(x_.constant(extent / n)), fast = x_.variable(x_.constant(n));
      Id whole = x_.add(x_.multiply(slow, x_.constant(n)), fast);
      loopir::Substitution by{{lanes, whole}};
      for (Stage* stage : stages) substitute(*stage, by);
      auto at = std::ranges::find(variables, lanes);
      *at = fast;
      variables.insert(at, slow);
      lanes = fast;
    }
  }

  // The largest n by which an index divides the lanes, if it is a divisor of their extent.
  int64_t divisor_of(Id lanes, const std::vector<Stage*>& stages) {
    auto extent = x_.number_of(x_.extent_of(lanes));
    int64_t best = 0;
    auto see = [&](Id index) {
      if (extent) best = std::max(best, divisor_in(index, lanes, *extent));
    };
    for (const Stage* stage : stages)
      for (const Statement& s : stage->statements) {
        loopir::for_each_load(x_, s.value, [&](const loopir::ValueNode& load) { see(load.b); });
        if (s.buffer != none) see(s.index);
      }
    return best;
  }
  int64_t divisor_in(Id index, Id lanes, int64_t extent) {
    const loopir::IndexNode node = x_.index_at(index);
    int64_t best = 0;
    if (!x_.depends_on(index, lanes)) return best;
    if (node.kind == IndexKind::floordiv || node.kind == IndexKind::mod) {
      auto n = x_.number_of(node.operands[1]);
      bool is_one = n && x_.coefficient(node.operands[0], lanes) == x_.constant(1);
      if (is_one && *n >= shortest_run && *n < extent && extent % *n == 0) best = *n;
    }
    for (Id operand : node.operands) best = std::max(best, divisor_in(operand, lanes, extent));
    return best;
  }

  void substitute(Stage& stage, const loopir::Substitution& by) {
    for (Statement& s : stage.statements) {
      s.value = x_.substitute(s.value, by);
      if (s.index != none) s.index = x_.substitute_index(s.index, by);
      if (s.position != none) s.position = x_.substitute_index(s.position, by);
    }
  }

  // Shorter ones cost more than to look up each element.
  static constexpr int64_t shortest_run = 8;

  Expressions& x_;
  loopir::Nest nest_;
};

}  // namespace

loopir::Nest split_lanes(loopir::Program& program, const loopir::Nest& nest) {
  return Splitter(program, nest).run();
}

}  // namespace blocks
