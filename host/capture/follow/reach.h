// What of the parts of a path that have run somebody may still hold.
//
// What a part has made, and the body has let go of, the body cannot name again, nor a captured tensor
// that nobody else holds: it is free, as in a plain run, and looked at no more, so that a turn of a
// loop does not pay for the turns before it.
//
// Threads: belongs to the thread of the run.
#pragma once

#include "capture/follow/position.h"

#include <span>
#include <vector>

namespace tenon {

class Reach {
 public:
  explicit Reach(const Position& at) : at_(at) {}
  /// Those objects of the first `n_parts` parts that the body may name again.
  std::span<const uint32_t> objects(size_t n_parts);
  /// The part has run. Frees what no handle reaches any more, which may run code of the program.
  void let_go_behind(const Path::Part& part);

 private:
  void look_at_path();
  bool lets_go_of_slot(uint32_t slot) const;

  const Position& at_;
  const Path* path_ = nullptr;  // of the objects
  std::vector<uint32_t> objects_;
  uint32_t n_looked_at_ = 0;
  std::vector<uint32_t> held_;  // behind their last use
  size_t next_look_ = 0;        // so many of them make another look worth while
};

}  // namespace tenon
