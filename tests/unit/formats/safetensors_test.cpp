// safetensors files: round trips, real recordings and damaged ones.
#include "formats/safetensors.h"

#include "formats/limits.h"
#include "test_files.h"

namespace tenon::formats {
namespace {

using ::testing::HasSubstr;
using testing::own_bytes;
using testing::refusal_of;

std::string make(const std::string& header, const std::string& data) {
  uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + data;
}

testing::Refusal safetensors_refusal(const std::string& bytes) {
  return refusal_of([&] { read_safetensors(own_bytes(bytes), "t.safetensors"); });
}

RawTensor tensor(Dtype dtype, std::vector<int64_t> sizes, const std::string& data) {
  return {dtype, sizes, contiguous_strides(sizes), own_bytes(data)};
}

TEST(Safetensors, ReadsWhatItWrites) {
  Safetensors content;
  content.metadata = {{"model", "x"}, {"quote", "\"\n"}};
  content.tensors["a"] = tensor(Dtype::u8, {3}, "abc");
  content.tensors["b"] = tensor(Dtype::f32, {1, 2}, "12345678");
  content.tensors["c"] = tensor(Dtype::i64, {0, 4}, "");
  content.tensors["d"] = tensor(Dtype::bf16, {}, "zz");
  std::ostringstream out;
  write_safetensors(out, content);
  uint64_t length = 0;
  std::memcpy(&length, out.str().data(), 8);
  EXPECT_EQ((8 + length) % 64, 0u);

  Safetensors back = read_safetensors(own_bytes(out.str()), "t.safetensors");
  EXPECT_EQ(back.metadata, content.metadata);
  ASSERT_EQ(back.tensors.size(), 4u);
  for (const auto& [name, t] : content.tensors) {
    const RawTensor& b = back.tensors.at(name);
    EXPECT_EQ(b.dtype, t.dtype);
    EXPECT_EQ(b.sizes, t.sizes);
    EXPECT_EQ(b.strides, t.strides);
    EXPECT_EQ(as_text(b.data.span), as_text(t.data.span));
  }
}

TEST(Safetensors, ReadsTheSharedRecordings) {
  auto files = testing::recorded_models(".io.safetensors");
  for (const std::string& file : files) {
    Safetensors content = read_safetensors(file);
    EXPECT_EQ(content.metadata.at("schema"), "1") << file;
    EXPECT_TRUE(content.tensors.contains("out.0") || content.tensors.contains("in.0")) << file;
  }
}

TEST(Safetensors, RefusesEveryTruncation) {
  std::string bytes = make(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "12345678");
  EXPECT_EQ(read_safetensors(own_bytes(bytes), "t").tensors.size(), 1u);
  for (size_t length = 0; length < bytes.size(); ++length)
    EXPECT_EQ(safetensors_refusal(bytes.substr(0, length)).code, ErrorCode::bad_file) << length;
}

TEST(Safetensors, RefusesHeadersThatContradictThemselves) {
  const std::pair<std::string, std::string> cases[] = {
      {R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", "expected 12 bytes"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", "offsets within"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,16]}})", "offsets within"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[-8,0]}})", "offsets within"},
      {R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", "0 or more"},
      {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}})", "64 bits"},
      {R"({"a":{"dtype":"F9","shape":[2],"data_offsets":[0,8]}})", "F9"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", "without gap"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "found 8"},
      {R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},
           "b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
       "without gap"},
      {R"({"a":{"shape":[2],"data_offsets":[0,8]}})", "dtype"},
      {R"([1])", "object"},
  };
  for (const auto& [header, reason] : cases) {
    auto refused = safetensors_refusal(make(header, "12345678"));
    EXPECT_EQ(refused.code, ErrorCode::bad_file) << header;
    EXPECT_THAT(refused.message, HasSubstr(reason)) << header;
  }
}

TEST(Safetensors, TellsAForeignDtypeFromAMalformedOne) {
  auto refused = safetensors_refusal(
      make(R"({"a":{"dtype":"U16","shape":[4],"data_offsets":[0,8]}})", "12345678"));
  EXPECT_EQ(refused.code, ErrorCode::unsupported);
}

TEST(Safetensors, WritesNoNameThatIsNotUtf8) {
  Safetensors content;
  content.tensors
      ["gr\xf6\xdf"
       "e"] = {};
  std::ostringstream out;
  EXPECT_EQ(refusal_of([&] { write_safetensors(out, content); }).message,
            "safetensors: the name of tensor 'gr??e' is not UTF-8, in which the format keeps its "
            "texts");
  EXPECT_EQ(out.str(), "");
}

TEST(Safetensors, RefusesAHeaderLongerThanTheFile) {
  std::string bytes = make("{}", "");
  bytes[4] = 1;
  EXPECT_THAT(safetensors_refusal(bytes).message, HasSubstr("header"));
}

}  // namespace
}  // namespace tenon::formats
