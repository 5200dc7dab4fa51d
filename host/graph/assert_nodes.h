// What a recording takes for granted about numbers that only the run knows, as assertion nodes.
#pragma once

#include "graph/record.h"

#include <string_view>
#include <vector>

namespace tenon {

/// Asserts of the recorder's environment, each emitted as a node as soon as the nodes so far, or
/// the inputs, bind all of its symbols. Used while the recorder records; lives as long as it.
class AssertNodes {
 public:
  /// `remark`: the end of the messages.
  explicit AssertNodes(GraphRecorder& recorder, std::string_view remark = {})
      : recorder_(recorder), remark_(remark) {}

  /// Those there are by now, but for those that wait, need no node.
  void skip_new();
  /// To be called before and after each node.
  void emit();

 private:
  bool is_bound(const Expr* condition) const;

  GraphRecorder& recorder_;
  std::string_view remark_;
  std::vector<size_t> waiting_;  // of the environment, until their symbols are bound
  size_t n_seen_ = 0;
};

}  // namespace tenon
