// Writing zip archives: stored entries with aligned data, always with the zip64 end record.
#include "formats/zip.h"
#include "formats/zip_records.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

namespace tenon::formats {

using namespace zip_records;

namespace {

// Little-endian fields of a header, appended one after another.
class Fields {
 public:
  Fields& magic(std::string_view text) { return raw(text); }
  Fields& u16(uint64_t value) { return number<uint16_t>(value); }
  Fields& u32(uint64_t value) { return number<uint32_t>(value); }
  Fields& u64(uint64_t value) { return number<uint64_t>(value); }
  /// 32 bits of a value that stands in the zip64 extra field when it is too large.
  Fields& size32(uint64_t value) { return u32(std::min<uint64_t>(value, kSee64)); }
  Fields& raw(std::string_view text) {
    text_ += text;
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  template <class T>
  Fields& number(uint64_t value) {
    T narrow = static_cast<T>(value);
    text_.append(reinterpret_cast<const char*>(&narrow), sizeof narrow);
    return *this;
  }
  std::string text_;
};

// The zip64 extra field: the values that do not fit into 32 bits, or nothing.
std::string extra64(std::initializer_list<uint64_t> values) {
  Fields large;
  for (uint64_t value : values)
    if (value >= kSee64) large.u64(value);
  if (large.text().empty()) return {};
  return Fields().u16(1).u16(large.text().size()).raw(large.text()).text();
}

constexpr uint16_t kVersion64 = 45;  // zip64
constexpr uint16_t kFlagUtf8 = 1u << 11;
constexpr uint32_t kDate1980 = 0x00210000;  // 1 January 1980, midnight

}  // namespace

void ZipWriter::put(std::string_view text) {
  out_.write(text.data(), static_cast<std::streamsize>(text.size()));
  offset_ += text.size();
}

void ZipWriter::add(const std::string& name, ByteSpan data) {
  ZipEntry entry{.name = name,
                 .crc = crc_of(data),
                 .packed_size = data.size(),
                 .size = data.size(),
                 .header_offset = offset_};
  check_name(name, "zip writer");
  require(!name.ends_with('/'), "zip writer: {} names a folder", name);
  // A local header has room for both sizes or none.
  const bool large = entry.size >= kSee64;
  std::string extra =
      large ? Fields().u16(1).u16(16).u64(entry.size).u64(entry.size).text() : std::string();
  constexpr uint64_t header = 30;
  constexpr uint64_t alignment = 64;
  uint64_t unpadded = offset_ + header + name.size() + extra.size() + 4;
  uint64_t padding = (alignment - unpadded % alignment) % alignment;
  extra += Fields().raw("FB").u16(padding).raw(std::string(padding, 'Z')).text();
  put(Fields()
          .magic(kLocalMagic)
          .u16(kVersion64)
          .u16(kFlagUtf8)
          .u16(kStored)
          .u32(kDate1980)
          .u32(entry.crc)
          .size32(entry.size)
          .size32(entry.size)
          .u16(name.size())
          .u16(extra.size())
          .raw(name)
          .raw(extra)
          .text());
  entry.data_offset = offset_;
  put(as_text(data));
  entries_.push_back(std::move(entry));
}

void ZipWriter::finish() {
  const uint64_t begin = offset_;
  for (const ZipEntry& entry : entries_) {
    std::string extra = extra64({entry.size, entry.size, entry.header_offset});
    put(Fields()
            .magic(kCentralMagic)
            .u16(kVersion64)
            .u16(kVersion64)
            .u16(kFlagUtf8)
            .u16(kStored)
            .u32(kDate1980)
            .u32(entry.crc)
            .size32(entry.size)
            .size32(entry.size)
            .u16(entry.name.size())
            .u16(extra.size())
            .u16(0)
            .u16(0)
            .u16(0)
            .u32(0)
            .size32(entry.header_offset)
            .raw(entry.name)
            .raw(extra)
            .text());
  }
  const uint64_t end = offset_;
  const uint64_t count = entries_.size();
  Fields tail;
  tail.magic(kEnd64Magic).u64(44).u16(kVersion64).u16(kVersion64).u32(0).u32(0);
  tail.u64(count).u64(count).u64(end - begin).u64(begin);
  tail.magic(kLocator64Magic).u32(0).u64(end).u32(1);
  tail.magic(kEndMagic).u16(0).u16(0).u16(std::min<uint64_t>(count, 0xFFFF));
  tail.u16(std::min<uint64_t>(count, 0xFFFF)).size32(end - begin).size32(begin).u16(0);
  put(tail.text());
}

}  // namespace tenon::formats
