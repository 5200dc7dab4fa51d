// The container of .tenon files: what was written is read, and whatever is damaged is refused.
#include "formats/tenon_file.h"

#include "test_files.h"

#include <filesystem>
#include <fstream>

namespace tenon::formats {
namespace {

using ::testing::HasSubstr;
using testing::own_bytes;
using testing::refusal_of;

std::string contents_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class TenonFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = (std::filesystem::temp_directory_path() /
             ("tenon_file_test_" + std::to_string(::getpid()) + ".tenon"))
                .string();
    write_tenon_file(path_, {{"manifest", as_byte_span("{}")},
                             {"empty", {}},
                             {"data/weights/weight_0", as_byte_span(weights_)}});
    bytes_ = contents_of(path_);
  }
  void TearDown() override { std::filesystem::remove(path_); }

  std::string refused(const std::string& bytes, std::string_view unchecked = "") const {
    auto refusal =
        refusal_of([&] { TenonFile::from_bytes(own_bytes(bytes), "a.tenon", unchecked); });
    EXPECT_EQ(refusal.code, ErrorCode::bad_file);
    return refusal.message;
  }

  std::string path_, bytes_, weights_ = std::string(100, 'w');
};

TEST_F(TenonFileTest, GivesBackItsSectionsAlignedAndMapped) {
  TenonFile file = TenonFile::open(path_);
  EXPECT_EQ(as_text(file.section("manifest").span), "{}");
  EXPECT_EQ(file.section("empty").span.size(), 0u);
  Bytes weights = file.section("data/weights/weight_0");
  EXPECT_EQ(as_text(weights.span), weights_);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(weights.span.data()) % 64, 0u);
  EXPECT_FALSE(file.find("plan").has_value());
  EXPECT_THAT(refusal_of([&] { file.section("plan"); }).message,
              HasSubstr("section plan is missing"));
}

TEST_F(TenonFileTest, SectionsOutliveTheFileObject) {
  Bytes weights = TenonFile::open(path_).section("data/weights/weight_0");
  std::filesystem::remove(path_);
  EXPECT_EQ(as_text(weights.span), weights_);
}

TEST_F(TenonFileTest, AnyChangedByteIsRefused) {
  for (size_t at = 0; at < bytes_.size(); ++at)
    for (char bit : {'\x01', '\x80'}) {
      std::string damaged = bytes_;
      damaged[at] = static_cast<char>(damaged[at] ^ bit);
      EXPECT_THAT(refused(damaged), HasSubstr("a.tenon")) << "byte " << at;
    }
}

TEST_F(TenonFileTest, AnyOtherLengthIsRefused) {
  for (size_t size = 0; size < bytes_.size(); ++size)
    EXPECT_THAT(refused(bytes_.substr(0, size)), HasSubstr("a.tenon")) << size << " bytes";
  EXPECT_THAT(refused(bytes_ + '\0'), HasSubstr("is it complete?"));
}

TEST_F(TenonFileTest, AnotherVersionIsNamed) {
  for (char version : {1, 3}) {
    std::string other = bytes_;
    other[8] = version;
    EXPECT_THAT(refused(other), HasSubstr(message("is a .tenon file of version {}, this program "
                                                  "reads version 2; write it again",
                                                  int{version})));
  }
}

TEST_F(TenonFileTest, BytesOfUncheckedSectionsAreNotLookedAt) {
  std::string damaged = bytes_;
  damaged.back() = 'x';
  EXPECT_THAT(refused(damaged), HasSubstr("section data/weights/weight_0 is damaged"));
  TenonFile file = TenonFile::from_bytes(own_bytes(damaged), "a.tenon", "data/");
  EXPECT_EQ(file.section("data/weights/weight_0").span.back(), std::byte{'x'});
}

TEST_F(TenonFileTest, TwoSectionsOfOneNameAreRefused) {
  write_tenon_file(path_, {{"a", {}}, {"a", {}}});
  EXPECT_THAT(refused(contents_of(path_)), HasSubstr("two sections have one name"));
}

}  // namespace
}  // namespace tenon::formats
