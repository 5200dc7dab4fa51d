// Inputs of a model that share memory with an input which the graph writes.
//
// An archive says nothing of memory that the arguments of a call share with each other or with the
// weights, such as a buffer that was returned and is passed back. Where the graph writes none of
// it, that makes no difference. Otherwise the call has code of its own, whose graph says how its
// inputs overlap.
//
//   MemoryWritten written(graph, is_weight);                    // once
//   std::vector<Overlap> overlaps = written.overlaps(inputs);   // each call; nearly always empty
//   if (can_tell_overlaps(*graph, overlaps)) tell_overlaps(*graph, overlaps);
#pragma once

#include "graph/graph.h"
#include "guards/overlap.h"

#include <cstdint>
#include <span>
#include <vector>

namespace tenon {

/// How code takes the memory of its inputs.
struct CallMemory {
  std::vector<Overlap> overlaps;  ///< for inputs that overlap so
  /// For any overlaps: it runs node by node on the tensors as they lie.
  bool as_given = false;
  friend bool operator==(const CallMemory&, const CallMemory&) = default;
};

class MemoryWritten {
 public:
  /// `is_weight`, by input: how weights overlap each other is in the graph.
  MemoryWritten(const Graph& graph, std::vector<bool> is_weight);

  /// Pairs of inputs that share elements, where one is written and one is not a weight. `inputs` as
  /// Artifact::call takes them. Cost: two comparisons for each pair of a written input and another.
  std::vector<Overlap> overlaps(std::span<detail::TensorHead* const> inputs) const;

 private:
  std::vector<bool> is_weight_, is_written_;
  std::vector<uint32_t> written_;
};

/// Whether offsets tell it; they do not tell parts of elements, or memory that was lent twice.
bool can_tell_overlaps(const Graph& graph, std::span<const Overlap> overlaps);
/// Puts the inputs that overlap into one alias group, with offsets that give their distances.
void tell_overlaps(Graph& graph, std::span<const Overlap> overlaps);

/// Whether the pairs have this input.
bool is_shared(std::span<const Overlap> overlaps, size_t input);

}  // namespace tenon
