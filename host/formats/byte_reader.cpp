// Mapped files, aligned buffers, text checks and the failures of the bounded reader.
#include "formats/byte_reader.h"

#include "core/utf8.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>

namespace tenon::formats {

namespace {

constexpr std::align_val_t kAlignment{64};

std::string system_error() { return std::strerror(errno); }

}  // namespace

std::shared_ptr<std::byte[]> allocate_aligned(uint64_t size, std::string_view subject) {
  void* memory = ::operator new(size + 1, kAlignment, std::nothrow);
  require(memory != nullptr, ErrorCode::bad_file, "{}: there is no memory for {} bytes", subject,
          size);
  return {static_cast<std::byte*>(memory), [](std::byte* p) { ::operator delete(p, kAlignment); }};
}

Bytes aligned(Bytes bytes, std::string_view subject) {
  if (reinterpret_cast<uintptr_t>(bytes.span.data()) % static_cast<size_t>(kAlignment) == 0)
    return bytes;
  auto copy = allocate_aligned(bytes.span.size(), subject);
  if (!bytes.span.empty()) std::memcpy(copy.get(), bytes.span.data(), bytes.span.size());
  return {ByteSpan(copy.get(), bytes.span.size()), copy};
}

// Without O_NONBLOCK a pipe that nobody writes to is waited for before it can be refused.
OpenedFile::OpenedFile(std::string path)
    : path_(std::move(path)),
      descriptor_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {
  require(descriptor_ >= 0, ErrorCode::bad_file, "{}: cannot open the file: {}", path_,
          system_error());
}

OpenedFile::~OpenedFile() { ::close(descriptor_); }

bool OpenedFile::is_at_its_path() const {
  struct stat opened {
  }, found{};
  return ::fstat(descriptor_, &opened) == 0 && ::stat(path_.c_str(), &found) == 0 &&
         opened.st_dev == found.st_dev && opened.st_ino == found.st_ino;
}

Bytes map_file(const OpenedFile& file) {
  const std::string& path = file.path();
  struct stat status {};
  require(::fstat(file.descriptor(), &status) == 0, ErrorCode::bad_file,
          "{}: cannot read the file: {}", path, system_error());
  require(S_ISREG(status.st_mode), ErrorCode::bad_file,
          "{}: expected a regular file, found a folder, pipe or device", path);
  auto size = static_cast<size_t>(status.st_size);
  if (size == 0) return {};
  // Writable and private: who writes to a weight gets a copy of its page, the file stays as it is.
  void* address = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE,
                         file.descriptor(), 0);
  require(address != MAP_FAILED, ErrorCode::bad_file, "{}: cannot map the file: {}", path,
          system_error());
  std::shared_ptr<const void> owner(
      address, [size](const void* p) { ::munmap(const_cast<void*>(p), size); });
  return {ByteSpan(static_cast<const std::byte*>(address), size), owner};
}

Bytes map_file(const std::string& path) { return map_file(OpenedFile(path)); }

std::string printable(std::string_view text) {
  constexpr size_t longest = 80;
  auto is_plain = [](char c) { return c >= 0x20 && c < 0x7F; };
  std::string out;
  while (!text.empty() && out.size() < longest) {
    // Most names are plain ASCII, and readers show each of those that they may have to tell of.
    std::string_view fits = text.substr(0, longest - out.size());
    auto n = static_cast<size_t>(std::ranges::find_if_not(fits, is_plain) - fits.begin());
    if (n > 0) {
      out += fits.substr(0, n);
      text.remove_prefix(n);
      continue;
    }
    size_t length = utf8_sequence(text);
    auto lead = static_cast<unsigned char>(text[0]);
    if (length == 0 || lead < 0x20 || is_steering(text.substr(0, length))) {
      out += '?';
      text.remove_prefix(1);
    } else {
      out += text.substr(0, length);
      text.remove_prefix(length);
    }
  }
  if (!text.empty()) out += "...";
  return out;
}

void ByteReader::seek(uint64_t offset, std::string_view what) {
  require(offset <= bytes_.size(), ErrorCode::bad_file,
          "{}: expected {} at byte {}, but the file has {} bytes; is it complete?", subject_, what,
          offset, bytes_.size());
  offset_ = offset;
}

void ByteReader::expect(std::string_view magic, std::string_view what) {
  const uint64_t at = offset_;
  std::string_view found = text(magic.size(), what);
  require(found == magic, ErrorCode::bad_file, "{}: at byte {}: expected {}, found \"{}\"",
          subject_, at, what, printable(found));
}

void ByteReader::fail_short(uint64_t count, std::string_view what) const {
  fail(
      ErrorCode::bad_file,
      "{}: at byte {}: expected {} ({} bytes), found only {} before the end; is the file complete?",
      subject_, offset_, what, count, remaining());
}

}  // namespace tenon::formats
