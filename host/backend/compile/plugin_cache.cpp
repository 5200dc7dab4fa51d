// Scopes of plugins in the cache on disk, and the services that read and write it.
//
// The file of the plugin counts as well as its fingerprint: a plugin that was built again under the
// same version may make other code of the same key.
#include "backend/compile/plugin_cache.h"

#include "backend/abi/compile_context.h"
#include "backend/abi/status.h"
#include "backend/compile/call_backend.h"
#include "backend/find/content_identity.h"
#include "cache/artifact_cache.h"
#include "config/flags.h"

#include <map>
#include <memory>
#include <mutex>

struct tn_blob {
  std::string bytes;
  tenon::PluginLife* holder = nullptr;  ///< who got it, while that is counted
};

namespace tenon {

namespace {

/// `text` as a part of a path.
std::string as_file_name(std::string text) {
  for (char& c : text)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '_' && c != '-') c = '_';
  return text;
}

std::unique_ptr<CacheScope> make_scope(const PluginBackend& backend) {
  const LoadedPlugin& plugin = backend.plugin;
  TextSink text;
  if (backend.table.fingerprint) {
    auto lock = backend.lock();
    tn_status* failed =
        call_plugin(plugin.net, message("fingerprint of backend {}", backend.manifest.name),
                    [&] { return backend.table.fingerprint(backend.table.self, text.get()); });
    if (failed) return log_and_free(plugin.net, failed), nullptr;
  }
  auto out = std::make_unique<CacheScope>();
  std::string said = text.take();
  out->said = KeyBuilder().add("said", said).hex().substr(0, 16);
  out->fingerprint =
      message("{}\n{}", said, content_identity(plugin.found->path, plugin.found->elf));
  std::string digest = KeyBuilder().add("fingerprint", out->fingerprint).hex();
  std::string version = to_text(plugin.found->manifest.version);
  out->folder = "kernels/" + as_file_name(plugin.name + "-" + version) + "/" + digest.substr(0, 16);
  return out;
}

CacheKey key_in(const CacheScope& scope, tn_str key) {
  KeyBuilder name;
  name.add("tag", config::flags().compiler.cache_key_tag).add("key", view_of(key));
  return {scope.folder, name.hex()};
}

}  // namespace

const CacheScope* cache_scope_of(const PluginBackend& backend) {
  static std::mutex lock;
  static auto& scopes = *new std::map<const tn_backend*, std::unique_ptr<CacheScope>>;
  {
    std::lock_guard guard(lock);
    if (auto known = scopes.find(&backend.table); known != scopes.end()) return known->second.get();
  }
  std::unique_ptr<CacheScope> made = make_scope(backend);
  std::lock_guard guard(lock);
  return scopes.try_emplace(&backend.table, std::move(made)).first->second.get();
}

tn_status* cache_get(tn_ctx* ctx, tn_str key, tn_blob** out) {
  *out = nullptr;
  std::optional<std::string> bytes;
  tn_status* failed = guarded([&] {
    ArtifactCache* cache = ctx && ctx->cache ? artifact_cache() : nullptr;
    if (cache) bytes = cache->get(key_in(*ctx->cache, key));
    if (!bytes) return;
    PluginLife* holder = is_counting_held() ? InPlugin::current() : nullptr;
    *out = new tn_blob{*std::move(bytes), holder};
    if (holder) holder->add_held(Held::blob, 1);
  });
  if (failed || *out) return failed;
  return make_status(TN_NOT_FOUND, "nothing is cached under this key");
}

tn_status* cache_put(tn_ctx* ctx, tn_str key, const void* data, size_t n) {
  free_status(guarded([&] {
    ArtifactCache* cache = ctx && ctx->cache ? artifact_cache() : nullptr;
    if (cache)
      cache->put(key_in(*ctx->cache, key), {static_cast<const char*>(data), n},
                 config::flags().compiler.cache_bytes);
  }));
  return nullptr;
}

tn_str blob_bytes(const tn_blob* blob) { return blob ? str_of(blob->bytes) : tn_str{"", 0}; }

void blob_release(tn_blob* blob) {
  if (blob && blob->holder) blob->holder->add_held(Held::blob, -1);
  delete blob;
}

}  // namespace tenon
