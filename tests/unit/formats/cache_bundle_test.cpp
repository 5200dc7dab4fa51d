// Bundles of cache entries: what was written is read, everything else is refused.
#include "formats/cache_bundle.h"

#include "unit/message_of.h"

#include <tenon/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon::formats {
namespace {

using ::testing::HasSubstr;

const BundleEntry entry{"aot/inductor-1.0.0/0123456789abcdef", "00ff", std::string("a\0b", 3)};

TEST(CacheBundle, IsReadAsItWasWritten) {
  std::vector<BundleEntry> entries{entry, {"kernels/a/b", "k", ""}};
  auto read = read_cache_bundle(write_cache_bundle(entries));
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[0].folder, entry.folder);
  EXPECT_EQ(read[0].name, entry.name);
  EXPECT_EQ(read[0].bytes, entry.bytes);
  EXPECT_EQ(read[1].bytes, "");
  EXPECT_TRUE(read_cache_bundle(write_cache_bundle({})).empty());
}

TEST(CacheBundle, DamageIsFound) {
  std::string good = write_cache_bundle(std::vector{entry});
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = char(bad[i] ^ 0x20);
    EXPECT_NE(message_of<UserError>([&] { read_cache_bundle(bad); }), "no error") << i;
    EXPECT_NE(message_of<UserError>([&] { read_cache_bundle(good.substr(0, i)); }), "no error")
        << i;
  }
}

TEST(CacheBundle, NamesLeadNowhereElse) {
  for (const char* folder : {"../../etc", "aot/../x", "/aot/x", "aot/x", "aot/x/y/z", "aot//x",
                             "aot/.hidden/x", "aot/a b/x", ""}) {
    BundleEntry bad = entry;
    bad.folder = folder;
    EXPECT_THAT(message_of([&] { read_cache_bundle(write_cache_bundle(std::vector{bad})); }),
                HasSubstr("no place in the cache"))
        << folder;
  }
  BundleEntry bad = entry;
  bad.name = "../key";
  EXPECT_THAT(message_of([&] { read_cache_bundle(write_cache_bundle(std::vector{bad})); }),
              HasSubstr("no place in the cache"));
}

}  // namespace
}  // namespace tenon::formats
