// The eager kernels of the plugin in the op table of its process, on a switch.
#pragma once

#include "debug/plugin_kit/check.h"
#include "debug/plugin_kit/graph_case.h"

namespace tenon::kit {

/// Puts all of them before the host's own; they are asked while a KernelScope lives.
void hook_kernels(Bench& bench);

class KernelScope {
 public:
  KernelScope();
  ~KernelScope();
  KernelScope(const KernelScope&) = delete;
};

/// Calls that a kernel of the plugin has taken.
int64_t kernels_taken();

/// The graph, with the kernels of the plugin for what they take.
std::vector<Tensor> run_with_kernels(const GraphCase& graph_case, std::span<const Tensor> inputs);
/// Runs it with and without the kernels. Fails where results, their dtype, sizes or strides are
/// wrong, or where the inputs are not left as they were.
void expect_kernels_right(const GraphCase& graph_case);

/// Calls of `op` made up from its schema: several sizes, dtypes, strides, and numbers that are not
/// finite. Calls that the op refuses are not among them. Each gets a text that names it.
void for_each_call(const std::string& op, bool quick, uint64_t seed,
                   const std::function<void(const GraphCase&, const std::string& text)>& body);

}  // namespace tenon::kit
