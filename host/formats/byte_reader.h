// Bytes of untrusted files: borrowed or owned spans, mapped files and a bounded little-endian
// reader.
#pragma once

#include "core/error.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace tenon::formats {

static_assert(std::endian::native == std::endian::little, "the file formats are little-endian");

using ByteSpan = std::span<const std::byte>;

/// A span of bytes and what keeps them alive: a mapped file or a buffer.
struct Bytes {
  ByteSpan span;
  std::shared_ptr<const void> owner;
};

/// Room for `size` bytes at a 64-byte boundary; throws UserError when there is no memory for it.
std::shared_ptr<std::byte[]> allocate_aligned(uint64_t size, std::string_view subject);

/// `bytes` itself when it begins at a 64-byte boundary, else a copy that does.
Bytes aligned(Bytes bytes, std::string_view subject);

/// A file that is open for reading, for those who want to know more of it than its bytes. Throws
/// UserError bad_file where it cannot be opened.
class OpenedFile {
 public:
  explicit OpenedFile(std::string path);
  ~OpenedFile();
  OpenedFile(const OpenedFile&) = delete;
  OpenedFile& operator=(const OpenedFile&) = delete;
  int descriptor() const { return descriptor_; }
  const std::string& path() const { return path_; }
  /// False once another file, or none, is at the path.
  bool is_at_its_path() const;

 private:
  std::string path_;
  int descriptor_;
};

/// The whole of a regular file, mapped; writes to it stay in memory. The mapping stays until the
/// last owner is gone; a program that shortens the file meanwhile ends this process, as with every
/// mapped file.
Bytes map_file(const OpenedFile& file);
Bytes map_file(const std::string& path);

/// Writes a file through `write`, aside and renamed at the end, so that no reader sees half of it
/// and nothing is lost where writing fails. A link at `path` is replaced, not followed. A device or
/// a pipe is written to as it is.
void write_file(const std::string& path, const std::function<void(std::ostream&)>& write);

inline std::string_view as_text(ByteSpan bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline ByteSpan as_byte_span(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// `text` for a message: at most 80 characters, with control characters and stray bytes as '?'.
std::string printable(std::string_view text);

/// Reads numbers and spans from front to back. Every read is checked against the end; a failed one
/// throws UserError(bad_file) that names the subject, the offset and what was expected there.
class ByteReader {
 public:
  ByteReader(ByteSpan bytes, std::string_view subject) : bytes_(bytes), subject_(subject) {}

  uint64_t offset() const { return offset_; }
  uint64_t remaining() const { return bytes_.size() - offset_; }
  uint64_t size() const { return bytes_.size(); }

  /// Moves to `offset`, which may be the end.
  void seek(uint64_t offset, std::string_view what);
  void skip(uint64_t count, std::string_view what) { take(count, what); }

  ByteSpan take(uint64_t count, std::string_view what) {
    if (count > remaining()) [[unlikely]]
      fail_short(count, what);
    ByteSpan taken = bytes_.subspan(offset_, count);
    offset_ += count;
    return taken;
  }
  std::string_view text(uint64_t count, std::string_view what) {
    return as_text(take(count, what));
  }

  template <class T>
  requires std::is_integral_v<T> T number(std::string_view what) {
    T value;
    std::memcpy(&value, take(sizeof value, what).data(), sizeof value);
    return value;
  }
  uint8_t u8(std::string_view what) { return number<uint8_t>(what); }
  uint16_t u16(std::string_view what) { return number<uint16_t>(what); }
  uint32_t u32(std::string_view what) { return number<uint32_t>(what); }
  uint64_t u64(std::string_view what) { return number<uint64_t>(what); }

  /// Reads `magic` or throws.
  void expect(std::string_view magic, std::string_view what);

 private:
  [[noreturn]] void fail_short(uint64_t count, std::string_view what) const;

  ByteSpan bytes_;
  std::string subject_;
  uint64_t offset_ = 0;
};

}  // namespace tenon::formats
