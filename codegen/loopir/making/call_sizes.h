// Sizes and strides in a call.
#pragma once

#include "loopir/expressions.h"

#include <array>
#include <span>
#include <vector>

namespace loopir {

/// Indices evaluated for a call. Usual ranks lie on the stack: on small tensors, allocations would
/// take longer than the op.
class CallSizes {
 public:
  CallSizes(const Expressions& x, const Ids& ids, std::span<const int64_t> table) {
    if (ids.size() > usual) many_.resize(ids.size());
    int64_t* to = ids.size() > usual ? many_.data() : few_.data();
    for (size_t i = 0; i < ids.size(); ++i) to[i] = x.evaluate(ids[i], table);
    all_ = {to, ids.size()};
  }
  CallSizes(const CallSizes&) = delete;
  std::span<const int64_t> span() const { return all_; }

 private:
  static constexpr size_t usual = 8;
  std::array<int64_t, usual> few_;
  std::vector<int64_t> many_;
  std::span<const int64_t> all_;
};

}  // namespace loopir
