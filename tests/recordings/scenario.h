// A recorded scenario in C++: its function, the arguments of its calls, the flags and modes.
#pragma once

#include "recordings/json_files.h"

#include <tenon/tenon.h>

#include <memory>
#include <string>
#include <vector>

namespace tenon {

/// The arguments of a call, by kind; a list is so many tensors.
struct Arguments {
  std::vector<Tensor> tensors;
  std::vector<SymInt> ints;
  std::vector<SymFloat> floats;
  TENON_TREE(Arguments, tensors, ints, floats)
};

struct Outcome {
  std::vector<Tensor> tensors;
  std::vector<SymInt> numbers = {};
  TENON_TREE(Outcome, tensors, numbers)
};

using Program = Outcome (*)(const Arguments&);

/// The C++ for a Python function, whatever its name is; null where nobody wrote it.
Program program_of(const std::string& function_source);

/// Why a scenario is not replayed; "" when it is.
std::string reason_to_skip(formats::JsonView scenario);

/// Whether Tenon is known to compile such a function more often than PyTorch.
bool compiles_more_often(formats::JsonView scenario);

Arguments arguments_of(formats::JsonView args);
Options options_of(formats::JsonView compile_args);

/// The scenario's flags, in force while the object lives.
std::vector<config::Patch> flags_of(formats::JsonView scenario);

/// The mode of one step (without gradients, inference, deterministic), while the object lives.
class StepMode {
 public:
  explicit StepMode(formats::JsonView step);
  ~StepMode();

 private:
  std::unique_ptr<NoGradGuard> no_grad_;
  std::unique_ptr<InferenceMode> inference_;
};

}  // namespace tenon
