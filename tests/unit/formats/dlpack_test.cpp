// Capsules of DLPack that come from others.
#include "formats/dlpack.h"

#include "test_files.h"

namespace tenon {
namespace {

using formats::testing::refusal_of;

// DLManagedTensorVersioned of the DLPack standard, version 1.
struct Capsule {
  uint32_t major = 1, minor = 0;
  void* context = nullptr;
  void (*deleter)(Capsule*) = nullptr;
  uint64_t flags = 0;
  void* data = nullptr;
  int32_t device_type = 1, device_id = 0;
  int32_t ndim = 0;
  uint8_t code = 2, bits = 32;
  uint16_t lanes = 1;
  int64_t* shape = nullptr;
  int64_t* strides = nullptr;
  uint64_t byte_offset = 0;
};

// A capsule that counts how often it is deleted.
struct Sent {
  Sent(std::vector<int64_t> sizes, std::vector<int64_t> steps)
      : shape(std::move(sizes)), strides(std::move(steps)) {
    capsule.context = this;
    capsule.deleter = [](Capsule* self) { ++static_cast<Sent*>(self->context)->deleted; };
    capsule.data = memory;
    capsule.ndim = static_cast<int32_t>(shape.size());
    capsule.shape = shape.data();
    capsule.strides = strides.empty() ? nullptr : strides.data();
  }
  std::vector<int64_t> shape, strides;
  float memory[16] = {};
  int deleted = 0;
  Capsule capsule;
};

TEST(Dlpack, SharesMemoryAndDeletesOnce) {
  Sent sent({2, 3}, {1, 2});
  {
    Tensor t = from_dlpack(&sent.capsule);
    EXPECT_EQ(t.data(), sent.memory);
    EXPECT_EQ(to_text(t), "f32[2, 3] strides [1, 2]");
    EXPECT_EQ(sent.deleted, 0);
  }
  EXPECT_EQ(sent.deleted, 1);
}

TEST(Dlpack, NonsenseIsABadFileAndStillDeleted) {
  constexpr int64_t large = int64_t{1} << 62;
  for (auto [shape, strides] :
       std::vector<std::pair<std::vector<int64_t>, std::vector<int64_t>>>{{{-1}, {}},
                                                                          {{large, 4}, {}},
                                                                          {{0, large, 4}, {}},
                                                                          {{large}, {}},
                                                                          {{2}, {-1}},
                                                                          {{2, 2}, {large, large}},
                                                                          {{3}, {large}}}) {
    Sent sent(shape, strides);
    EXPECT_EQ(refusal_of([&] { from_dlpack(&sent.capsule); }).code, ErrorCode::bad_file);
    EXPECT_EQ(sent.deleted, 1);
  }
}

TEST(Dlpack, AnEmptyTensorNeedsNoMemory) {
  Sent sent({4, 0}, {int64_t{1} << 62, 1});
  sent.capsule.data = nullptr;
  EXPECT_EQ(from_dlpack(&sent.capsule).numel().guard_int(), 0);
}

}  // namespace
}  // namespace tenon
