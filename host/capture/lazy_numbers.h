// Numbers that the body has read from tensors of the trace and not looked at yet.
//
// Problem: item() of a fake stays in the program until somebody looks at it, and by then the body may
// have written the tensor. Model: the thread knows which of them the body still holds. Before an
// operation writes, whichever memory that is, the trace takes a copy of each of their tensors, as an
// operation like any of the body's: so a followed run meets it at the same place. Before the host may
// write, or where a tensor of the trace becomes the real one, they are read from a copy of that.
//
// Threads: the registry is the thread's that traces; the numbers may be let go of anywhere.
#pragma once

#include "core/dispatch.h"

#include <tenon/tree.h>

#include <memory>
#include <vector>

namespace tenon {

using LazyNumbers = std::vector<std::weak_ptr<detail::LazyNumber>>;

/// While one lives, there are none but those that are read: a body's own, or none of a re-recording.
class LazyNumbersOfBody {
 public:
  LazyNumbersOfBody() : outer_(innermost_) { innermost_ = this; }
  ~LazyNumbersOfBody() { innermost_ = outer_; }
  LazyNumbersOfBody(const LazyNumbersOfBody&) = delete;

  /// Those of the innermost body, or of a thread that traces without one.
  static LazyNumbers& current() { return innermost_ ? innermost_->numbers_ : outside(); }

 private:
  static LazyNumbers& outside();
  static thread_local constinit LazyNumbersOfBody* innermost_;
  LazyNumbersOfBody* const outer_;
  LazyNumbers numbers_;
};

/// Whether the body holds any.
inline bool holds_lazy_numbers() { return !LazyNumbersOfBody::current().empty(); }
/// An operation of the body is about to run, and has not been recorded or followed.
void keep_lazy_numbers(const CallArgs& call);
/// The host may write from here on; nothing of the trace is pending.
void settle_lazy_numbers();
/// The host may write where `lent` lies, and nothing that is pending uses that memory.
void settle_lazy_numbers_in(const Tensor& lent);
/// `fake` becomes `real`.
void settle_lazy_numbers(const Tensor& fake, const Tensor& real);

}  // namespace tenon
