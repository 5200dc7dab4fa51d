// What holds while the body of a control flow op, or a part of an op, is recorded.
#pragma once

#include "ops/modes/autocast.h"

#include <tenon/tensor.h>

#include <string>
#include <utility>
#include <vector>

namespace tenon {

class GraphRecorder;

/// Forbids looking at data on this thread: whoever tries ends with an error that names `place`.
class BodyScope {
 public:
  BodyScope(std::string place, GraphRecorder& outer);
  ~BodyScope();
  BodyScope(const BodyScope&) = delete;

  /// Throws UserError (graph_break) inside of a scope: `reason` is what looks at data, and where.
  static void check(const std::string& reason);
  /// The same for what asks the tape, which has no nodes of operations inside of the body.
  static void check_for_tape(const std::string& reason);
  /// Whether this thread is inside of a scope.
  static bool is_inside();

  /// `fake`, an input of the body, is `around`; undefined for slices and what is carried.
  void stands_for(const Tensor& fake, const Tensor& around) {
    stand_ins_.emplace_back(fake, around);
  }
  /// Of an input of a body that this thread is inside of: what stands for it outside; else null.
  static const Tensor* around(const Tensor& fake);
  /// The recorder around some body of this thread that has made the fake, or null.
  static GraphRecorder* owner_of(const Tensor& fake);

 private:
  std::string place_;
  GraphRecorder& recorder_;  // the one around the body
  std::vector<std::pair<Tensor, Tensor>> stand_ins_;
  const BodyScope* outer_;
  CastsOfBody no_casts_{false};  // those of the body around are no values of this graph
};

/// Throws UserError where this thread runs parts of an op and no code of the body that `recorder`
/// records: data_dependent where the op is asked what its results look like, and can be run instead;
/// else unsupported.
void require_own_code(const GraphRecorder& recorder, const std::string& problem);

}  // namespace tenon
