// Candidates judged in child processes: a crash or a hang there is a failure here.
#pragma once

#include "debug/child_process.h"
#include "debug/minify/backend_part.h"
#include "debug/minify/minify.h"

#include <string>
#include <vector>

namespace tenon {

/// The status with which a child that judges ends where the numbers are wrong.
inline constexpr int wrong_results_status = 9;

struct ChildJudgeOptions {
  /// Runs this program on a folder with graph.tng, without the folder and the backend.
  std::vector<std::string> arguments;
  std::string folder;      ///< for the files of a candidate
  double limit_s = 60;     ///< without news, after which a child hangs
  std::string keep_error;  ///< only failures whose text has it count; empty: all
};

class ChildJudge {
 public:
  explicit ChildJudge(ChildJudgeOptions options) : options_(std::move(options)) {}

  Failure judge(const Candidate& candidate, const std::string& backend,
                const BackendPart& part = {});
  /// Values of a run by eager ops; none where that fails.
  KnownValues known_values(const Candidate& candidate);
  /// While it is in haste, it waits no longer than five times the slowest child that ended by itself,
  /// at least a second. What is found so must be judged again with patience.
  void set_haste(bool hastens) { hastens_ = hastens; }

  /// Of the last child that has judged a call.
  int64_t n_regions() const { return n_regions_; }

 private:
  void hear(std::string_view told);
  double limit() const;
  ChildEnd run(const std::string& backend, const std::vector<std::string>& more);

  ChildJudgeOptions options_;
  bool hastens_ = false;
  double slowest_s_ = 0;
  int64_t n_regions_ = 0;
  std::string stage_;  ///< what the child did last
};

/// The smallest candidate that fails alike on the backend. Of one that hangs, the search is in haste
/// first.
Minified minify_in_children(ChildJudge& judge, const Candidate& whole, const std::string& backend,
                            const OnProgress& on_progress);

/// Of a child with --watched: writes a line for its parent.
void tell_parent(std::string_view stage);

}  // namespace tenon
