// A recording that can run again: the driver's executable graph, and what of it may be changed.
#pragma once

#include "recording.h"

#include <memory>

namespace tenon::cuda::trees {

/// Where a node's parameters hold an address within a place: an input or an output.
struct PatchPoint {
  uint32_t place, node, at;  ///< at: in the note's words
  int64_t offset;            ///< of the address from the place's first byte
};

/// Whether the driver lets copies and fills of a graph be changed: until it has refused to.
bool can_move_copies();

/// Threads: one at a time.
class Graph {
 public:
  Graph(Gpu& gpu, Captured captured);
  ~Graph();
  Graph(const Graph&) = delete;

  /// Makes an executable of it. `points` in the order of their places; `bases` by place: what the
  /// places were while it was recorded. Throws what the driver says.
  void instantiate(std::vector<PatchPoint> points, std::vector<api::Address> bases);

  /// The place begins there from the next launch on.
  void move(uint32_t place, api::Address to);
  /// A number of a note has this value from the next launch on.
  void write(uint32_t node, uint32_t at, const void* value, size_t bytes);
  /// Changes what is to be changed, and enqueues it.
  void launch(tn_stream* stream);

  size_t nodes() const { return captured_.nodes; }
  const Captured& captured() const { return captured_; }
  bool has_points(uint32_t place) const { return first_[place] != first_[place + 1]; }
  /// Parameters changed so far.
  uint64_t patches() const { return patches_; }

 private:
  void touch(uint32_t node);
  void update(uint32_t node);
  void prepare();

  Gpu& gpu_;
  Captured captured_;
  std::vector<PatchPoint> points_;
  std::vector<uint32_t> first_;  // of each place among them, and behind the last
  std::vector<api::Address> bases_;
  std::vector<uint32_t> changed_;  // nodes, to be told to the driver
  std::vector<bool> is_changed_;
  /// By note: the launch as the driver takes it, over the note's words.
  struct Prepared {
    api::KernelNode node;
    std::vector<void*> parameters;
  };
  std::vector<Prepared> prepared_;
  api::GraphExec executable_ = nullptr;
  uint64_t patches_ = 0;
};

}  // namespace tenon::cuda::trees
