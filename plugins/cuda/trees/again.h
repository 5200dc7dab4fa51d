// Draws of random numbers that a recording has taken and that the direct run takes over.
#pragma once

#include "recording.h"

namespace tenon::cuda::trees {

/// While it lives, the calling thread's reserve_random() gives these first, in order: a function
/// that is run a second time draws what it drew the first time.
class DrawAgain {
 public:
  explicit DrawAgain(std::vector<Draw> draws);
  ~DrawAgain();
  DrawAgain(const DrawAgain&) = delete;
  /// Those that have not been asked for.
  static std::vector<Draw> left();

 private:
  std::vector<Draw> outer_;
};

/// The extension's reserve_random.
Draw reserve_random(Gpu& gpu, const tn_stream* stream, uint64_t blocks);

/// Counts a write that no op has made: TN_VERSION moves.
void note_write(tn_tensor* t);

}  // namespace tenon::cuda::trees
