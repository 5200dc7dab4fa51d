// A convolution, attention, or a gradient of one in the schedule, done by cuDNN.
#pragma once

#include "plan.h"
#include "problems.h"

namespace inductor_cuda {

/// Threads: any.
class DnnItem {
 public:
  /// Throws where the library has no way: the steps that become items are those that it has one for.
  DnnItem(const loopir::Program& program, const loopir::Item& item, const Device& device,
          const DnnRequest& request, const Tuning* tuning);

  int64_t workspace_bytes() const { return workspace_bytes_; }
  /// Enqueues. `pointers` are by buffer; the workspace has so many bytes. What it works on besides
  /// goes to `kept`.
  void run(std::span<void* const> pointers, void* workspace, tn_stream* stream,
           std::vector<tenon::plugin::tensor>& kept) const;

 private:
  struct Aligned;
  std::string name_;
  Device device_;
  DnnProblem problem_;
  const DnnLibrary* library_ = nullptr;
  std::shared_ptr<const DnnPlan> plan_;
  int64_t workspace_bytes_ = 0;  // the plan's, then scratch
};

/// Whether the library is there and has a way for the item.
bool has_dnn_plan(const loopir::Program& program, const loopir::Item& item, const Device& device,
                  const DnnRequest& request);

}  // namespace inductor_cuda
