// Compile requests in the form of the plugin ABI.
#include "backend/abi/abi_request.h"

#include "backend/abi/status.h"
#include "backend/compile/options.h"
#include "backend/compile/plugin_cache.h"
#include "cache/artifact_cache.h"
#include "config/config.h"
#include "core/device/matmul_precision.h"
#include "core/error.h"
#include "core/sym/shape_env.h"
#include "core/tensor/tensor_impl.h"
#include "core/version.h"
#include "graph/hash.h"

#include <tenon/device.h>

#include <algorithm>

namespace tenon {

namespace {

// Fakes for the inputs, with hints where sizes are symbolic.
std::vector<Tensor> example_inputs(const Graph& graph) {
  std::vector<Tensor> fakes;
  ShapeEnv* env = graph.shape_env.get();
  auto hint = [&](SymInt s) {
    return s.is_symbolic() ? SymInt(env ? env->int_hint(s).value_or(0) : 0) : s;
  };
  for (ValueId id : graph.inputs()) {
    const GraphValue& v = graph.value(id);
    if (v.kind != ValueKind::tensor) {
      fakes.emplace_back();
      continue;
    }
    TensorMeta meta = v.meta;
    for (SymInt& s : meta.sizes) s = hint(s);
    for (SymInt& s : meta.strides) s = hint(s);
    fakes.push_back(make_fake(meta, hint(v.offset)));
    if (v.flags.requires_grad) mark_requires_grad(fakes.back(), true);
  }
  return fakes;
}

uint64_t request_flags(const CompileRequest& r) {
  return (r.dynamic ? TN_RQ_DYNAMIC : 0) | (r.deterministic ? TN_RQ_DETERMINISTIC : 0) |
         (r.grad_enabled ? TN_RQ_GRAD_ENABLED : 0) | (allows_tf32() ? TN_RQ_ALLOWS_TF32 : 0);
}

std::string listed(const std::vector<uint32_t>& numbers) {
  std::string out;
  for (uint32_t n : numbers) out += message("{} ", n);
  return out;
}

// Everything that can make the code of a graph another one: the graph, what is asked of it, the
// options that affect it, the flags of the host, its version and the backend's fingerprint.
std::string cache_key_of(const BackendManifest& manifest, const std::string& plugin,
                         const CompileRequest& request, const tn_ctx& ctx) {
  KeyBuilder key;
  key.add("tenon", version).add("plugin", plugin).add("backend", manifest.name);
  key.add("device", architecture_of(*request.graph));
  key.add("fingerprint", ctx.cache ? ctx.cache->fingerprint : "").add("flags", config::hash());
  key.add("request", message("stage {} flags {} saved {}", static_cast<int>(request.stage),
                             request_flags(request), request.n_saved));
  key.add("static", listed(request.static_inputs)).add("mutated", listed(request.mutated_inputs));
  key.add("aliased", listed(request.aliased_outputs));
  for (const BackendOption& option : manifest.options)
    if (option.affects_cache) key.add(option.name, to_text(ctx.options.values.at(option.name)));
  const KnownHash& known = request.known_hash;
  key.add("graph", known.graph == request.graph.get() ? known.digest : hash_text(*request.graph));
  return key.hex();
}

}  // namespace

AbiRequest::AbiRequest(const BackendManifest& manifest, const std::string& plugin,
                       const CompileRequest& request, const CacheScope* cache)
    : view_(request.graph),
      fakes_(example_inputs(*request.graph)),
      aliased_(request.aliased_outputs) {
  ctx.request = &request;
  ctx.backend = manifest.name;
  ctx.plugin = plugin;
  ctx.cache = cache;
  ctx.options = resolve_options(manifest, request);
  key_ = cache_key_of(manifest, plugin, request, ctx);
  for (const Tensor& t : fakes_) heads_.push_back(t.head());
  aliased_.resize(request.graph->outputs().size(), no_value);
  fill(request);
}

bool AbiRequest::follows_modes() const {
  auto follows = [](const auto& part) { return part->follows_modes.load(); };
  return view_.follows_modes || std::ranges::any_of(ctx.graphs, follows);
}

void AbiRequest::fill(const CompileRequest& request) {
  abi.struct_size = sizeof abi;
  abi.stage = static_cast<int32_t>(request.stage);
  abi.flags = request_flags(request);
  abi.ctx = &ctx;
  abi.graph = &view_;
  abi.options = &ctx.options;
  abi.example_inputs = heads_.data();
  abi.static_inputs = request.static_inputs.data();
  abi.mutated_inputs = request.mutated_inputs.data();
  abi.aliased_outputs = aliased_.data();
  abi.n_inputs = static_cast<uint32_t>(heads_.size());
  abi.n_static = static_cast<uint32_t>(request.static_inputs.size());
  abi.n_mutated = static_cast<uint32_t>(request.mutated_inputs.size());
  abi.n_outputs = static_cast<uint32_t>(aliased_.size());
  abi.n_saved = request.n_saved;
  abi.cache_key = str_of(key_);
  abi.compile_id = str_of(request.compile_id);
}

}  // namespace tenon
