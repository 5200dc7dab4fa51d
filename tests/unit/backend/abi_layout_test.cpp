// The plugin ABI stays as published: fields are appended, never moved, and no struct has padding.
#include "../../../tools/abi_layout.h"
#include "folders.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <regex>
#include <sstream>

namespace tenon::tools {
namespace {

std::string golden_path() { return source_path("plugin-api/abi/v1.layout"); }

TEST(AbiLayout, EqualsThePublishedOne) {
  std::ifstream file(golden_path());
  ASSERT_TRUE(file) << golden_path() << " is missing";
  std::stringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(golden.str(), abi_layout())
      << "plugin.h changed. Published fields and codes never move; after appending one, raise the "
         "minor version and write the output of abi_dump to plugin-api/abi/v1.layout.";
}

// Also finds fields that the list forgot: they would leave a gap.
TEST(AbiLayout, HasNoPaddingInAnyStruct) {
  for (const LayoutStruct& s : abi_structs()) {
    size_t end = 0;
    for (const LayoutField& f : s.fields) {
      EXPECT_EQ(f.offset, end) << s.name << "." << f.name << ": a gap before it";
      end = f.offset + f.size;
    }
    EXPECT_EQ(s.size, end) << s.name << ": padding at its end";
  }
}

TEST(AbiLayout, KeepsTheFrozenSizes) {
  EXPECT_EQ(sizeof(tn_dim), 16u);
  EXPECT_EQ(sizeof(tn_arg), 32u);
  EXPECT_EQ(sizeof(tn_instr), 16u);
  EXPECT_EQ(sizeof(tn_artifact), 16u);
}

TEST(AbiLayout, BeginsEveryTableWithItsSize) {
  const std::vector<std::string> frozen = {"tn_str",    "tn_sink",  "tn_dim",     "tn_arg",
                                           "tn_op_arg", "tn_instr", "tn_artifact"};
  for (const LayoutStruct& s : abi_structs()) {
    if (std::find(frozen.begin(), frozen.end(), s.name) != frozen.end()) continue;
    EXPECT_STREQ(s.fields.front().name, "struct_size") << s.name;
  }
}

std::string text_of_headers() {
  std::stringstream text;
  for (const char* name : {"plugin.h", "custom_ops.h"})
    text << std::ifstream(source_path(std::string("plugin-api/include/tenon/") + name)).rdbuf();
  return text.str();
}

/// All that group 1 of the pattern finds in the text.
std::vector<std::string> found_in(const std::string& text, const std::string& pattern) {
  std::vector<std::string> out;
  std::regex regex(pattern);
  for (std::sregex_iterator at(text.begin(), text.end(), regex), end; at != end; ++at)
    out.push_back((*at)[1]);
  std::sort(out.begin(), out.end());
  return out;
}

// A struct or a code that the list does not know could change unseen.
TEST(AbiLayout, CoversEveryStructAndCodeOfTheHeader) {
  std::vector<std::string> structs, codes;
  for (const LayoutStruct& s : abi_structs()) structs.push_back(s.name);
  for (const LayoutCode& c : abi_codes()) codes.push_back(c.name);
  std::sort(structs.begin(), structs.end());
  std::sort(codes.begin(), codes.end());
  std::string text = std::regex_replace(text_of_headers(), std::regex("/\\*[^]*?\\*/"), "");
  EXPECT_EQ(found_in(text, "struct (tn_[a-z_]+) \\{"), structs);

  std::string in_enums;
  for (const std::string& body : found_in(text, "enum \\{([^}]*)\\}")) in_enums += body + ",";
  EXPECT_EQ(found_in(in_enums, "(TN_[A-Z0-9_]+)\\s*(?:=[^,]*)?,"), codes);
}

TEST(AbiLayout, NumbersScalarPrimitivesWithoutGaps) {
  int next = 0;
  for (const LayoutCode& c : abi_codes()) {
    if (std::string(c.name).rfind("TN_F_", 0) == 0) {
      EXPECT_EQ(c.number, next++) << c.name;
    }
  }
  EXPECT_EQ(next, TN_F_COUNT);
}

}  // namespace
}  // namespace tenon::tools
