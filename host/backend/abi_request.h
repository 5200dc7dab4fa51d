// A compile request as a plugin sees it.
#pragma once

#include "backend/backend.h"
#include "backend/compile_context.h"
#include "backend/graph_view.h"
#include "backend/manifest.h"

#include <tenon/plugin.h>

#include <string>
#include <vector>

namespace tenon {

/// A request in the form of the ABI, with all that it points to. The options are resolved here:
/// this throws UserError for wrong ones. `request` must outlive it.
class AbiRequest {
 public:
  AbiRequest(const BackendManifest& manifest, const std::string& plugin,
             const CompileRequest& request);
  AbiRequest(const AbiRequest&) = delete;

  tn_compile_request abi{};
  tn_ctx ctx;

 private:
  void fill(const CompileRequest& request);

  tn_graph view_;
  std::vector<Tensor> fakes_;  // example inputs
  std::vector<tn_tensor*> heads_;
  std::vector<uint32_t> aliased_;
  std::string key_;
};

}  // namespace tenon
