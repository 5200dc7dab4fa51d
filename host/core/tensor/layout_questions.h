// How it is found out whether a tensor with symbolic sizes is dense.
#pragma once

#include <tenon/sym.h>

namespace tenon {

/// Whether an equality of sizes or strides holds: by what is known, else by a guard.
bool holds_for_layout(SymBool equality);

/// While one lives, tensors that this thread makes are dense only where that is known or their
/// example is: no guard says that one is not, so that sizes of 0 and 1 need no version of their own.
/// For recordings of code that nobody writes with such sizes in mind: an expanded gradient of size 1
/// is dense, and nothing is lost if it counts as expanded.
class QuietLayouts {
 public:
  QuietLayouts();
  ~QuietLayouts();
  QuietLayouts(const QuietLayouts&) = delete;

 private:
  bool before_;
};

}  // namespace tenon
