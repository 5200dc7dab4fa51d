// Writing `.tenon` files, and reading them without trust.
#include "formats/tenon_file.h"

#include "formats/check.h"
#include "formats/limits.h"
#include "graph/hash.h"

#include <algorithm>
#include <ostream>
#include <sstream>

namespace tenon::formats {

namespace {

// The first byte is not text, and the line ends show a file that was copied as text.
constexpr std::string_view magic("\x89TENON\r\n", 8);
constexpr uint64_t alignment = 64;
constexpr uint64_t header_bytes = 64;
constexpr uint64_t digest_at = 32;  // what stands before it and the directory is what it is of

uint64_t aligned_size(uint64_t n) { return (n + alignment - 1) / alignment * alignment; }

std::string digest_of(std::string_view bytes) {
  Digest d = sha256(bytes);
  return {reinterpret_cast<const char*>(d.data()), d.size()};
}

template <class T>
void put(std::string& out, T number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof number);
}

struct FileHeader {
  uint32_t n_sections = 0;
  uint64_t file_bytes = 0, directory_bytes = 0;
  std::string_view digest;
};

FileHeader read_file_header(ByteReader& reader, const std::string& subject) {
  reader.expect(magic, "the beginning of a .tenon file");
  auto version = reader.u32("the version");
  check(version == tenon_file_version,
        "{}: is a .tenon file of version {}, this program reads version {}; write it again with "
        "`tenon compile` of this program",
        subject, version, tenon_file_version);
  FileHeader h;
  h.n_sections = reader.u32("the number of sections");
  h.file_bytes = reader.u64("the size of the file");
  h.directory_bytes = reader.u64("the size of the directory");
  h.digest = reader.text(32, "the digest of the directory");
  check(h.file_bytes == reader.size(), "{}: has {} bytes, expected {}; is it complete?", subject,
        reader.size(), h.file_bytes);
  check(h.directory_bytes <= reader.remaining(),
        "{}: the directory of sections reaches beyond the end", subject);
  return h;
}

struct TableEntry {
  uint64_t offset = 0, size = 0;
  std::string_view digest, name;
};

TableEntry read_entry(ByteReader& reader) {
  TableEntry e;
  e.offset = reader.u64("the offset of a section");
  e.size = reader.u64("the size of a section");
  e.digest = reader.text(32, "the digest of a section");
  e.name = reader.text(reader.u32("the length of a name"), "the name of a section");
  return e;
}

void check_zeros(ByteSpan file, uint64_t from, uint64_t to, const std::string& subject) {
  for (uint64_t at = from; at < to; ++at)
    check(file[at] == std::byte{0}, "{}: byte {} belongs to no section and is not 0", subject, at);
}

}  // namespace

bool is_tenon_file(ByteSpan file) { return as_text(file).starts_with(magic); }

TenonFile TenonFile::open(const std::string& path, std::string_view unchecked) {
  return open(OpenedFile(path), unchecked);
}

TenonFile TenonFile::open(const OpenedFile& file, std::string_view unchecked) {
  return from_bytes(map_file(file), file.path(), unchecked);
}

TenonFile TenonFile::from_bytes(Bytes bytes, const std::string& subject,
                                std::string_view unchecked) {
  TenonFile out;
  out.bytes_ = std::move(bytes);
  out.subject_ = subject;
  ByteSpan file = out.bytes_.span;
  ByteReader reader(file, subject);
  FileHeader header = read_file_header(reader, subject);
  ByteSpan directory = reader.take(header.directory_bytes, "the directory of sections");
  std::string signed_bytes(as_text(file.first(digest_at)));
  check(digest_of(signed_bytes.append(as_text(directory))) == header.digest,
        "{}: the directory of sections is damaged", subject);

  ByteReader entries(directory, subject);
  uint64_t end = header_bytes + header.directory_bytes;
  for (uint32_t i = 0; i < header.n_sections; ++i) {
    TableEntry e = read_entry(entries);
    check(e.offset == aligned_size(end) && e.offset <= file.size() &&
              e.size <= file.size() - e.offset,
          "{}: section {} does not lie where the one before ends", subject, printable(e.name));
    check_zeros(file, end, e.offset, subject);
    end = e.offset + e.size;
    ByteSpan content = file.subspan(e.offset, e.size);
    bool is_trusted = !unchecked.empty() && e.name.starts_with(unchecked);
    check(is_trusted || digest_of(as_text(content)) == e.digest, "{}: section {} is damaged",
          subject, printable(e.name));
    out.sections_.push_back({std::string(e.name), content});
  }
  check(entries.remaining() == 0 && end == file.size(), "{}: bytes follow the last section",
        subject);
  std::ranges::sort(out.sections_, {}, &Section::name);
  bool twice = std::ranges::adjacent_find(out.sections_, {}, &Section::name) != out.sections_.end();
  check(!twice, "{}: two sections have one name", subject);
  return out;
}

std::optional<Bytes> TenonFile::find(std::string_view name) const {
  auto at = std::ranges::lower_bound(sections_, name, {},
                                     [](const Section& s) { return std::string_view(s.name); });
  if (at == sections_.end() || at->name != name) return std::nullopt;
  return Bytes{at->bytes, bytes_.owner};
}

Bytes TenonFile::section(std::string_view name) const {
  auto found = find(name);
  check(found.has_value(), "{}: section {} is missing", subject_, name);
  return *found;
}

namespace {

void write_sections(std::ostream& out, const TenonSections& sections) {
  uint64_t directory_bytes = 0;
  for (const auto& [name, bytes] : sections) directory_bytes += 8 + 8 + 32 + 4 + name.size();
  std::string directory;
  uint64_t end = header_bytes + directory_bytes;
  for (const auto& [name, bytes] : sections) {
    put(directory, aligned_size(end));
    put(directory, uint64_t{bytes.size()});
    directory += digest_of(as_text(bytes));
    put(directory, static_cast<uint32_t>(name.size()));
    directory += name;
    end = aligned_size(end) + bytes.size();
  }
  std::string head(magic);
  put(head, tenon_file_version);
  put(head, static_cast<uint32_t>(sections.size()));
  put(head, end);
  put(head, directory_bytes);
  head += digest_of(head + directory);
  out << head << directory;
  uint64_t at = header_bytes + directory_bytes;
  for (const auto& [name, bytes] : sections) {
    out << std::string(aligned_size(at) - at, '\0') << as_text(bytes);
    at = aligned_size(at) + bytes.size();
  }
}

}  // namespace

std::string tenon_file_bytes(const TenonSections& sections) {
  std::ostringstream out;
  write_sections(out, sections);
  return std::move(out).str();
}

void write_tenon_file(const std::string& path, const TenonSections& sections) {
  write_file(path, [&](std::ostream& out) { write_sections(out, sections); });
}

}  // namespace tenon::formats
