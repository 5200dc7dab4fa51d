// Numbers that the body passes to operations, as symbols.
//
// Problem: `x * rate`, where `rate` is a member, a counter or an argument by value, would be another
// recording for each value. Model: the first value is a constant of the recording. A later recording
// of a body that has left the path of the first one compares its numbers with those of the path:
// where the same operation gets another number, a symbol stands there, whose value each run gives.
// Such places are remembered for recordings to come. What a recording takes for granted about the
// symbol is checked as soon as a run has given it. Flags dynamo.specialize_int and specialize_float
// keep numbers constants.
#pragma once

#include "core/arguments.h"
#include "core/dispatch.h"
#include "core/sym/shape_env.h"

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <vector>

namespace tenon {

/// A number among the arguments of an operation.
struct NumberPlace {
  uint32_t step;    ///< how many operations came before it
  OpId op;          ///< which it is
  uint32_t arg;     ///< which argument
  int32_t element;  ///< of a list; -1: the argument itself
  friend auto operator<=>(const NumberPlace&, const NumberPlace&) = default;
};

/// The number at a place of an earlier run of the body; nothing where there is none or it is a symbol.
using EarlierNumber = std::function<std::optional<Number>(const NumberPlace& place)>;

class BodyNumbers {
 public:
  /// Of places in `wanted`, and of those where `earlier` has another number.
  BodyNumbers(ShapeEnv& env, std::shared_ptr<const std::set<NumberPlace>> wanted,
              EarlierNumber earlier)
      : env_(env), wanted_(std::move(wanted)), earlier_(std::move(earlier)) {}

  /// Puts symbols for such numbers among the arguments of operation number `step`.
  void lift(uint32_t step, const OpEntry& op, std::span<Value> args, ArgumentLists& lists);

  /// A number that the body has given before the trace began.
  void give(const NumberPlace& place, Number plain) { symbol_for(plain, place); }

  /// By number of the symbol: where it stands, and its value in this run.
  std::vector<NumberPlace> places;
  std::vector<int64_t> words;

 private:
  bool is_wanted(Number plain, const NumberPlace& place) const;
  Number symbol_for(Number plain, const NumberPlace& place);

  ShapeEnv& env_;
  std::shared_ptr<const std::set<NumberPlace>> wanted_;
  EarlierNumber earlier_;
};

}  // namespace tenon
