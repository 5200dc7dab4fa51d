// Steps with compiled autograd on, beside what PyTorch recorded of the same ones.
#pragma once

#include "recordings/json_files.h"

#include <tenon/compiled_autograd.h>
#include <tenon/tenon.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tenon::recorded_passes {

namespace ca = compiled_autograd;
using formats::JsonView;
using Tensors = std::vector<Tensor>;
using Log = std::vector<std::string>;

/// The numbers that the recorded programs fill their tensors with.
Tensor fill(IntList sizes, Dtype dtype = Dtype::f32);
Tensor leaf(IntList sizes, Dtype dtype = Dtype::f32);

void expect_values(const Tensor& found, JsonView expected);
void expect_all(const Tensors& found, JsonView expected);
bool close(const Tensor& found, const Tensor& wanted);
Log texts(JsonView list);

/// One run of a step with compiled autograd on.
struct Run {
  Tensors results;
  int64_t captures = 0, engine = 0;
  Log nodes;
};
Run compiled(const std::function<Tensors()>& step, const ca::EnableOptions& options = {});

/// The names of a recorded graph as Tenon has them: without numbers of overloads, checks of shapes
/// and what belongs to another step.
Log node_names(JsonView graph);

/// All about one recording.
class Scenario {
 public:
  explicit Scenario(const std::string& name);
  /// Captures of each step, as recorded.
  void expect_captures(const std::vector<int64_t>& found) const;

  JsonView root;
};
using Body = void (*)(const Scenario&);

/// By the names of recordings: passes over nodes of ops, and passes that call user code (hooks,
/// functions, callbacks).
std::map<std::string, Body> scenarios_of_nodes();
std::map<std::string, Body> scenarios_of_user_code();

}  // namespace tenon::recorded_passes
