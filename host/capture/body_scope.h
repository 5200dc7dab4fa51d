// What holds while the body of a control flow op is recorded.
#pragma once

#include <string>

namespace tenon {

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

}  // namespace tenon
