// How much the store of packed weights keeps.
#include <gtest/gtest.h>

#include <dnn/packed_weights.h>

namespace onednn {
namespace {

WeightsKey key_of(uint64_t storage, uint64_t version = 0) {
  int64_t sizes[] = {3, 4}, strides[] = {4, 1};
  tn_tensor t{};
  t.dtype = TN_F32;
  t.ndim = 2;
  t.sizes = sizes;
  t.strides = strides;
  t.storage_id = storage;
  WeightsKey key(t, {1, 2}, 3);
  key.version = version;
  return key;
}

// A host may not tell that a weight has died, and the bytes of small ones would fill the store too late.
TEST(PackedWeights, SmallOnesOfThePastMakeRoom) {
  drop_packed();
  constexpr uint64_t n = 20000;
  for (uint64_t i = 0; i < n; ++i) {
    keep_packed(key_of(i), std::make_shared<Packed>(64));
    ASSERT_NE(find_packed(key_of(0)), nullptr);  // what is used stays
  }
  EXPECT_EQ(find_packed(key_of(1)), nullptr);
  EXPECT_NE(find_packed(key_of(n - 1)), nullptr);
  drop_packed();
  EXPECT_EQ(find_packed(key_of(n - 1)), nullptr);
}

TEST(PackedWeights, ANewVersionTakesThePlaceOfTheOld) {
  drop_packed();
  auto first = std::make_shared<Packed>(64), second = std::make_shared<Packed>(128);
  keep_packed(key_of(7, 1), first);
  keep_packed(key_of(7, 2), second);
  EXPECT_EQ(find_packed(key_of(7, 1)), nullptr);
  EXPECT_EQ(find_packed(key_of(7, 2)), second);
  EXPECT_EQ(first.use_count(), 1);
  drop_packed();
}

TEST(PackedWeights, GoWithTheirStorage) {
  drop_packed();
  auto gone = std::make_shared<Packed>(64), turned = std::make_shared<Packed>(64);
  WeightsKey other = key_of(8);
  other.view.push_back(1);
  keep_packed(key_of(8), gone);
  keep_packed(other, turned);
  keep_packed(key_of(7), std::make_shared<Packed>(64));
  keep_packed(key_of(9), std::make_shared<Packed>(64));
  forget_storage(8);
  EXPECT_EQ(find_packed(key_of(8)), nullptr);
  EXPECT_EQ(find_packed(other), nullptr);
  EXPECT_EQ(gone.use_count(), 1);
  EXPECT_EQ(turned.use_count(), 1);
  EXPECT_NE(find_packed(key_of(7)), nullptr);
  EXPECT_NE(find_packed(key_of(9)), nullptr);
  drop_packed();
}

}  // namespace
}  // namespace onednn
