// Choices of a recording.
#pragma once

#include "capture/body_numbers.h"

#include <tenon/tensor.h>

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace tenon {

/// How one dimension (or number) of the arguments enters a recording: as a constant, as a symbol
/// that equal sizes share, as a symbol of its own, as one that must stay a symbol, or as one
/// without an example.
enum class DimPolicy : uint8_t { fixed, duck, alone, own, unbacked };

/// Made from the options, the marks and what earlier calls have shown.
struct TracePolicy {
  std::vector<std::vector<DimPolicy>> sizes;    ///< by tensor leaf, by dimension
  std::vector<std::vector<DimPolicy>> strides;  ///< by tensor leaf; fixed = taken as it is
  std::vector<bool> numbers;                    ///< by number leaf: symbolic
  std::vector<double> changing;  ///< plain numbers of the arguments that were others before
  bool fullgraph = false;
  bool captures_scalars = false;  ///< item() gives a symbol
  bool captures_shapes = false;   ///< ops whose sizes depend on data are recorded
  bool specialize_one = true;
  bool keep_empty = false;  ///< a body without operations gives a graph, too
  bool on_tape = false;     ///< the body calls backward(): its ops go through the tape
  std::atomic<bool>* calls_backward = nullptr;  ///< set where it turns out that the body does
  /// Places of numbers of the body that have changed; null: none.
  std::shared_ptr<const std::set<NumberPlace>> body_numbers;
  bool compares_turns = false;   ///< numbers in which turns of a loop differ are the body's, too
  EarlierNumber earlier_number;  ///< of a body that has run along a path so far; null: it has not
  std::string callable;          ///< its name, for reports
  std::shared_ptr<const std::vector<Tensor>> state;  ///< what may be written; null: anything
};

}  // namespace tenon
