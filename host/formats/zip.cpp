// Reading zip archives that nobody vouches for.
//
// Problem. A zip says everything twice: a local header before each entry's data and a central
// directory at the end, found through an end record that is searched from the back. Readers that
// believe different copies see different files, and PyTorch's local headers hold zeros anyway.
//
// Method. The central directory is the only source of names, sizes and checksums. The local header
// serves to find the data and must agree in signature, name and method. Before anything is read:
//   - the end record must end exactly where the file ends, the directory must lie before it and
//     hold exactly the number of entries announced;
//   - header and data of each entry lie before the directory and overlap no other entry's, so that
//     a small file cannot hold the same data many times over;
//   - names are plain relative paths, unique, in UTF-8;
//   - unpacked sizes obey a bound on their sum, and deflated ones a bound on the ratio, so that the
//     buffer of an entry is never larger than a thousand times bytes that are really there.
// Inflating stops at the declared size. Cost: O(n log n) in entries, and one pass over data read.
//
// Source: PKWARE APPNOTE 6.3.10, sections 4.3 to 4.5.
#include "formats/zip.h"
#include "core/utf8.h"
#include "formats/check.h"
#include "formats/zip_records.h"

#include <zlib.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace tenon::formats {

using namespace zip_records;

namespace {

// Encrypted, patched, strongly encrypted, masked headers.
constexpr uint16_t kRefusedFlags = (1u << 0) | (1u << 5) | (1u << 6) | (1u << 13);

struct Directory {
  uint64_t entries = 0;
  uint64_t size = 0;
  uint64_t offset = 0;
  uint64_t limit = 0;  // where the end records begin
};

// The end record is the last one whose comment reaches exactly to the end of the file.
uint64_t find_end_record(ByteSpan bytes, const std::string& subject) {
  std::string_view text = as_text(bytes);
  if (text.size() >= kEndSize) {
    uint64_t first = text.size() - std::min<uint64_t>(text.size(), kEndSize + 0xFFFF);
    for (uint64_t at = text.size() - kEndSize + 1; at-- > first;) {
      if (text.substr(at, 4) != kEndMagic) continue;
      uint16_t comment = 0;
      std::memcpy(&comment, text.data() + at + 20, sizeof comment);
      if (at + kEndSize + comment == text.size()) return at;
    }
  }
  fail(
      ErrorCode::bad_file,
      "{}: expected a zip archive, found no end record in the last 64 KiB of {} bytes; is the file "
      "complete?",
      subject, text.size());
}

// Replaces `directory` by what the zip64 end record says, when its locator stands before `end`.
void read_end64(ByteReader& in, uint64_t end, const std::string& subject, Directory& directory) {
  if (end < kLocator64Size) return;
  in.seek(end - kLocator64Size, "the zip64 locator");
  if (in.text(4, "the zip64 locator") != kLocator64Magic) return;
  uint32_t disk = in.u32("the disk number");
  uint64_t at = in.u64("the offset of the zip64 end record");
  uint32_t disks = in.u32("the number of disks");
  check(disk == 0 && disks <= 1, "{}: archives on several disks are not supported", subject);
  in.seek(at, "the zip64 end record");
  in.expect(kEnd64Magic, "the zip64 end record");
  in.skip(8 + 2 + 2, "size and versions of the zip64 end record");
  uint32_t this_disk = in.u32("the disk number");
  uint32_t start_disk = in.u32("the disk of the directory");
  uint64_t entries_here = in.u64("the number of entries on this disk");
  Directory large{.entries = in.u64("the number of entries"),
                  .size = in.u64("the size of the directory"),
                  .offset = in.u64("the offset of the directory"),
                  .limit = at};
  check(this_disk == 0 && start_disk == 0 && entries_here == large.entries,
        "{}: archives on several disks are not supported", subject);
  bool agree = (directory.entries == 0xFFFF || directory.entries == large.entries) &&
               (directory.size == kSee64 || directory.size == large.size) &&
               (directory.offset == kSee64 || directory.offset == large.offset);
  check(agree, "{}: the end record and the zip64 end record disagree", subject);
  directory = large;
}

Directory read_end(ByteSpan bytes, const std::string& subject) {
  const uint64_t end = find_end_record(bytes, subject);
  ByteReader in(bytes, subject);
  in.seek(end + 4, "the end record");
  uint16_t disk = in.u16("the disk number");
  uint16_t start_disk = in.u16("the disk of the directory");
  uint16_t entries_here = in.u16("the number of entries on this disk");
  Directory directory{.entries = in.u16("the number of entries"),
                      .size = in.u32("the size of the directory"),
                      .offset = in.u32("the offset of the directory"),
                      .limit = end};
  check(disk == 0 && start_disk == 0 && entries_here == directory.entries,
        "{}: archives on several disks are not supported", subject);
  read_end64(in, end, subject, directory);
  check(directory.offset <= directory.limit && directory.size <= directory.limit - directory.offset,
        "{}: the central directory (byte {}, {} bytes) lies outside the file", subject,
        directory.offset, directory.size);
  check(directory.entries <= limits::archive_entries, "{}: expected at most {} entries, found {}",
        subject, limits::archive_entries, directory.entries);
  check(directory.entries * kCentralSize <= directory.size,
        "{}: expected {} entries, but the central directory has only {} bytes", subject,
        directory.entries, directory.size);
  return directory;
}

// Sizes and offsets of 0xFFFFFFFF stand in the zip64 extra field, in this order.
void read_extra64(ByteSpan extra, const std::string& subject, ZipEntry& entry) {
  ByteReader in(extra, message("{}: entry {}: extra field", subject, printable(entry.name)));
  while (in.remaining() >= 4) {
    uint16_t id = in.u16("an extra field");
    uint16_t size = in.u16("the size of an extra field");
    ByteReader field(in.take(size, "an extra field"), subject);
    if (id != 1) continue;
    for (uint64_t* value : {&entry.size, &entry.packed_size, &entry.header_offset})
      if (*value == kSee64) *value = field.u64("a zip64 size");
    return;
  }
}

// One entry of the central directory; nothing for a folder.
std::optional<ZipEntry> read_central(ByteReader& in, const std::string& subject) {
  in.expect(kCentralMagic, "an entry of the central directory");
  in.skip(4, "versions");
  uint16_t flags = in.u16("flags");
  uint16_t method = in.u16("the compression method");
  in.skip(4, "the date");
  ZipEntry entry;
  entry.crc = in.u32("the checksum");
  entry.packed_size = in.u32("the packed size");
  entry.size = in.u32("the size");
  uint16_t name_size = in.u16("the length of the name");
  uint16_t extra_size = in.u16("the length of the extra field");
  uint16_t comment_size = in.u16("the length of the comment");
  uint16_t disk = in.u16("the disk number");
  in.skip(2 + 4, "attributes");
  entry.header_offset = in.u32("the offset of the local header");
  entry.name = in.text(name_size, "the name of an entry");
  read_extra64(in.take(extra_size, "the extra field"), subject, entry);
  in.skip(comment_size, "the comment");
  const std::string shown = printable(entry.name);
  check(disk == 0 || disk == 0xFFFF, "{}: entry {}: archives on several disks are not supported",
        subject, shown);
  check((flags & kRefusedFlags) == 0,
        "{}: entry {}: encrypted or patched entries are not supported", subject, shown);
  check(method == kStored || method == kDeflated,
        "{}: entry {}: expected compression method 0 (stored) or 8 (deflated), found {}; pack it "
        "again with one of those",
        subject, shown, method);
  entry.deflated = method == kDeflated;
  check(entry.deflated || entry.packed_size == entry.size,
        "{}: entry {}: a stored entry has two sizes, {} and {}", subject, shown, entry.packed_size,
        entry.size);
  if (entry.name.ends_with('/') && entry.size == 0) return std::nullopt;
  return entry;
}

std::string_view fault_of_name(std::string_view name) {
  if (name.empty()) return "is empty";
  if (name.size() > limits::entry_name) return "is longer than 1024 bytes";
  if (!is_utf8(name)) return "is not valid UTF-8";
  if (name.find('\0') != name.npos) return "has a NUL inside";
  if (name.find('\\') != name.npos) return "has a backslash inside";
  if (name.size() > 1 && name[1] == ':') return "begins with a drive letter";
  if (name.front() == '/') return "is absolute";
  while (true) {
    size_t slash = name.find('/');
    std::string_view part = name.substr(0, slash);
    if (part.empty()) return "has an empty component";
    if (part == "." || part == "..") return "has a component . or ..";
    if (slash == name.npos) return {};
    name.remove_prefix(slash + 1);
  }
}

}  // namespace

void zip_records::check_name(std::string_view name, std::string_view subject) {
  std::string_view fault = fault_of_name(name);
  check(fault.empty(), "{}: the entry name \"{}\" {}; refused as unsafe", subject, printable(name),
        fault);
}

uint32_t zip_records::crc_of(ByteSpan bytes) {
  return static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

namespace {

// Finds the data behind the local header, which must tell the same name and method.
void locate_data(ByteReader& in, const Directory& directory, const std::string& subject,
                 ZipEntry& entry) {
  const std::string shown = printable(entry.name);
  in.seek(entry.header_offset, "the local header of " + shown);
  in.expect(kLocalMagic, "the local header of " + shown);
  in.skip(4, "version and flags");
  uint16_t method = in.u16("the compression method");
  in.skip(4 + 4 + 4 + 4, "date, checksum and sizes");
  uint16_t name_size = in.u16("the length of the name");
  uint16_t extra_size = in.u16("the length of the extra field");
  std::string_view name = in.text(name_size, "the name in the local header");
  in.skip(extra_size, "the extra field");
  check(name == entry.name, "{}: entry {}: its local header has another name, {}", subject, shown,
        printable(name));
  check(method == (entry.deflated ? kDeflated : kStored),
        "{}: entry {}: its local header has another compression method, {}", subject, shown,
        method);
  entry.data_offset = in.offset();
  check(entry.data_offset <= directory.offset &&
            entry.packed_size <= directory.offset - entry.data_offset,
        "{}: entry {}: its data (byte {}, {} bytes) reaches into the central directory", subject,
        shown, entry.data_offset, entry.packed_size);
}

void check_overlaps(const std::vector<ZipEntry>& entries, const std::string& subject) {
  std::vector<const ZipEntry*> by_offset;
  by_offset.reserve(entries.size());
  for (const ZipEntry& entry : entries) by_offset.push_back(&entry);
  std::ranges::sort(by_offset, {}, &ZipEntry::header_offset);
  for (size_t i = 1; i < by_offset.size(); ++i) {
    const ZipEntry& before = *by_offset[i - 1];
    check(before.data_offset + before.packed_size <= by_offset[i]->header_offset,
          "{}: the entries {} and {} overlap; refused as unsafe", subject, printable(before.name),
          printable(by_offset[i]->name));
  }
}

void check_sizes(const std::vector<ZipEntry>& entries, const std::string& subject,
                 const ZipOptions& options) {
  uint64_t total = 0;
  for (const ZipEntry& entry : entries) {
    // A record that becomes a tree takes many times its size, so it may not be packed as tightly.
    uint64_t most = limits::json_slack + limits::json_ratio * entry.packed_size;
    check(!entry.deflated || !entry.name.ends_with(".json") || entry.size <= most,
          "{}: entry {}: {} bytes of JSON from {} packed ones; expected at most {}", subject,
          printable(entry.name), entry.size, entry.packed_size, most);
    check(!entry.deflated || entry.size / limits::deflate_ratio <= entry.packed_size,
          "{}: entry {}: {} bytes packed into {} is more than {} to 1; refused as a zip bomb",
          subject, printable(entry.name), entry.size, entry.packed_size, limits::deflate_ratio);
    bool overflow = __builtin_add_overflow(total, entry.size, &total);
    check(!overflow && total <= options.max_size,
          "{}: the entries unpack to more than {} bytes; raise max_size (--max-size) if you trust "
          "the file",
          subject, options.max_size);
  }
}

Bytes inflate_entry(ByteSpan packed, const ZipEntry& entry, const std::string& subject) {
  auto buffer = allocate_aligned(entry.size, subject);
  z_stream stream{};
  check(inflateInit2(&stream, -MAX_WBITS) == Z_OK, "{}: zlib cannot start", subject);
  auto done = std::unique_ptr<z_stream, int (*)(z_stream*)>(&stream, inflateEnd);
  constexpr uint64_t piece = uint64_t{1} << 30;  // zlib counts in 32 bits
  uint64_t read = 0;
  uint64_t written = 0;
  int status = Z_OK;
  while (status == Z_OK) {
    auto in_now = static_cast<uInt>(std::min(piece, packed.size() - read));
    // One byte more than declared shows a stream that holds too much.
    auto out_now = static_cast<uInt>(std::min(piece, entry.size + 1 - written));
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data() + read));
    stream.avail_in = in_now;
    stream.next_out = reinterpret_cast<Bytef*>(buffer.get() + written);
    stream.avail_out = out_now;
    status = inflate(&stream, Z_NO_FLUSH);
    read += in_now - stream.avail_in;
    written += out_now - stream.avail_out;
    if (written > entry.size) break;
  }
  check(status == Z_STREAM_END && written == entry.size && read == packed.size(),
        "{}: entry {}: expected {} bytes of deflated data, found a damaged stream", subject,
        printable(entry.name), entry.size);
  return {ByteSpan(buffer.get(), entry.size), buffer};
}

}  // namespace

ZipArchive ZipArchive::open(const std::string& path, const ZipOptions& options) {
  return from_bytes(map_file(path), path, options);
}

ZipArchive ZipArchive::from_bytes(Bytes bytes, const std::string& subject,
                                  const ZipOptions& options) {
  ZipArchive zip;
  zip.bytes_ = std::move(bytes);
  zip.subject_ = subject;
  zip.options_ = options;
  const ByteSpan all = zip.bytes_.span;
  const Directory directory = read_end(all, subject);
  ByteReader central(all.first(directory.offset + directory.size), subject);
  central.seek(directory.offset, "the central directory");
  ByteReader local(all.first(directory.offset), subject);
  for (uint64_t i = 0; i < directory.entries; ++i) {
    std::optional<ZipEntry> entry = read_central(central, subject);
    if (!entry) continue;
    check_name(entry->name, subject);
    locate_data(local, directory, subject, *entry);
    zip.entries_.push_back(std::move(*entry));
  }
  check(central.remaining() == 0, "{}: the central directory holds more than {} entries", subject,
        directory.entries);
  check_overlaps(zip.entries_, subject);
  check_sizes(zip.entries_, subject, options);
  for (size_t i = 0; i < zip.entries_.size(); ++i)
    check(zip.by_name_.emplace(zip.entries_[i].name, i).second, "{}: the entry {} exists twice",
          subject, printable(zip.entries_[i].name));
  return zip;
}

const ZipEntry* ZipArchive::find(std::string_view name) const {
  auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &entries_[found->second];
}

Bytes ZipArchive::read(const ZipEntry& entry) const {
  ByteSpan packed = bytes_.span.subspan(entry.data_offset, entry.packed_size);
  Bytes content =
      entry.deflated ? inflate_entry(packed, entry, subject_) : Bytes{packed, bytes_.owner};
  // A checksum of 0 is what PyTorch writes with checksums switched off.
  if (entry.crc == 0 || !(options_.check_crc || entry.deflated)) return content;
  uint32_t found = crc_of(content.span);
  check(found == entry.crc,
        "{}: entry {}: expected checksum {}, found {}; the file is damaged, copy it again",
        subject_, printable(entry.name), entry.crc, found);
  return content;
}

}  // namespace tenon::formats
