// How cuDNN computes one graph of operations.
//
// The library's heuristic lists engines, the best one first; the first that may be taken, can be
// made, and needs no more workspace than there may be is the plan. Who asks for one: plans.h.
#pragma once

#include "../measuring/tuning.h"
#include "graph.h"
#include "library.h"

#include <tenon/plugin.hpp>

#include <memory>
#include <optional>
#include <span>

namespace inductor_cuda {

struct DnnOptions {
  bool allows_tf32 = false;    // f32 operands are rounded to 19 bits
  bool deterministic = false;  // no sums in the order in which blocks come
  bool may_round_bias = true;  // to the dtype of 16-bit images
  auto operator<=>(const DnnOptions&) const = default;
};

/// What is asked of the library, and where plans are kept that take it long to make.
struct DnnRequest {
  DnnOptions options;
  tn_ctx* cache = nullptr;  // of the host, on disk
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
  int64_t workspace_bytes() const { return choice_.workspace_bytes; }
  /// Enqueues. `addresses` are those of the graph's tensors; of numbers, on the host.
  void run(std::span<void* const> addresses, void* workspace, dnn::Stream stream,
           const std::string& name) const;

 private:
  friend class DnnPlans;
  /// The handle is that of the thread that makes it; it runs by the library's own.
  DnnPlan(const DnnLibrary& library, dnn::Handle handle, const DnnGraph& graph);
  /// An engine that can be made.
  struct Choice {
    std::unique_ptr<DnnDescriptor> config, plan;
    int64_t workspace_bytes = 0;
  };
  bool make(const DnnGraph& graph, const DnnOptions& options, const Tuning* tuning,
            std::string& why_not);
  void choose(const DnnGraph& graph, const DnnOptions& options, const Tuning& tuning,
              std::vector<Choice>& choices);
  std::optional<Choice> choice(std::unique_ptr<DnnDescriptor> engine_config) const;
  std::optional<Choice> finished(Choice unfinished) const;
  bool restore(const std::string& description);
  std::string description() const;
  void run(const Choice& choice, std::span<void* const> addresses, void* workspace,
           dnn::Stream stream, const std::string& name) const;

  const DnnLibrary& library_;
  dnn::Handle handle_;
  std::vector<size_t> bound_;  // tensors with an address
  std::vector<std::unique_ptr<DnnDescriptor>> parts_;
  Choice choice_;
};

}  // namespace inductor_cuda
