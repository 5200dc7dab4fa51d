// Reads what a plugin file says about itself, without running or mapping any of it.
#pragma once

#include "backend/find/diagnose.h"

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

struct stat;

namespace tenon {

/// Which file it is and whether its content may have changed.
struct FileIdentity {
  uint64_t device = 0, inode = 0, size = 0;
  int64_t mtime_ns = 0;
  friend auto operator<=>(const FileIdentity&, const FileIdentity&) = default;
};
FileIdentity identity_of(const struct stat& status);

struct ElfInfo {
  std::string manifest;             ///< TOML, not parsed
  std::string build_id;             ///< bytes of the ID of its content; empty where it has none
  std::vector<std::string> needed;  ///< DT_NEEDED: the libraries that it links
  std::string runpath;              ///< DT_RUNPATH or DT_RPATH
  bool exports_entry = false;       ///< tenon_plugin_entry_v1 is defined and visible
  bool exec_stack = false;          ///< asks for an executable stack
  bool text_relocations = false;
  FileIdentity file;
};

struct NoteResult {
  ElfInfo info;         ///< meaningful as far as reading came
  Diagnosis diagnosis;  ///< none, or P01, P02, P03, P24
};

/// Opens and reads `path`. Never throws for what the file contains. Any thread.
NoteResult read_note(const std::string& path);

/// The same over bytes in memory; `name` stands in messages.
NoteResult read_note(std::span<const std::byte> bytes, const std::string& name);

/// What the file exports besides its entries, for warnings (P20); reads every dynamic symbol, so
/// not for listings. Empty where the file cannot be read. Any thread.
struct ExtraExports {
  std::vector<std::string> names;  ///< as in the symbol table
  std::vector<std::string>
      unique;  ///< those of them that are one in the whole process (GNU_UNIQUE)
};
ExtraExports read_extra_exports(const std::string& path);

}  // namespace tenon
