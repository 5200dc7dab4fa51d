// Reading and writing bundles of cache entries.
#include "formats/cache_bundle.h"

#include "formats/byte_reader.h"
#include "graph/hash.h"

#include <algorithm>

namespace tenon::formats {

namespace {

constexpr std::string_view magic = "TenonBun", subject = "a bundle of cache entries";
constexpr uint32_t version = 1;

std::string digest_of(std::string_view bytes) {
  Digest digest = sha256(bytes);
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

template <class T>
void put(std::string& out, T number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof number);
}

// One part of a path: letters, digits, and points and dashes within.
bool is_plain_name(std::string_view name) {
  auto is_plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '_' || c == '.';
  };
  return !name.empty() && name.size() <= 128 && name[0] != '.' &&
         std::ranges::all_of(name, is_plain);
}

// Three names, such as "aot/inductor-1.0.0/0123456789abcdef".
bool is_folder(std::string_view folder) {
  size_t n = 0;
  for (size_t begin = 0; begin <= folder.size(); ++n) {
    size_t end = std::min(folder.find('/', begin), folder.size());
    if (!is_plain_name(folder.substr(begin, end - begin))) return false;
    begin = end + 1;
  }
  return n == 3;
}

BundleEntry read_entry(ByteReader& in) {
  uint32_t folder_length = in.u32("the length of a folder's name");
  uint32_t name_length = in.u32("the length of a name");
  uint64_t length = in.u64("the length of an entry");
  BundleEntry entry;
  entry.folder = in.text(folder_length, "a folder's name");
  entry.name = in.text(name_length, "a name");
  require(is_folder(entry.folder) && is_plain_name(entry.name), ErrorCode::bad_file,
          "{}: '{}/{}' is no place in the cache; expected three names and a key", subject,
          printable(entry.folder), printable(entry.name));
  entry.bytes = in.text(length, "the bytes of an entry");
  return entry;
}

}  // namespace

std::string write_cache_bundle(std::span<const BundleEntry> entries) {
  std::string out(magic);
  put(out, version);
  put(out, static_cast<uint32_t>(entries.size()));
  for (const BundleEntry& entry : entries) {
    put(out, static_cast<uint32_t>(entry.folder.size()));
    put(out, static_cast<uint32_t>(entry.name.size()));
    put(out, static_cast<uint64_t>(entry.bytes.size()));
    out += entry.folder;
    out += entry.name;
    out += entry.bytes;
  }
  return out + digest_of(out);
}

std::vector<BundleEntry> read_cache_bundle(std::string_view bundle) {
  constexpr size_t digest_length = sizeof(Digest);
  require(bundle.size() >= digest_length && bundle.starts_with(magic), ErrorCode::bad_file,
          "{}: it does not begin like one; expected what save_cache_artifacts() gave", subject);
  std::string_view content = bundle.substr(0, bundle.size() - digest_length);
  require(digest_of(content) == bundle.substr(content.size()), ErrorCode::bad_file,
          "{}: its bytes are damaged or incomplete; save it again", subject);
  ByteReader in(as_byte_span(content), subject);
  in.expect(magic, "the beginning");
  uint32_t found = in.u32("the version");
  require(found == version, ErrorCode::bad_file, "{}: it has version {}; expected {}", subject,
          found, version);
  uint32_t n = in.u32("the number of entries");
  std::vector<BundleEntry> entries;
  for (uint32_t i = 0; i < n; ++i) entries.push_back(read_entry(in));
  require(in.remaining() == 0, ErrorCode::bad_file, "{}: bytes are left after the last entry",
          subject);
  return entries;
}

}  // namespace tenon::formats
