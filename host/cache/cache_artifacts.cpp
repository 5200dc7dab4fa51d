// What this process used of the cache on disk, as one piece of bytes, and back.
#include "cache/artifact_cache.h"
#include "config/flags.h"
#include "core/error.h"
#include "formats/cache_bundle.h"

#include <tenon/compiler.h>

namespace tenon::compiler {

CacheArtifacts save_cache_artifacts() {
  CacheArtifacts out;
  std::vector<formats::BundleEntry> entries;
  if (ArtifactCache* cache = artifact_cache())
    for (const CacheKey& key : cache->used()) {
      std::optional<std::string> bytes = cache->peek(key);
      if (!bytes) continue;  // evicted meanwhile
      out.info.n_bytes += bytes->size();
      entries.push_back({key.folder, key.name, *std::move(bytes)});
    }
  out.info.n_entries = entries.size();
  out.bytes = formats::write_cache_bundle(entries);
  return out;
}

CacheArtifactInfo load_cache_artifacts(std::string_view bytes) {
  std::vector<formats::BundleEntry> entries = formats::read_cache_bundle(bytes);
  ArtifactCache* cache = artifact_cache();
  require(cache != nullptr, ErrorCode::config,
          "load_cache_artifacts: caches are switched off, or there is no folder for them; set "
          "compiler.force_disable_caches = false and TENON_CACHE_DIR");
  CacheArtifactInfo info;
  for (const formats::BundleEntry& entry : entries) {
    CacheKey key{entry.folder, entry.name};
    if (cache->peek(key)) continue;
    if (!cache->put(key, entry.bytes, config::flags().compiler.cache_bytes)) continue;
    ++info.n_entries;
    info.n_bytes += entry.bytes.size();
  }
  return info;
}

}  // namespace tenon::compiler
