// How cuDNN computes one graph of operations.
//
// The library's heuristic lists engines, the best one first; the first that may be taken, can be
// made, and needs no more workspace than there may be is the plan. Plans are kept for the process,
// since some take the library half a second: a network's equal layers share one.
#pragma once

#include "graph.h"
#include "library.h"

#include <tenon/plugin.hpp>

#include <memory>
#include <span>

namespace inductor_cuda {

struct DnnOptions {
  bool allows_tf32 = false;    // f32 operands are rounded to 19 bits
  bool deterministic = false;  // no sums in the order in which blocks come
  auto operator<=>(const DnnOptions&) const = default;
};

constexpr uint32_t dnn_alignment = 16;  // of addresses, in bytes

/// What the library has no way for, as an error.
struct DnnDeclined : tenon::plugin::error {
  using error::error;
};

/// A descriptor of the library's, owned. A graph that the library does not take is DnnDeclined.
class DnnDescriptor {
 public:
  DnnDescriptor(const DnnLibrary& library, dnn::DescriptorType type);
  DnnDescriptor(const DnnDescriptor&) = delete;
  ~DnnDescriptor();

  void set(dnn::Attribute attribute, dnn::AttributeType type, std::span<const int64_t> values);
  template <class T>
  void set(dnn::Attribute attribute, dnn::AttributeType type, const T& value) {
    set_bytes(attribute, type, 1, &value);
  }
  void set(dnn::Attribute attribute, const DnnDescriptor& other) {
    set(attribute, dnn::type_descriptor, other.get());
  }
  void set_bytes(dnn::Attribute attribute, dnn::AttributeType type, int64_t count,
                 const void* elements);
  void finish();
  dnn::Descriptor get() const { return descriptor_; }

 private:
  const DnnLibrary& library_;
  dnn::Descriptor descriptor_ = nullptr;
};

/// Threads: any.
class DnnPlan {
 public:
  /// Null, with the reason, where the library has none. Throws where it fails.
  static std::shared_ptr<const DnnPlan> find(const DnnLibrary& library, const DnnGraph& graph,
                                             const DnnOptions& options, std::string& why_not);

  int64_t workspace_bytes() const { return workspace_bytes_; }
  /// Enqueues. `addresses` are those of the graph's tensors; of numbers, on the host.
  void run(std::span<void* const> addresses, void* workspace, dnn::Stream stream,
           const std::string& name) const;

 private:
  DnnPlan(const DnnLibrary& library, const DnnGraph& graph);
  bool make(const DnnGraph& graph, const DnnOptions& options, std::string& why_not);
  bool take(dnn::Descriptor engine_config);

  const DnnLibrary& library_;
  std::vector<size_t> bound_;  // tensors with an address
  std::vector<std::unique_ptr<DnnDescriptor>> parts_;
  std::unique_ptr<DnnDescriptor> plan_;
  int64_t workspace_bytes_ = 0;
};

}  // namespace inductor_cuda
