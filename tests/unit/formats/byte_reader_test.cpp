// The bounded reader, mapped and written files, format detection.
#include "formats/byte_reader.h"
#include "core/utf8.h"

#include <fstream>

#include "formats/formats.h"
#include "formats/npy.h"
#include "formats/safetensors.h"
#include "test_files.h"

namespace tenon::formats {
namespace {

using ::testing::HasSubstr;
using testing::own_bytes;
using testing::refusal_of;

std::string temporary(const std::string& name) { return ::testing::TempDir() + "/" + name; }

TEST(ByteReader, ReadsNumbersAndSpans) {
  Bytes bytes = own_bytes(std::string("\x01\x02\x00\x00\x00zz", 7));
  ByteReader in(bytes.span, "f");
  EXPECT_EQ(in.u8("a"), 1);
  EXPECT_EQ(in.u32("b"), 2u);
  EXPECT_EQ(in.text(2, "c"), "zz");
  EXPECT_EQ(in.remaining(), 0u);
}

TEST(ByteReader, NamesFileOffsetAndExpectationAtTheEnd) {
  Bytes bytes = own_bytes("abcdef");
  ByteReader in(bytes.span, "model.bin");
  in.skip(4, "a mark");
  auto refused = refusal_of([&] { in.u32("the length"); });
  EXPECT_EQ(refused.code, ErrorCode::bad_file);
  EXPECT_EQ(refused.message,
            "model.bin: at byte 4: expected the length (4 bytes), found only 2 before the end; is "
            "the file complete?");
  EXPECT_THAT(refusal_of([&] { in.skip(UINT64_MAX, "all"); }).message, HasSubstr("at byte 4"));
  EXPECT_THAT(refusal_of([&] { in.seek(7, "more"); }).message, HasSubstr("6 bytes"));
  EXPECT_THAT(refusal_of([&] { in.expect("XY", "a mark"); }).message, HasSubstr("found \"ef\""));
}

TEST(ByteReader, CopiesOnlyWhatIsNotAligned) {
  auto owner = allocate_aligned(128, "test");
  Bytes fine{ByteSpan(owner.get(), 64), owner};
  EXPECT_EQ(aligned(fine, "test").span.data(), owner.get());
  Bytes odd{ByteSpan(owner.get() + 1, 64), owner};
  EXPECT_EQ(reinterpret_cast<uintptr_t>(aligned(odd, "test").span.data()) % 64, 0u);
}

TEST(ByteReader, TellsUtf8FromOtherBytes) {
  for (std::string good : {"", "plain", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"})
    EXPECT_TRUE(is_utf8(good)) << good;
  for (std::string bad : {"\x80", "\xC0\x80", "\xC3", "\xE0\x80\x80", "\xED\xA0\x80",
                          "\xF0\x80\x80\x80", "\xF4\x90\x80\x80", "\xFF"})
    EXPECT_FALSE(is_utf8(bad));
  EXPECT_EQ(printable("a\n\xFF\xC3\xA9"), "a??\xC3\xA9");
}

TEST(Files, AFailedWriteLeavesTheOldFile) {
  const std::string path = temporary("tenon_write_file");
  write_file(path, [](std::ostream& out) { out << "old"; });
  EXPECT_THROW(write_file(path,
                          [](std::ostream& out) {
                            out << "new";
                            throw std::runtime_error("stop");
                          }),
               std::runtime_error);
  EXPECT_EQ(as_text(map_file(path).span), "old");
  std::filesystem::remove(path);
}

TEST(Files, AFolderIsNoFile) {
  EXPECT_THAT(refusal_of([] { map_file(::testing::TempDir()); }).message,
              HasSubstr("regular file"));
}

TEST(Formats, TellsFilesByTheirContent) {
  const std::string path = temporary("tenon_some_file");
  RawTensor tensor{Dtype::u8, {1}, {1}, own_bytes("x")};
  write_npy(path, tensor);
  EXPECT_EQ(find_format(path).name, "npy");
  Safetensors content;
  content.tensors["t"] = tensor;
  write_safetensors(path, content);
  EXPECT_EQ(find_format(path).name, "safetensors");
  std::ofstream(path) << "something else";
  EXPECT_THAT(refusal_of([&] { find_format(path); }).message,
              HasSubstr(".pt2, .npy, .safetensors"));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace tenon::formats
