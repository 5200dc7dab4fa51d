// A recorded scenario in C++: its function, the arguments of its calls, the flags and modes.
#pragma once

#include "recordings/json_files.h"

#include <tenon/compiler.h>
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

/// Compiles by running the graph, and tells which of its codes ran: a backend of the program.
class RunWatch {
 public:
  /// The name that the backend is known by.
  static const char* backend();
  /// Since the last call: how often it was asked for code.
  static int64_t take_compiles();
  /// Since the last call: the codes that ran, numbered in the order of their compiles since reset().
  static std::vector<int64_t> take_runs();
  static void reset();
};

Arguments arguments_of(formats::JsonView args);
Options options_of(formats::JsonView compile_args);

/// The scenario's flags, in force while the object lives.
std::vector<config::Patch> flags_of(formats::JsonView scenario);

/// The mode of one step (without gradients, inference, deterministic, a stance), while the object
/// lives.
class StepMode {
 public:
  explicit StepMode(formats::JsonView step);
  ~StepMode();

 private:
  std::unique_ptr<NoGradGuard> no_grad_;
  std::unique_ptr<InferenceMode> inference_;
  std::unique_ptr<compiler::StanceScope> stance_;
};

}  // namespace tenon
