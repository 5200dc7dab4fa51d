// Bundles of cache entries: what is read leads to no place outside of the cache, and is written alike.
// An input is what follows the name of the format; the digest is right, so that the rest is met.
#include "formats/cache_bundle.h"
#include "graph/hash.h"
#include "harness/fuzz.h"

using namespace tenon;

TENON_FUZZ_TARGET(cache_bundle) {
  std::string bundle = "TenonBun" + std::string(input);
  Digest digest = sha256(bundle);
  bundle.append(reinterpret_cast<const char*>(digest.data()), digest.size());
  std::vector<formats::BundleEntry> entries;
  if (!fuzz::accepts(fuzz::file_errors, [&] { entries = formats::read_cache_bundle(bundle); }))
    return;
  fuzz::count("accepted");
  for (const formats::BundleEntry& entry : entries)
    fuzz::check(entry.folder.find("..") == std::string::npos || entry.folder[0] != '/',
                "an entry leads out of the cache");
  fuzz::check(formats::write_cache_bundle(entries) == bundle, "a bundle is written differently");
}
