// The zip reader against well-formed, damaged and hostile archives.
#include "formats/zip.h"

#include <zlib.h>

#include "test_files.h"

namespace tenon::formats {
namespace {

using ::testing::HasSubstr;
using testing::own_bytes;
using testing::patch;
using testing::refusal_of;

// One entry as it will stand in a hand-made archive; every field can be made wrong.
struct Entry {
  std::string name;
  std::string data;
  std::string local_name = name;
  uint16_t flags = 0;
  uint16_t method = 0;
  uint32_t crc = static_cast<uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(data.data()), static_cast<uInt>(data.size())));
  uint32_t size = static_cast<uint32_t>(data.size());
  int64_t same_place_as = -1;  // the header offset of another entry
};

class Maker {
 public:
  template <class T>
  void number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text(std::string_view text) { bytes_ += text; }

  // Offsets of local headers, the directory, the end record: for tests that patch them.
  std::vector<size_t> local;
  std::vector<size_t> central;
  size_t end = 0;

  std::string make(const std::vector<Entry>& entries) {
    for (const Entry& e : entries) {
      if (e.same_place_as >= 0) {
        local.push_back(local.at(static_cast<size_t>(e.same_place_as)));
        continue;
      }
      local.push_back(bytes_.size());
      text("PK\3\4");
      for (uint16_t v : {uint16_t{20}, e.flags, e.method, uint16_t{0}, uint16_t{0}}) number(v);
      for (uint32_t v : {e.crc, static_cast<uint32_t>(e.data.size()), e.size}) number(v);
      number(static_cast<uint16_t>(e.local_name.size()));
      number(uint16_t{0});
      text(e.local_name);
      text(e.data);
    }
    size_t directory = bytes_.size();
    for (size_t i = 0; i < entries.size(); ++i) add_central(entries[i], local[i]);
    size_t directory_size = bytes_.size() - directory;
    end = bytes_.size();
    text("PK\5\6");
    number(uint32_t{0});
    number(static_cast<uint16_t>(entries.size()));
    number(static_cast<uint16_t>(entries.size()));
    number(static_cast<uint32_t>(directory_size));
    number(static_cast<uint32_t>(directory));
    number(uint16_t{0});
    return bytes_;
  }

 private:
  void add_central(const Entry& e, size_t at) {
    central.push_back(bytes_.size());
    text("PK\1\2");
    for (uint16_t v : {uint16_t{20}, uint16_t{20}, e.flags, e.method, uint16_t{0}, uint16_t{0}})
      number(v);
    for (uint32_t v : {e.crc, static_cast<uint32_t>(e.data.size()), e.size}) number(v);
    number(static_cast<uint16_t>(e.name.size()));
    for (int i = 0; i < 4; ++i) number(uint16_t{0});
    number(uint32_t{0});
    number(static_cast<uint32_t>(at));
    text(e.name);
  }
  std::string bytes_;
};

std::string deflated(const std::string& data) {
  std::string packed(compressBound(data.size()) + 64, '\0');
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

Entry deflated_entry(const std::string& name, const std::string& data) {
  Entry entry{.name = name, .data = data};
  entry.data = deflated(data);
  entry.method = 8;
  return entry;
}

ZipArchive open(std::string bytes, const ZipOptions& options = {}) {
  return ZipArchive::from_bytes(own_bytes(std::move(bytes)), "test.zip", options);
}

std::string zip_refusal(const std::string& bytes, const ZipOptions& options = {}) {
  auto refused = refusal_of([&] {
    ZipArchive zip = open(bytes, options);
    for (const ZipEntry& entry : zip.entries()) zip.read(entry);
  });
  EXPECT_EQ(refused.code, ErrorCode::bad_file);
  EXPECT_THAT(refused.message, HasSubstr("test.zip"));
  return refused.message;
}

TEST(ZipReader, GivesStoredEntriesWithoutACopy) {
  std::string bytes = Maker().make({{"a/x", "hello"}, {"a/empty", ""}});
  auto owner = std::make_shared<std::string>(bytes);
  ZipArchive zip = ZipArchive::from_bytes({as_byte_span(*owner), owner}, "test.zip");
  ASSERT_EQ(zip.entries().size(), 2u);
  Bytes content = zip.read(*zip.find("a/x"));
  EXPECT_EQ(as_text(content.span), "hello");
  EXPECT_GE(as_text(content.span).data(), owner->data());
  EXPECT_LT(as_text(content.span).data(), owner->data() + owner->size());
  EXPECT_EQ(zip.read(*zip.find("a/empty")).span.size(), 0u);
  EXPECT_EQ(zip.find("a/y"), nullptr);
}

TEST(ZipReader, InflatesDeflatedEntries) {
  std::string data;
  for (int i = 0; i < 5000; ++i) data += std::to_string(i * i);
  ZipArchive zip = open(Maker().make({deflated_entry("a/x", data), {"a/y", "z"}}));
  EXPECT_EQ(as_text(zip.read(*zip.find("a/x")).span), data);
}

TEST(ZipReader, SkipsFolders) {
  ZipArchive zip = open(Maker().make({{"a/", ""}, {"a/x", "1"}}));
  EXPECT_EQ(zip.entries().size(), 1u);
}

TEST(ZipReader, MovesWithItsNames) {
  ZipArchive zip = open(Maker().make({{"a", "1"}, {"b", "2"}}));
  ZipArchive moved = std::move(zip);
  ASSERT_NE(moved.find("b"), nullptr);
  EXPECT_EQ(as_text(moved.read(*moved.find("b")).span), "2");
}

TEST(ZipReader, ReadsWhatTheWriterWrote) {
  std::ostringstream out;
  ZipWriter writer(out);
  writer.add("m/one", as_byte_span("first"));
  writer.add("m/data/two", as_byte_span(std::string(1000, 'q')));
  writer.add("m/none", {});
  writer.finish();
  ZipArchive zip = open(out.str());
  ASSERT_EQ(zip.entries().size(), 3u);
  for (const ZipEntry& entry : zip.entries()) EXPECT_EQ(entry.data_offset % 64, 0u) << entry.name;
  EXPECT_EQ(as_text(zip.read(*zip.find("m/one")).span), "first");
  EXPECT_EQ(zip.read(*zip.find("m/data/two")).span.size(), 1000u);
}

TEST(ZipReader, ReadsEveryRecordOfTheSharedModels) {
  for (const std::string& file : testing::recorded_models(".pt2")) {
    ZipArchive zip = ZipArchive::open(file);
    EXPECT_GE(zip.entries().size(), 8u) << file;
    for (const ZipEntry& entry : zip.entries()) {
      EXPECT_EQ(zip.read(entry).span.size(), entry.size);
      EXPECT_EQ(entry.data_offset % 64, 0u);
    }
  }
}

TEST(ZipReader, RefusesEveryTruncation) {
  std::string bytes = Maker().make({{"a/x", "hello"}, deflated_entry("a/y", "aaaaaaaaaaaaaaaaaa")});
  for (size_t length = 0; length < bytes.size(); ++length)
    EXPECT_NE(zip_refusal(bytes.substr(0, length)), "") << length;
}

TEST(ZipReader, SurvivesEveryByteChanged) {
  const std::string bytes =
      Maker().make({{"a/x", "hello"}, deflated_entry("a/y", "aaaaaaaaaaaaaaaaaa")});
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (int change : {1, 0x80, 0xFF}) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ change);
      try {
        ZipArchive zip = open(damaged);
        for (const ZipEntry& entry : zip.entries()) zip.read(entry);
      } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ErrorCode::bad_file);
      }
    }
  }
}

TEST(ZipReader, RefusesWhatIsNoZip) {
  EXPECT_THAT(zip_refusal(std::string(5000, 'x')), HasSubstr("expected a zip archive"));
  EXPECT_THAT(zip_refusal(""), HasSubstr("expected a zip archive"));
}

TEST(ZipReader, RefusesADirectoryOutsideTheFile) {
  Maker maker;
  std::string bytes = maker.make({{"a/x", "hello"}});
  patch(bytes, maker.end + 16, uint32_t{1} << 30);
  EXPECT_THAT(zip_refusal(bytes), HasSubstr("outside the file"));
}

TEST(ZipReader, RefusesAnotherNumberOfEntries) {
  for (uint16_t count : {uint16_t{1}, uint16_t{3}}) {
    Maker maker;
    std::string bytes = maker.make({{"a/x", "hello"}, {"a/y", "hello"}});
    patch(bytes, maker.end + 8, count);
    patch(bytes, maker.end + 10, count);
    EXPECT_NE(zip_refusal(bytes), "");
  }
}

TEST(ZipReader, RefusesALocalHeaderOfAnotherName) {
  EXPECT_THAT(zip_refusal(Maker().make({{.name = "a/x", .data = "1", .local_name = "a/y"}})),
              HasSubstr("another name"));
}

TEST(ZipReader, RefusesOverlappingRecords) {
  EXPECT_THAT(zip_refusal(Maker().make(
                  {{"a/x", "hello"}, {.name = "a/x", .data = "hello", .same_place_as = 0}})),
              HasSubstr("overlap"));
}

TEST(ZipReader, RefusesDataThatReachesIntoTheDirectory) {
  Maker maker;
  std::string bytes = maker.make({{"a/x", "hello"}});
  patch(bytes, maker.central[0] + 20, uint32_t{60});
  patch(bytes, maker.central[0] + 24, uint32_t{60});
  EXPECT_THAT(zip_refusal(bytes), HasSubstr("into the central directory"));
}

TEST(ZipReader, RefusesAWrongChecksumUnlessToldNotTo) {
  std::string bytes = Maker().make({{.name = "a/x", .data = "hello", .crc = 7}});
  EXPECT_THAT(zip_refusal(bytes), HasSubstr("checksum"));
  ZipArchive zip = open(bytes, {.check_crc = false});
  EXPECT_EQ(as_text(zip.read(zip.entries()[0]).span), "hello");
}

TEST(ZipReader, AcceptsAChecksumThatWasNotWritten) {
  ZipArchive zip = open(Maker().make({{.name = "a/x", .data = "hello", .crc = 0}}));
  EXPECT_EQ(as_text(zip.read(zip.entries()[0]).span), "hello");
}

TEST(ZipReader, RefusesOtherCompressionAndEncryption) {
  EXPECT_THAT(zip_refusal(Maker().make({{.name = "a/x", .data = "1", .method = 12}})),
              HasSubstr("compression method"));
  EXPECT_THAT(zip_refusal(Maker().make({{.name = "a/x", .data = "1", .flags = 1}})),
              HasSubstr("encrypted"));
  EXPECT_THAT(zip_refusal(Maker().make({{.name = "a/x", .data = "1", .flags = 1 << 5}})),
              HasSubstr("patched"));
}

TEST(ZipReader, RefusesSeveralDisks) {
  Maker maker;
  std::string bytes = maker.make({{"a/x", "hello"}});
  patch(bytes, maker.end + 4, uint16_t{1});
  EXPECT_THAT(zip_refusal(bytes), HasSubstr("disks"));
}

TEST(ZipReader, RefusesZipBombs) {
  Entry bomb = deflated_entry("a/x", std::string(1 << 20, '\0'));
  bomb.size = 1 << 30;
  EXPECT_THAT(zip_refusal(Maker().make({bomb})), HasSubstr("zip bomb"));
  std::string bytes = Maker().make({{"a/x", "hello"}, {"a/y", "hello"}});
  EXPECT_THAT(zip_refusal(bytes, {.max_size = 9}), HasSubstr("--max-size"));
  EXPECT_EQ(open(bytes, {.max_size = 10}).entries().size(), 2u);
}

TEST(ZipReader, RefusesJsonThatIsPackedTooTightly) {
  std::string spaces(6 << 20, ' ');
  for (size_t i = 0; i < spaces.size(); i += 6000) spaces[i] = static_cast<char>('a' + i % 26);
  EXPECT_THAT(zip_refusal(Maker().make({deflated_entry("a/x.json", spaces)})),
              HasSubstr("6291456 bytes of JSON"));
  EXPECT_EQ(open(Maker().make({deflated_entry("a/x.txt", spaces)})).entries().size(), 1u);
}

TEST(ZipReader, RefusesDeflatedDataOfAnotherSize) {
  for (uint32_t size : {999u, 1001u}) {
    Entry entry = deflated_entry("a/x", std::string(1000, 'q'));
    entry.size = size;
    EXPECT_THAT(zip_refusal(Maker().make({entry})), HasSubstr("damaged stream"));
  }
}

TEST(ZipReader, RefusesUnsafeNames) {
  const std::pair<std::string, std::string> cases[] = {{"/a", "absolute"},
                                                       {"a/../b", ". or .."},
                                                       {"./a", ". or .."},
                                                       {"a//b", "empty component"},
                                                       {"C:/a", "drive"},
                                                       {"a\\b", "backslash"},
                                                       {std::string("a\0b", 3), "NUL"},
                                                       {"a/\xFF", "UTF-8"},
                                                       {"", "is empty"},
                                                       {std::string(1025, 'a'), "1024"}};
  for (const auto& [name, fault] : cases)
    EXPECT_THAT(zip_refusal(Maker().make({{name, "1"}})), HasSubstr(fault));
}

TEST(ZipReader, RefusesAFolderWithContent) {
  EXPECT_THAT(zip_refusal(Maker().make({{"a/", "1"}})), HasSubstr("empty component"));
}

TEST(ZipReader, RefusesDuplicates) {
  EXPECT_THAT(zip_refusal(Maker().make({{"a/x", "1"}, {"a/x", "2"}})), HasSubstr("twice"));
}

TEST(ZipReader, NamesAFileThatDoesNotExist) {
  auto refused = refusal_of([] { ZipArchive::open("/nowhere/model.pt2"); });
  EXPECT_EQ(refused.code, ErrorCode::bad_file);
  EXPECT_THAT(refused.message, HasSubstr("/nowhere/model.pt2"));
}

}  // namespace
}  // namespace tenon::formats
