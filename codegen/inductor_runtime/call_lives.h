// When a call makes its outputs, and when it is done with inputs that it has stolen.
//
// Problem: outputs that are made before the first item, and inputs that live until the last, take
// memory from the caches while nothing touches them. Method: an output is made before the first
// item, or region, that writes it, an input released behind the last one that touches it; so what
// one gives back to the host's allocator, the next may get. Cost: linear in the accesses, once.
#pragma once

#include "regions.h"

#include <loopir/program.h>
#include <tenon/plugin.hpp>

#include <span>
#include <vector>

namespace inductor {

class CallLives {
 public:
  CallLives() = default;
  CallLives(const loopir::Program& program, const std::vector<loopir::Access>& items,
            const std::vector<bool>& is_prepacked, const std::vector<Region>& regions);

  /// Output buffers, by number, that no item writes; those that the item, or the region that it
  /// begins, is the first to write.
  std::span<const size_t> begin_of_call() const { return at_once_; }
  std::span<const size_t> begin_of(size_t item) const { return by_item_[item].begin; }
  /// Releases the stolen inputs whose last reader or writer is the item.
  void end_inputs(tn_call& c, size_t item) const;

 private:
  struct Lives {
    std::vector<size_t> begin;  // output buffers, by number
    std::vector<uint32_t> end;  // inputs
  };
  std::vector<size_t> at_once_;
  std::vector<Lives> by_item_;
};

}  // namespace inductor
