// The book of an arena: where there is room, what is free, and what it finds wrong with itself.
#include "../../../plugins/cuda/trees/book.h"

#include <gtest/gtest.h>

namespace tenon::cuda::trees {
namespace {

constexpr Range all{0x10000, 0x20000};

Book book_of(std::initializer_list<Range> blocks) {
  Book book;
  for (Range block : blocks) book.add(block);
  return book;
}

TEST(Book, RoomIsTheFirstThatIsLargeEnough) {
  Book book = book_of({{0x10000, 0x10200}, {0x10400, 0x10600}});
  EXPECT_EQ(book.room(all, 0x200, 0x200), 0x10200u);
  EXPECT_EQ(book.room(all, 0x400, 0x200), 0x10600u);
  EXPECT_EQ(book.room(all, 0xfa00, 0x200), 0x10600u);
  EXPECT_EQ(book.room(all, 0xfb00, 0x200), std::nullopt);
}

TEST(Book, RoomBehindABlockOfAnOddSizeIsAligned) {
  Book book = book_of({{0x10000, 0x10001}});
  EXPECT_EQ(book.room(all, 1, 0x200), 0x10200u);
  EXPECT_EQ(book.held_bytes(), 1u);
}

TEST(Book, WhatTouchesABlockIsFreeAndWhatReachesIntoItIsNot) {
  Book book = book_of({{0x10400, 0x10600}});
  Range below{0x10000, 0x10400}, above{0x10600, 0x10700}, into{0x10000, 0x10401},
      within{0x10500, 0x10501};
  EXPECT_TRUE(book.is_free(below));
  EXPECT_TRUE(book.is_free(above));
  EXPECT_FALSE(book.is_free(into));
  EXPECT_FALSE(book.is_free(within));
  Range both[] = {below, within};
  EXPECT_FALSE(book.are_free(both));
  EXPECT_TRUE(book.remove(0x10400));
  EXPECT_FALSE(book.remove(0x10400));
  EXPECT_TRUE(book.are_free(both));
}

TEST(Book, FaultsAreNamed) {
  Range written[] = {{0x10000, 0x10200}};
  EXPECT_EQ(book_of({{0x10200, 0x10400}, {0x10400, 0x10600}}).fault(written), "");
  EXPECT_EQ(book_of({{0x10200, 0x10500}, {0x10400, 0x10600}}).fault(written),
            "two blocks of the arena overlap");
  EXPECT_EQ(book_of({{0x10100, 0x10300}}).fault(written),
            "a recording writes memory of the arena that a tensor holds");
}

}  // namespace
}  // namespace tenon::cuda::trees
