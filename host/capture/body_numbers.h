// Numbers that the body passes to operations, and sizes of the tensors that it captures, as symbols.
//
// Problem: `x * rate`, where `rate` is a member, a counter or an argument by value, would be another
// recording for each value; so would a captured tensor that grows. Model: the first value is a
// constant of the recording. A later recording of a body that has left the path of the first one
// compares its numbers with those of the path: where the same operation gets another number, or the
// same slot a tensor of another size, a symbol stands there, whose value each run gives. Such places
// are remembered for recordings to come. So are numbers in which the turns of a loop differ that ends
// a segment in each. Another course of the body has operations that none before had; a number that one
// of them gets is another use of one that is a symbol already, where it has its value. Captured
// tensors of equal sizes share a symbol, as caches of a network's layers grow together. What a
// recording takes for granted about the symbol is checked as soon as a run has given it. Flags
// dynamo.specialize_int and specialize_float keep numbers constants, dynamo.automatic_dynamic_shapes
// sizes, and dynamo.force_parameter_static_shapes those of leaves that need gradients.
#pragma once

#include "core/arguments.h"
#include "core/dispatch.h"
#include "core/sym/sym_int.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace tenon {

class Graph;
struct Node;
struct Recording;
struct ValueOrigin;

/// A number among the arguments of an operation, or a size of a captured tensor.
struct NumberPlace {
  static constexpr OpId of_size{0xFFFFFFFFu};
  uint32_t step;    ///< how many operations came before it
  OpId op;          ///< which it is; of_size: the first one that gets the tensor
  uint32_t arg;     ///< which argument, or which slot
  int32_t element;  ///< of a list, -1: the argument itself; or which dimension
  bool is_size() const { return op == of_size; }
  friend auto operator<=>(const NumberPlace&, const NumberPlace&) = default;
};

/// Whether it is a size, an index or a bound.
bool is_place(const NumberPlace& place);

/// A size that has the symbol of an earlier one.
struct SharedSize {
  NumberPlace place;
  uint32_t number;  ///< of the symbol
};

/// What a body has given, by number of the symbol.
struct GivenNumbers {
  std::vector<NumberPlace> places;
  std::vector<int64_t> words;  ///< in the run that was recorded
  std::vector<SharedSize> shared_sizes;
};

/// The number at a place of an earlier run of the body; nothing where there is none, it is a symbol,
/// or the run says nothing about it.
using EarlierNumber = std::function<std::optional<Number>(const NumberPlace& place)>;

/// The plain numbers of a recording that runs cannot be compared with: recordings to come learn from
/// them which ones change.
class PlainNumbers {
 public:
  explicit PlainNumbers(const Recording& recording);
  std::optional<Number> operator()(const NumberPlace& place) const;
  /// Of recordings of the same operations it is equal.
  static uint64_t course_of(const Recording& recording);

 private:
  void add_sizes(const Graph& graph, std::span<const ValueOrigin> origins);
  void add_arguments(uint32_t step, const Node& node);
  void add(const NumberPlace& place, Number number);

  std::map<NumberPlace, Number> numbers_;
};

class EarlierTurns;

class BodyNumbers {
 public:
  /// Of places in `wanted`, and of those where `earlier` or `turns`, which stay where they are, have
  /// another number.
  BodyNumbers(ShapeEnv& env, std::shared_ptr<const std::set<NumberPlace>> wanted,
              EarlierNumber earlier, EarlierTurns& turns)
      : env_(env), wanted_(std::move(wanted)), earlier_(std::move(earlier)), turns_(turns) {}

  /// Puts symbols for such numbers among the arguments of operation number `step`.
  void lift(uint32_t step, const OpEntry& op, std::span<Value> args, ArgumentLists& lists);

  /// The sizes of a captured tensor that operation number `step` is the first to get.
  Dims sizes_of(const Tensor& captured, uint32_t slot, uint32_t step);

  /// Values of numbers that change, plain ones and symbols: the body may give them to any operation.
  void expect(std::span<const double> plain, std::span<const Number> arguments);

  /// A number that the body has given before the trace began.
  void give(const NumberPlace& place, Number plain) { symbol_for(plain, place); }

  GivenNumbers given;
  bool is_paused = false;  ///< lift() leaves numbers as they are

 private:
  bool is_wanted_size(int64_t size, const NumberPlace& place) const;
  SymInt size_symbol(int64_t size, const NumberPlace& place);
  SymInt new_size_symbol(int64_t size, const NumberPlace& place);
  bool is_wanted(Number plain, const NumberPlace& place) const;
  bool is_of_numbers(const Expr* expr) const;
  void note_value(Number number);
  Number lifted(Number number, const NumberPlace& place);
  Number symbol_for(Number plain, const NumberPlace& place);

  ShapeEnv& env_;
  std::shared_ptr<const std::set<NumberPlace>> wanted_;
  EarlierNumber earlier_;
  EarlierTurns& turns_;
  std::vector<std::pair<SymInt, uint32_t>> size_symbols_;  // with their numbers
  // Of numbers that are symbols: the values in the run that is recorded.
  std::set<std::pair<bool, uint64_t>> values_;  // floating, word
};

/// Adds conditions on numbers of the body over `from` to the guards of another recording of the same
/// call. False where it lacks one of the numbers.
bool keep_conditions(std::span<const Expr* const> conditions,
                     const std::shared_ptr<const ShapeEnv>& from, Recording& recording);

}  // namespace tenon
