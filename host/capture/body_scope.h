// What holds while the body of a control flow op, or a part of an op, is recorded.
#pragma once

#include <string>

namespace tenon {

class GraphRecorder;

/// Forbids looking at data on this thread: whoever tries ends with an error that names `place`.
class BodyScope {
 public:
  explicit BodyScope(std::string place);
  ~BodyScope();
  BodyScope(const BodyScope&) = delete;

  /// Throws UserError (graph_break) inside of a scope: `reason` is what looks at data, and where.
  static void check(const std::string& reason);
  /// Whether this thread is inside of a scope.
  static bool is_inside();

 private:
  std::string place_;
  const BodyScope* outer_;
};

/// Throws UserError where this thread runs parts of an op and no code of the body that `recorder`
/// records: data_dependent where the op is asked what its results look like, and can be run instead;
/// else unsupported.
void require_own_code(const GraphRecorder& recorder, const std::string& problem);

}  // namespace tenon
