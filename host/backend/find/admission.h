// The moment of loading: what is asked of a file right before and right after it is mapped.
#pragma once

#include "backend/find/discover.h"
#include "backend/find/quarantine.h"

#include <optional>

namespace tenon {

/// Made before a plugin is mapped, destroyed when it is ready or has failed. Under the loader's
/// lock.
class Admission {
 public:
  /// Looks at the file as it is now: trust, digest, quarantine. Leaves the breadcrumb. Throws
  /// BackendError with P14, P15 or P16 after the catalog was told.
  Admission(PluginCatalog& catalog, const FoundPlugin& plugin);
  ~Admission();
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

  /// P15 unless the library behind the handle of dlopen() is the file that was examined.
  void check_mapped(void* library) const;

 private:
  void refuse_for_now(const Diagnosis& diagnosis) const;
  void refuse(const Diagnosis& diagnosis) const;
  void examine();
  void probe(const std::string& quarantine) const;

  PluginCatalog& catalog_;
  const FoundPlugin& plugin_;
  int file_ = -1;
  std::optional<Breadcrumb> breadcrumb_;
};

/// Whether `address` lies in a mapping of the open file. Files are compared as the kernel shows
/// mappings of them: on some file systems stat() names another device.
bool is_mapped_from(int file, const void* address);
/// Whether anything of `path` is mapped into this process.
bool is_path_mapped(const std::string& path);

}  // namespace tenon
