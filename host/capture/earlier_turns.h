// Earlier turns of a loop that looks at data.
//
// Problem: each turn of such a loop ends a segment, and a turn often gives its operations another
// number, an index or a factor, so each would be compiled by itself. Model: a segment that begins with
// the same operations as an earlier one of the same recording is another turn; a number in which they
// differ is one of the body, see body_numbers.h, from the second turn on. So turns have equal graphs,
// and code in common. Method: as the segment grows, the earlier ones that go another way drop out.
//
// Threads: belongs to the thread of the recording.
#pragma once

#include "capture/body_numbers.h"
#include "graph/graph.h"

#include <memory>
#include <optional>
#include <vector>

namespace tenon {

class EarlierTurns {
 public:
  /// There are none unless they are to be looked for.
  explicit EarlierTurns(bool looks) : looks_(looks) {}
  /// A segment has ended, or has been taken over from another recording.
  void add(std::shared_ptr<const Graph> segment);
  /// The segment in progress has one more operation.
  void pass(const Node& node);
  /// What one of them has got in the place of `plain` for the operation that comes next: another
  /// number, or a symbol for one of the body.
  std::optional<Number> other_number(const NumberPlace& place, Number plain) const;
  bool are_none() const { return alike_.empty(); }

 private:
  struct Turn {
    std::shared_ptr<const Graph> graph;
    NodeId next = 0;  // the node that comes next, if it goes on alike
  };
  static void skip_assertions(Turn& turn);

  const bool looks_;
  std::vector<std::shared_ptr<const Graph>> segments_;  // the last ones
  std::vector<Turn> alike_;
};

}  // namespace tenon
