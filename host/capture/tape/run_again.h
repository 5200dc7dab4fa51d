// What a run of a body does at once to tensors of the program: hooks on leaves, needs of gradients.
//
// A body that turns out to call backward() may have to run once more (WantsTape). What it would then do
// a second time is undone before. Threads: of one run.
#pragma once

#include <functional>
#include <vector>

namespace tenon {

/// The innermost one of a thread notes what is done while it lives.
class ChangesOfRun {
 public:
  ChangesOfRun();
  ~ChangesOfRun();
  ChangesOfRun(const ChangesOfRun&) = delete;

  /// Nothing happens outside of a run.
  static void note(std::function<void()> undo);
  /// The last change first. Nothing of this is recorded.
  void undo();

 private:
  ChangesOfRun* outer_;
  std::vector<std::function<void()>> undo_;
};

}  // namespace tenon
