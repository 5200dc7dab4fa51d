// Entries of the host's cache on disk, behind a digest: one that is damaged is not there.
#pragma once

#include <loopir/making/digest.h>
#include <tenon/plugin.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace inductor_cuda {

/// Nothing without a context.
inline std::optional<std::string> from_disk(tn_ctx* ctx, const std::string& name) {
  if (!ctx) return std::nullopt;
  constexpr size_t digest_size = 32;
  auto bytes = tenon::plugin::cache_get(ctx, name);
  if (!bytes || bytes->size() < digest_size) return std::nullopt;
  std::string body = bytes->substr(digest_size);
  if (loopir::digest(body) != std::string_view(*bytes).substr(0, digest_size)) return std::nullopt;
  return body;
}

inline void to_disk(tn_ctx* ctx, const std::string& name, const std::string& body) {
  if (ctx) tenon::plugin::cache_put(ctx, name, loopir::digest(body) + body);
}

}  // namespace inductor_cuda
