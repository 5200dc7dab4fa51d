// Addresses of a call, and what is not aligned.
#include "item.h"

#include "plans.h"

#include "../products/library.h"
#include "../vendor_library.h"

#include <algorithm>

namespace inductor_cuda {

using tenon::plugin::check;
using tenon::plugin::error;
using tenon::plugin::host;
using tenon::plugin::tensor;
using tenon::plugin::text;

namespace {

bool is_aligned(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % dnn_alignment == 0;
}

int64_t item_bytes(dnn::DataType type) { return type == dnn::data_f32 ? 4 : 2; }

int64_t bytes_of(const DnnTensor& t) {
  int64_t last = 0;
  for (size_t d = 0; d < t.sizes.size(); ++d) last += (t.sizes[d] - 1) * t.strides[d];
  return (last + 1) * item_bytes(t.dtype);
}

std::string name_of(const loopir::Item& item) {
  return std::visit(
      [](const auto& step) -> std::string {
        if constexpr (requires { step.name; }) return step.name;
        return "";
      },
      item);
}

}  // namespace

DnnItem::DnnItem(const loopir::Program& program, const loopir::Item& item, const Device& device,
                 const DnnRequest& request, const Tuning* tuning)
    : name_(name_of(item)), device_(device) {
  std::string why;
  library_ = DnnLibrary::of(device, &why);
  if (!library_)
    throw error(TN_FAILED_PRECONDITION,
                text("{} is done by cuDNN: {}; install it, or compile again", name_, why));
  auto problem = problem_of(program, item);
  if (problem) {
    native_stream(device, nullptr);  // it looks at the thread's device
    plan_ = DnnPlans::find(*library_, problem->graph, request, why, tuning);
  }
  if (!plan_) throw DnnPlanLost(TN_INTERNAL, text("{} has no way through cuDNN: {}", name_, why));
  problem_ = std::move(*problem);
  workspace_bytes_ = plan_->workspace_bytes();
  constexpr int64_t alignment = 256;
  for (size_t i = 0; i < problem_.bindings.size(); ++i) {
    if (!problem_.bindings[i].is_scratch) continue;
    workspace_bytes_ = (workspace_bytes_ + alignment - 1) / alignment * alignment;
    problem_.bindings[i].byte_offset = workspace_bytes_;
    workspace_bytes_ += bytes_of(problem_.graph.tensors[i]);
  }
}

/// The addresses of a call. What lies elsewhere than the plan may ask for is copied.
struct DnnItem::Aligned {
  Aligned(const DnnItem& item, std::span<void* const> pointers, void* workspace,
          tn_stream* stream) {
    for (size_t i = 0; i < item.problem_.bindings.size(); ++i) {
      const DnnBinding& b = item.problem_.bindings[i];
      if (b.is_scratch) {
        addresses.push_back(static_cast<char*>(workspace) + b.byte_offset);
        continue;
      }
      if (b.buffer == loopir::none) {
        addresses.push_back(const_cast<float*>(&b.number));
        continue;
      }
      void* address = static_cast<char*>(pointers[b.buffer]) + b.byte_offset;
      touched.push_back(address);
      addresses.push_back(
          is_aligned(address)
              ? address
              : moved(item, address, bytes_of(item.problem_.graph.tensors[i]), stream));
    }
  }
  std::vector<void*> addresses, touched;
  std::vector<tensor> copies;

 private:
  // Results are memory of the call, so operands alone can be views that begin anywhere.
  void* moved(const DnnItem& item, void* address, int64_t bytes, tn_stream* stream) {
    int64_t one = 1;
    tn_tensor* there = nullptr;
    check(host->tensor->from_memory(address, &bytes, &one, 1, TN_U8, item.device_.type,
                                    item.device_.index, nullptr, nullptr, &there));
    tensor source(there);
    tensor& copy = copies.emplace_back(
        tensor::empty({&bytes, 1}, TN_U8, item.device_.type, item.device_.index));
    check(host->tensor->copy(copy.get(), source.get(), stream));
    return copy->data;
  }
};

void DnnItem::run(std::span<void* const> pointers, void* workspace, tn_stream* stream,
                  std::vector<tensor>& kept) const {
  Aligned at(*this, pointers, workspace, stream);
  // The library works on the thread's device.
  auto native = reinterpret_cast<dnn::Stream>(native_stream(device_, stream));
  LibraryWork work(device_, stream);
  plan_->run(at.addresses, workspace, native, name_);
  if (workspace) at.touched.push_back(workspace);
  for (const tensor& copy : at.copies) at.touched.push_back(copy->data);
  // So that a recording changes addresses where it otherwise copies operands and results.
  check(device_.api->note_foreign_work(stream, at.touched.data(),
                                       static_cast<uint32_t>(at.touched.size())));
  for (tensor& copy : at.copies) kept.push_back(std::move(copy));
}

bool has_dnn_plan(const loopir::Program& program, const loopir::Item& item, const Device& device,
                  const DnnRequest& request) {
  const DnnLibrary* library = DnnLibrary::of(device);
  if (!library) return false;
  auto problem = problem_of(program, item);
  if (!problem) return false;
  native_stream(device, nullptr);
  return DnnPlans::may_find(*library, problem->graph, request);
}

}  // namespace inductor_cuda
