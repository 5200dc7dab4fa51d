// What functions whose results never change have given, for the calls that a version serves.
//
// Problem: a body runs on every call, and each time asks such functions anew. Model: a version has a
// list of their results, made by the call that no version served and filled as its body asks. All
// calls that take the version for their arguments have that list, also where their bodies leave its
// path: what is recorded then has been made with the same results, and shares the list. So the
// operations that later calls are held against are those of these results.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace tenon {

/// Threads: any.
class Constants {
 public:
  using Function = std::weak_ptr<const void>;
  using Result = std::shared_ptr<const void>;

  /// What the function has given; null: nothing yet.
  Result find(const Function& function) const;
  /// Keeps a result, unless another thread has kept one first; gives what is kept.
  Result keep(const Function& function, Result result);

 private:
  struct Kept {
    Function function;
    Result result;
  };
  mutable std::mutex lock_;
  std::vector<Kept> kept_;
};

/// The list of the call that the thread is in; null: there is none.
extern thread_local constinit const std::shared_ptr<Constants>* constants_of_call;

/// While one lives, the thread's list is this one, which must stay where it is.
class ConstantsScope {
 public:
  explicit ConstantsScope(const std::shared_ptr<Constants>* constants)
      : before_(std::exchange(constants_of_call, constants)) {}
  ~ConstantsScope() { constants_of_call = before_; }
  ConstantsScope(const ConstantsScope&) = delete;

 private:
  const std::shared_ptr<Constants>* before_;
};

/// The list for a version that is made in this call.
std::shared_ptr<Constants> constants_of_version();

}  // namespace tenon
