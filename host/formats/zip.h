// Zip archives: a reader for untrusted files, without a copy for stored entries, and a small
// writer.
#pragma once

#include "formats/byte_reader.h"
#include "formats/limits.h"

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tenon::formats {

struct ZipOptions {
  bool check_crc = true;                      ///< false: stored entries are not checked
  uint64_t max_size = limits::archive_bytes;  ///< bound on the unpacked sizes together
};

struct ZipEntry {
  std::string name;
  bool deflated = false;
  uint32_t crc = 0;
  uint64_t packed_size = 0;
  uint64_t size = 0;
  uint64_t header_offset = 0;
  uint64_t data_offset = 0;
};

/// A zip file whose structure has been checked as a whole: names, ranges, sizes, limits. Immutable;
/// any thread may read.
class ZipArchive {
 public:
  ZipArchive(ZipArchive&&) = default;
  ZipArchive& operator=(ZipArchive&&) = default;

  static ZipArchive open(const std::string& path, const ZipOptions& options = {});
  /// The same for bytes in memory; `subject` stands for the file's name in messages.
  static ZipArchive from_bytes(Bytes bytes, const std::string& subject,
                               const ZipOptions& options = {});

  /// Files in the order of the central directory; entries for folders are left out.
  const std::vector<ZipEntry>& entries() const { return entries_; }
  const ZipEntry* find(std::string_view name) const;
  const std::string& subject() const { return subject_; }

  /// The content of an entry, CRC checked: a span of the mapping when stored, else a buffer.
  Bytes read(const ZipEntry& entry) const;

 private:
  ZipArchive() = default;

  Bytes bytes_;
  std::string subject_;
  ZipOptions options_;
  std::vector<ZipEntry> entries_;
  std::unordered_map<std::string_view, size_t> by_name_;
};

/// Writes stored entries whose data begins at multiples of 64 bytes, as PyTorch does.
///
///   ZipWriter zip(out);
///   zip.add("model/archive_format", as_byte_span("pt2"));
///   zip.finish();
class ZipWriter {
 public:
  explicit ZipWriter(std::ostream& out) : out_(out) {}
  void add(const std::string& name, ByteSpan data);
  void finish();

 private:
  void put(std::string_view text);

  std::ostream& out_;
  std::vector<ZipEntry> entries_;
  uint64_t offset_ = 0;
};

}  // namespace tenon::formats
