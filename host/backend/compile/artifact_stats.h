// What artifacts say of themselves (TN_DESC_STATS_JSON), as numbers that can be added.
#pragma once

#include <cstdint>
#include <set>
#include <string>

namespace tenon {

struct ArtifactStats {
  int64_t kernels = 0, extern_calls = 0, fused_nodes = 0, planned_bytes = 0, naive_bytes = 0;
  double compile_ms = 0, codegen_ms = 0;
  bool from_cache = false;
  std::set<std::string> extern_ops;  ///< ops that somebody else runs for the backend
  int64_t regions = 0;               ///< pieces that the backend compiled of a graph that was cut

  /// What is not there, or not of its type, is left as it was; so is all of a text that is not
  /// JSON.
  static ArtifactStats parse(const std::string& json);
  void add(const ArtifactStats& other);
  std::string to_json() const;
};

}  // namespace tenon
