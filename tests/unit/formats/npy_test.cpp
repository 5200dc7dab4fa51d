// npy files: round trips, versions, Fortran order and damaged headers.
#include "formats/npy.h"

#include "formats/limits.h"
#include "test_files.h"

namespace tenon::formats {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::own_bytes;
using testing::refusal_of;

std::string make(int version, const std::string& header, const std::string& data) {
  std::string bytes("\x93NUMPY", 6);
  bytes += static_cast<char>(version);
  bytes += '\0';
  uint32_t length = static_cast<uint32_t>(header.size());
  bytes.append(reinterpret_cast<const char*>(&length), version == 1 ? 2 : 4);
  return bytes + header + data;
}

RawTensor read(const std::string& bytes) { return read_npy(own_bytes(bytes), "t.npy"); }

testing::Refusal npy_refusal(const std::string& bytes) {
  return refusal_of([&] { read(bytes); });
}

TEST(Npy, ReadsWhatItWrites) {
  for (std::vector<int64_t> sizes : {std::vector<int64_t>{}, {2}, {2, 3}, {0, 4}, {1, 2, 1}}) {
    int64_t numel = checked_numel(sizes, Dtype::f32, "test");
    RawTensor tensor{Dtype::f32, sizes, contiguous_strides(sizes),
                     own_bytes(std::string(static_cast<size_t>(numel) * 4, 'q'))};
    std::ostringstream out;
    write_npy(out, tensor);
    EXPECT_EQ((out.str().size() - static_cast<size_t>(numel) * 4) % 64, 0u);
    RawTensor back = read(out.str());
    EXPECT_EQ(back.sizes, sizes);
    EXPECT_EQ(back.strides, tensor.strides);
    EXPECT_EQ(back.dtype, Dtype::f32);
    EXPECT_EQ(as_text(back.data.span), as_text(tensor.data.span));
  }
}

TEST(Npy, ReadsEveryVersion) {
  for (int version : {1, 2, 3}) {
    RawTensor t = read(
        make(version, "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 1), }   \n", "abcd"));
    EXPECT_EQ(t.dtype, Dtype::i16);
    EXPECT_THAT(t.sizes, ElementsAre(2, 1));
  }
}

TEST(Npy, TurnsFortranOrderIntoStrides) {
  RawTensor t =
      read(make(1, "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3)}\n", "abcdef"));
  EXPECT_THAT(t.strides, ElementsAre(1, 2));
}

TEST(Npy, RefusesEveryTruncation) {
  std::string bytes =
      make(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", "12345678");
  read(bytes);
  for (size_t length = 0; length < bytes.size(); ++length)
    EXPECT_EQ(npy_refusal(bytes.substr(0, length)).code, ErrorCode::bad_file) << length;
}

TEST(Npy, RefusesMalformedHeaders) {
  const std::pair<std::string, std::string> cases[] = {
      {"{'descr': '<f4', 'fortran_order': False}", "expected the keys"},
      {"{'descr': '<f4', 'fortran_order': 0, 'shape': ()}", "True or False"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (x,)}", "integer"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", "64 bits"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "0 or more"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,)}", "64 bits"},
      {"{'descr': '<f4', 'what': False, 'shape': (1,)}", "one of the keys"},
      {"{'descr': '<f4", "end of a string"},
      {"", "{"},
  };
  for (const auto& [header, reason] : cases) {
    auto refused = npy_refusal(make(1, header, "1234"));
    EXPECT_EQ(refused.code, ErrorCode::bad_file) << header;
    EXPECT_THAT(refused.message, HasSubstr(reason)) << header;
  }
}

TEST(Npy, RefusesMoreDataThanTheShapeHas) {
  EXPECT_THAT(
      npy_refusal(make(1, "{'descr': '<f4', 'fortran_order': False, 'shape': ()}", "12345678"))
          .message,
      HasSubstr("4 more"));
}

TEST(Npy, SaysThatForeignDtypesAreNotSupported) {
  for (std::string descr : {"'>f4'", "'<u4'", "'|O'", "[('a', '<f4')]"}) {
    auto refused = npy_refusal(
        make(1, "{'descr': " + descr + ", 'fortran_order': False, 'shape': ()}", "1234"));
    EXPECT_EQ(refused.code, ErrorCode::unsupported) << descr;
  }
}

}  // namespace
}  // namespace tenon::formats
