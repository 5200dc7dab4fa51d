// The container of `.tenon` files: named sections that are mapped, each with its digest.
//
//     header      magic, version, number of sections, size of the file, size of the directory,
//                 SHA-256 of all that and of the directory: 64 bytes
//     directory   for each section offset, size, SHA-256 and name, in order of the offsets
//     sections    each at a multiple of 64 bytes, zeros in between
//
// A file that opens is whole: its size is the one that it names, every section lies within it and
// has its digest, and no byte belongs to nothing. What sections mean is their readers' to know.
#pragma once

#include "formats/byte_reader.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::formats {

inline constexpr uint32_t tenon_file_version = 2;

/// Whether a file begins as one of these does.
bool is_tenon_file(ByteSpan file);

class TenonFile {
 public:
  /// Throws UserError bad_file for a file that is missing, damaged or of another version. Sections
  /// whose names begin with `unchecked` are taken without looking at their bytes; "" checks all.
  static TenonFile open(const std::string& path, std::string_view unchecked = "");
  static TenonFile open(const OpenedFile& file, std::string_view unchecked = "");
  /// The same for bytes in memory; `subject` stands for the file's name in messages.
  static TenonFile from_bytes(Bytes bytes, const std::string& subject,
                              std::string_view unchecked = "");

  /// At a 64-byte boundary.
  std::optional<Bytes> find(std::string_view name) const;
  /// Throws UserError bad_file for a section that is not there.
  Bytes section(std::string_view name) const;
  const std::string& subject() const { return subject_; }

 private:
  struct Section {
    std::string name;
    ByteSpan bytes;
  };
  Bytes bytes_;
  std::string subject_;
  std::vector<Section> sections_;  // by name
};

using TenonSections = std::vector<std::pair<std::string, ByteSpan>>;

/// The bytes of a file of these sections, in their order. Names differ.
std::string tenon_file_bytes(const TenonSections& sections);
/// Writes such a file, aside and renamed at the end.
void write_tenon_file(const std::string& path, const TenonSections& sections);

}  // namespace tenon::formats
