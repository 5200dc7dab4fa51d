// Earlier turns of a loop that looks at data.
//
// Problem: each turn of such a loop ends a segment, and a turn often gives its operations another
// number, an index or a factor, so each would be compiled by itself. Model: a segment that begins with
// the same operations as an earlier one of the same recording is another turn; a number in which they
// differ is one of the body, see body_numbers.h, from the second turn on. So is a size of a tensor
// that an earlier segment has made, as of one that grows, and so is the place of a view in its memory:
// once two segments have been alike, what follows them gets a name for it, see
// SymbolInfo::stands_for, and so does a number that the body has computed from such sizes. Equal
// values have one name in a segment. So turns have equal graphs, and code in common. Method: as the
// segment grows, the earlier ones that go another way drop out.
//
// Threads: belongs to the thread of the recording.
#pragma once

#include "capture/body_numbers.h"
#include "graph/graph.h"

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace tenon {

class EarlierTurns {
 public:
  /// There are none unless they are to be looked for.
  EarlierTurns(ShapeEnv& env, bool looks) : env_(env), looks_(looks) {}
  /// A segment has ended, or has been taken over from another recording.
  void add(std::shared_ptr<const Graph> segment);
  /// An operation comes next.
  void expect(OpId op) { expected_ = op; }
  /// The segment in progress has one more operation.
  void pass(const Node& node);
  /// What one of them has got in the place of `plain` for the operation that comes next: another
  /// number, or a symbol for one of the body.
  std::optional<Number> other_number(const NumberPlace& place, Number plain) const;
  /// Names those of `sizes`, of what becomes input number `input` of the segment, that are others in
  /// one of them.
  void name_sizes(Dims& sizes, size_t input);
  /// The same for where in its memory it begins.
  SymInt named_offset(SymInt offset, size_t input);
  /// A name for a symbolic integer that is another one in one of them; the number itself where it is
  /// none.
  Number named(const NumberPlace& place, Number number);
  bool are_none() const { return alike_.empty(); }

 private:
  struct Turn {
    std::shared_ptr<const Graph> graph;
    bool repeats;     // the segment before it has the operations of the last one
    NodeId next = 0;  // the node that comes next, if it goes on alike
  };
  static void skip_assertions(Turn& turn);
  template <class F>
  bool is_other_in_turn(size_t input, SymInt number, F number_of) const;
  SymInt name_of(SymInt number, bool is_offset = false);

  ShapeEnv& env_;
  const bool looks_;
  // Of this segment, by what they stand for, and whether they are offsets.
  std::map<std::pair<const Expr*, bool>, SymInt> names_;
  std::vector<std::shared_ptr<const Graph>> segments_;  // the last ones
  std::vector<Turn> alike_;
  OpId expected_{};
};

}  // namespace tenon
