// What depends on parameters only: made once for their versions, shared by all calls.
//
// Weights are packed in the form that a library call wants for a set of sizes. Few calls ask about
// sizes at all, and of those most sizes want the same form, so what changes sizes at each call (a
// cache that grows, a batch) does not pack weights again.
#pragma once

#include "inductor_runtime/calls/library_calls.h"

#include <tenon/plugin.hpp>

#include <atomic>
#include <memory>
#include <span>
#include <vector>

namespace inductor {

/// Of one set of versions.
struct Prepacked {
  /// Packed weights, for all sizes that want them in this form.
  struct Form {
    uint64_t packing;
    std::shared_ptr<const Memory> memory;
  };
  std::vector<uint64_t> versions;
  Memory memory;
  std::vector<void*> pointers;                 // by buffer; null where nothing is prepacked
  std::vector<tenon::plugin::tensor> tensors;  // by buffer
  std::vector<std::vector<Form>> forms;        // by item
  std::atomic<bool> is_left{false};            // an op has kept of it: later calls make it anew
};

/// The packed weights that a context of calls uses, by item, and what they were looked up for.
struct PackedWeights {
  std::vector<std::shared_ptr<const Memory>> by_item;
  std::shared_ptr<Prepacked> of;
  std::vector<int64_t> sizes;
};

/// Threads: one at a time, once made.
class Prepacking {
 public:
  /// Data is made anew when this input changes.
  void watch(uint32_t input);
  /// The form of some packed weights depends on these symbols.
  void add_sizes(std::span<const uint32_t> symbols);

  std::vector<uint64_t> versions_of(tn_tensor* const* inputs) const;
  bool is_of(const Prepacked& data, tn_tensor* const* inputs) const;

  struct Request {
    std::shared_ptr<Prepacked> data;
    std::span<void* const> pointers;  // by buffer
    std::span<const int64_t> symbols;
    std::span<const std::unique_ptr<LibraryCall>> calls;  // by item
    const std::vector<bool>& packs;                       // by item
  };
  /// Packed weights for these versions and sizes, packed now where they have not been; whether they
  /// had to be looked up.
  bool find(const Request& request, PackedWeights& out);
  /// Of all packed weights.
  static int64_t bytes_of(const Prepacked& data);
  /// How often weights were packed so far.
  int64_t packings() const { return packings_; }

 private:
  std::shared_ptr<const Memory> form_of(const Request& request, size_t item);

  std::vector<uint32_t> inputs_, sizes_;
  std::atomic<int64_t> packings_{0};
};

}  // namespace inductor
