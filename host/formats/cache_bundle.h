// Bundles: entries of the cache on disk as one piece of bytes, to be carried to another machine.
//
// "TenonBun", u32 version, u32 number of entries; for each u32, u32, u64 lengths and then folder, name
// and bytes; at last the SHA-256 of all that. Nothing in a bundle is trusted: names are those that the
// cache makes and lead nowhere else.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::formats {

struct BundleEntry {
  std::string folder, name;  ///< as in CacheKey
  std::string bytes;
};

std::string write_cache_bundle(std::span<const BundleEntry> entries);
/// Throws UserError bad_file for anything but what write_cache_bundle gives.
std::vector<BundleEntry> read_cache_bundle(std::string_view bundle);

}  // namespace tenon::formats
