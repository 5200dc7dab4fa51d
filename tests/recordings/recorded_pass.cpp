#include "recordings/recorded_pass.h"

#include "report/log.h"

#include <tenon/config.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>

namespace tenon::recorded_passes {

Tensor fill(IntList sizes, Dtype dtype) {
  int64_t n = 1;
  for (int64_t size : sizes) n *= size;
  std::vector<double> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(static_cast<double>((7 * i + 3) % 11) / 4 - 1);
  return tensor(values, sizes).to(dtype);
}
Tensor leaf(IntList sizes, Dtype dtype) { return fill(sizes, dtype).requires_grad_(); }

void expect_values(const Tensor& found, JsonView expected) {
  ASSERT_TRUE(found.defined());
  std::vector<double> values = found.detach().to(Dtype::f64).reshape({-1}).to_vector<double>();
  std::vector<JsonView> recorded = expected.field("values").items();
  ASSERT_EQ(values.size(), recorded.size());
  for (size_t i = 0; i < values.size(); ++i) {
    double wanted = recorded[i].real();
    EXPECT_NEAR(values[i], wanted, 1e-5 * std::max(1.0, std::abs(wanted))) << "element " << i;
  }
}

void expect_all(const Tensors& found, JsonView expected) {
  std::vector<JsonView> recorded = expected.items();
  ASSERT_EQ(found.size(), recorded.size());
  for (size_t i = 0; i < found.size(); ++i) expect_values(found[i], recorded[i]);
}

bool close(const Tensor& found, const Tensor& wanted) {
  Tensor bound = wanted.abs() * 1e-5 + 1e-6;
  return found.sizes() == wanted.sizes() &&
         static_cast<bool>(((found - wanted).abs() <= bound).all());
}

Log texts(JsonView list) {
  Log out;
  for (JsonView item : list.items()) out.emplace_back(item.text());
  return out;
}

namespace {

// "MulBackward (NodeCall 2)" or "MulBackward (NodeCall 2): tensor hooks", or "add".
std::string node_of(std::string line) {
  size_t call = line.find(" (NodeCall");
  if (call == line.npos) return line;
  size_t what = line.find("): ", call);
  return what == line.npos ? line.substr(0, call) : line.substr(what + 3);
}

}  // namespace

Run compiled(const std::function<Tensors()>& step, const ca::EnableOptions& options) {
  auto verbose = config::patch({{"logging.logs", "compiled_autograd_verbose"}});
  report::LogCapture lines;
  ca::Stats before = ca::stats();
  Run run;
  {
    auto on = ca::enable("aot_eager", options);
    run.results = step();
  }
  run.captures = ca::stats().captures - before.captures;
  run.engine = ca::stats().eager_passes - before.eager_passes;
  for (std::string line : lines.lines()) {
    if (line.find("compiled_autograd_verbose") == line.npos) continue;
    line = line.substr(line.find("] ") + 2);
    if (!line.starts_with("Cache miss") && !line.starts_with("holds where"))
      run.nodes.push_back(node_of(line));
  }
  return run;
}

Log node_names(JsonView graph) {
  static const std::map<std::string, std::string> names = {
      {"validate_outputs", ""},
      {"_exec_final_callbacks_stub", ""},
      {"call_accumulate_grad", "accumulate"},
      {"call_hook:tensor_pre_hook", "tensor hooks"},
      {"call_cpp_tensor_pre_hooks", ""},  // retain_grad() goes with the hooks of the tensor
      {"call_hook:pre_hook", "pre-hooks"},
      {"call_hook:post_hook", "post-hooks"},
      {"call_hook:post_acc_grad_hook", ""},  // goes with the accumulation
      {"call_hook:unpack_hook", "unpack"},
      {"call_aot_bwd_prologue", "CompiledFunctionBackward"},  // then its ops, such as cos.default
      {"call_backward", "function"},
  };
  Log out;
  for (const std::string& node : texts(graph.field("nodes"))) {
    auto known = names.find(node);
    bool is_op = node.find('.') != node.npos;
    std::string name = is_op ? "" : known == names.end() ? node : known->second;
    while (!name.empty() && std::isdigit(static_cast<unsigned char>(name.back()))) name.pop_back();
    if (!name.empty()) out.push_back(name);
  }
  return out;
}

Scenario::Scenario(const std::string& name)
    : root(json_file(reference_folder("compiled_autograd") + "/" + name + ".json")) {}

void Scenario::expect_captures(const std::vector<int64_t>& found) const {
  std::vector<int64_t> recorded;
  for (JsonView n : root.field("captures_per_step").items()) recorded.push_back(n.integer());
  EXPECT_EQ(found, recorded);
}

}  // namespace tenon::recorded_passes
