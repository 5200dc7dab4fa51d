// A compile request in the form of the plugin ABI, with all that it points to.
#pragma once

#include "backend/abi/compile_context.h"

#include <tenon/plugin.h>

#include <string>
#include <vector>

namespace tenon {

/// Lives as long as the call that it is made for. `request` must outlive it.
class AbiRequest {
 public:
  /// `cache`: where the backend keeps what it makes, or null. Throws UserError for options that the
  /// manifest does not declare.
  AbiRequest(const BackendManifest& manifest, const std::string& plugin,
             const CompileRequest& request, const CacheScope* cache = nullptr);
  AbiRequest(const AbiRequest&) = delete;

  /// Whether the plugin follows the modes of the nodes as far as the host has seen, in what it has
  /// compiled of the request: see tenon/grad_mode.h.
  bool follows_modes() const;

  tn_compile_request abi{};
  tn_ctx ctx;

 private:
  void fill(const CompileRequest& request);

  tn_graph view_;
  std::vector<Tensor> fakes_;
  std::vector<tn_tensor*> heads_;
  std::vector<uint32_t> aliased_;
  std::string key_;
};

}  // namespace tenon
