// Calls of tenon::autograd::Function inside of recordings: forward is recorded, the node comes later.
#pragma once

#include "autograd/node.h"
#include "core/function_ref.h"

#include <memory>
#include <string>
#include <vector>

namespace tenon::autograd {

/// By number of the result.
struct ResultKinds {
  std::vector<uint32_t> fixed, dirty;  ///< that never need a gradient; inputs that were written
  friend bool operator==(const ResultKinds&, const ResultKinds&) = default;
};

struct FunctionTensors {
  std::vector<Tensor> inputs, results, saved;
};

/// A function whose forward is over. Threads: constant.
class WaitingFunction {
 public:
  WaitingFunction(std::string name, detail::FunctionBackward backward, Context context,
                  ResultKinds kinds)
      : name_(std::move(name)),
        backward_(std::move(backward)),
        context_(std::move(context)),
        kinds_(std::move(kinds)) {}
  const ResultKinds& kinds() const { return kinds_; }
  /// The results get a node as their history, the context the tensors.
  void attach(FunctionTensors tensors,
              FunctionRef<detail::FunctionBackward(detail::FunctionBackward)> wrap) const;

 private:
  std::string name_;
  detail::FunctionBackward backward_;
  Context context_;
  ResultKinds kinds_;
};

/// A call on fakes.
class FunctionCall {
 public:
  FunctionCall(const std::string& name, const std::vector<Tensor>& inputs,
               const detail::FunctionForward& forward, detail::FunctionBackward backward)
      : name(name), inputs(inputs), forward_(forward), backward_(std::move(backward)) {}

  const std::string& name;
  const std::vector<Tensor>& inputs;

  /// With its history, now.
  std::vector<Tensor> run(const std::vector<Tensor>& on) const;
  /// Forward alone, without gradients: what it gives, and what it saves.
  FunctionTensors run_forward();
  /// After that.
  std::shared_ptr<const WaitingFunction> waiting() const { return waiting_; }

 private:
  const detail::FunctionForward& forward_;
  detail::FunctionBackward backward_;
  std::shared_ptr<const WaitingFunction> waiting_;
};

/// While a recorder runs, for a call with inputs that need gradients. capture/tape/functions.cpp.
extern std::vector<Tensor> (*record_function_slot)(FunctionCall& call);

}  // namespace tenon::autograd
