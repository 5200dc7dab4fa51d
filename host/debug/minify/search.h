// The search for a smaller candidate that fails in the same way: the best so far, and trying others.
#pragma once

#include "debug/minify/candidate.h"
#include "debug/minify/failure.h"

#include <functional>
#include <set>

namespace tenon {

/// Runs a candidate and says how it failed. Throws nothing for what is wrong with the candidate.
using FailureJudge = std::function<Failure(const Candidate& candidate)>;

/// Where a search stands, for people.
struct SearchProgress {
  size_t nodes = 0, inputs = 0, outputs = 0;
  int64_t elements = 0;  ///< of all inputs, at their example sizes
  size_t tries = 0;
};
using OnProgress = std::function<void(const SearchProgress&)>;

class Search {
 public:
  /// `failure`: that of `whole`, which all others must have.
  Search(Candidate whole, Failure failure, const FailureJudge& judge,
         const OnProgress& on_progress);

  const Candidate& best() const { return best_; }
  const Graph& graph() const { return *best_.graph; }
  const Failure& failure() const { return failure_; }
  /// Whether the candidate fails alike; then it is the best. One that was tried before is not run
  /// again.
  bool take(Candidate candidate);
  bool take(std::optional<Candidate> candidate) {
    return candidate.has_value() && take(std::move(*candidate));
  }
  size_t tries() const { return tries_; }
  size_t successes() const { return successes_; }
  SearchProgress progress() const;

 private:
  Candidate best_;
  Failure failure_;
  const FailureJudge& judge_;
  const OnProgress& on_progress_;
  std::set<std::string> tried_;
  size_t tries_ = 0, successes_ = 0;
};

/// Some of the numbers 0 to n-1, ascending, without any of which `fails` is false: delta debugging.
/// It is taken that all together fail, and `fails` is not asked about them. At least `least` stay.
std::vector<size_t> smallest_part(size_t n,
                                  const std::function<bool(const std::vector<size_t>&)>& fails,
                                  size_t least = 1);

}  // namespace tenon
