// Backends put together from others: forward by one, backward by another.
#include "aot/lower.h"
#include "backend/backend.h"
#include "core/error.h"

#include <tenon/functorch.h>

#include <algorithm>

namespace tenon {

namespace {

// The set of the forward's backend, and what was asked for besides.
std::string joined_sets(const std::string& own, const std::string& added) {
  if (added.empty() || added == "none" || added == own) return own;
  return own.empty() || own == "none" ? added : own + "+" + added;
}

BackendInfo info_for(const AotOptions& aot, const BackendInfo& forward,
                     const BackendInfo& backward) {
  BackendInfo info = forward;
  info.plugin = "program";
  info.description =
      message("aot_function: {} for forwards, {} for backwards", forward.name, backward.name);
  info.tags = {"experimental"};
  bool keeps_joint = std::ranges::find(forward.tags, "joint") != forward.tags.end();
  if (keeps_joint) info.tags.push_back("joint");
  info.stage = Stage::inference;
  info.dynamic_shapes = forward.dynamic_shapes && backward.dynamic_shapes;
  if (!aot.partition.empty()) info.partitioner = aot.partition;
  info.decompositions = joined_sets(forward.decompositions, aot.decompositions);
  decomposition_set(info.decompositions, info.decomposition_ops);  // refuses unknown names
  return info;
}

}  // namespace

std::string aot_backend(const AotOptions& aot) {
  require(aot.partition.empty() || aot.partition == "default" || aot.partition == "min_cut",
          "aot_function: partition = \"{}\": expected default or min_cut, or nothing for what the "
          "backend asks for",
          aot.partition);
  std::string fw = aot.fw_compiler.empty() ? default_backend() : aot.fw_compiler;
  std::string bw = aot.bw_compiler.empty() ? fw : aot.bw_compiler;
  BackendInfo info = info_for(aot, backend_info(fw), backend_info(bw));
  info.name = message("aot({},{},{},{})", fw, bw, info.partitioner, info.decompositions);
  std::string name = info.name;
  register_backend(
      [fw, bw](const CompileRequest& request) {
        return compile_with_backend(request.stage == Stage::backward ? bw : fw, request);
      },
      std::move(info));
  return name;
}

}  // namespace tenon
