// Which sizes and numbers of a call's arguments become symbols.
#pragma once

#include "capture/trace_policy.h"

#include <tenon/detail/compiled.h>

#include <set>

namespace tenon {

/// What the calls so far have shown of each size, stride and number: unset, one value, or dynamic.
struct DynamicMemory {
  struct Cell {
    enum class State : uint8_t { unset, value, dynamic } state = State::unset;
    int64_t value = 0;
    void join(int64_t v);
  };
  struct TensorCells {
    std::vector<Cell> sizes, strides;
    bool rank_changed = false;
  };
  std::vector<TensorCells> tensors;
  std::vector<Cell> numbers, plain;  ///< plain: numbers that are no symbols as arguments
  std::shared_ptr<const std::set<NumberPlace>> body_numbers;
  void join(const detail::Leaves& leaves);
  void join(const GivenNumbers& given);
};

/// Joins the arguments to what the site remembers and decides for each size, stride and number:
/// the marks first, then the lists of the environment (compiler.dynamic_sources, unbacked_sources
/// and dynamic_values), then options.dynamic and the flags, then what earlier calls have shown.
/// For a backend that does not take symbols all are constants.
TracePolicy trace_policy(detail::Site& site, const detail::Leaves& leaves,
                         bool backend_takes_symbols);

}  // namespace tenon
