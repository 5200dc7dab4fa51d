// The cache on disk as plugins see it: what they keep stays theirs, by version and fingerprint.
#pragma once

#include <tenon/plugin.h>

#include <string>

namespace tenon {

struct PluginBackend;

/// What makes saved parts of one backend unusable for others.
struct CacheScope {
  std::string fingerprint;  ///< what the backend says, and which file it comes from
  std::string folder;       ///< of its entries, below the root of the cache
  std::string said;         ///< by the backend, as a digest: kept beside its code
};

/// The scope of a backend: asked for at the first call, kept for the life of the process. Null when
/// its `fingerprint` failed: then nothing is kept. Any thread.
const CacheScope* cache_scope_of(const PluginBackend& backend);

// ---- services for plugins

tn_status* cache_get(tn_ctx* ctx, tn_str key, tn_blob** out);
/// Succeeds whether or not anything could be kept.
tn_status* cache_put(tn_ctx* ctx, tn_str key, const void* data, size_t n);
tn_str blob_bytes(const tn_blob* blob);
void blob_release(tn_blob* blob);

}  // namespace tenon
