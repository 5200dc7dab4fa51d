// The plugin ABI stays as published: fields are appended, never moved, and no struct has padding.
#include "../../../tools/abi_layout.h"
#include "folders.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <span>
#include <sstream>
#include <utility>

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
  for (const char* name : {"plugin.h", "formula_codes.h", "device.h", "custom_ops.h"})
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

// ---- frozen by evidence: every name has a plugin that uses it, or a reason

using WordUsers = std::map<std::string, std::set<std::string>>;  // the files of each word

void add_words(const std::filesystem::path& file, WordUsers& users) {
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  std::string word;
  for (char c : text.str() + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '_') {
      word += c;
    } else if (!word.empty()) {
      users[std::exchange(word, {})].insert(file.string());
    }
  }
}

bool is_plugin_source(const std::filesystem::path& file) {
  std::string name = file.filename().string(), ending = file.extension().string();
  bool is_source = ending == ".c" || ending == ".cpp" || ending == ".h";
  bool is_header_of_abi = file.string().find("abi_1_0") != std::string::npos;
  return is_source && !name.ends_with("_test.cpp") && !is_header_of_abi;
}

// Plugins as a stranger writes them: they include the headers and nothing else of the project.
constexpr const char* foreign_plugins[] = {"tests/plugins", "plugin-api/examples",
                                           "plugin-api/templates", "examples"};
// A device needs a driver: ours is the user of those names, and runs over a double of one.
constexpr const char* device_plugins[] = {"plugins/cuda"};

WordUsers words_in(std::span<const char* const> folders) {
  WordUsers users;
  for (const char* folder : folders)
    for (const auto& entry : std::filesystem::recursive_directory_iterator(source_path(folder)))
      if (is_plugin_source(entry.path())) add_words(entry.path(), users);
  return users;
}

// "tn_verdicts.host_data" or "TN_U16", each with its reason.
std::map<std::string, std::string> reserved_names() {
  std::map<std::string, std::string> out;
  std::ifstream file(source_path("plugin-api/abi/v1.reserved"));
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string name, reason;
    words >> name >> std::ws;
    std::getline(words, reason);
    out[name] = reason;
  }
  return out;
}

/// Something in the layout: its full name, the word that a plugin would write, and one more word of
/// the same file without which the first tells nothing.
struct LayoutName {
  std::string full, word, beside;
};

// Any program has variables of these names: the struct must stand in the same file.
std::string word_beside(const LayoutStruct& s, const std::string& field) {
  static const std::set<std::string> common = {"data", "flags", "kind", "name",
                                               "self", "size",  "value"};
  return common.contains(field) ? s.name : field;
}

std::vector<LayoutName> names_of_layout() {
  std::vector<LayoutName> out;
  for (const LayoutStruct& s : abi_structs()) {
    out.push_back({s.name, s.name, s.name});
    for (const LayoutField& f : s.fields)
      if (f.name[0] != '_')
        out.push_back({std::string(s.name) + "." + f.name, f.name, word_beside(s, f.name)});
  }
  for (const LayoutCode& c : abi_codes()) out.push_back({c.name, c.name, c.name});
  return out;
}

/// A file that uses it; empty: none does.
std::string user_of(const LayoutName& name, WordUsers& users) {
  for (const std::string& file : users[name.word])
    if (users[name.beside].contains(file)) return file;
  return {};
}

bool is_of_devices(const LayoutName& name) {
  return name.full.starts_with("tn_device_") || name.full.starts_with("TN_COPY_");
}

TEST(AbiLayout, EveryNameIsUsedByAForeignPluginOrReservedForAReason) {
  WordUsers foreign = words_in(foreign_plugins), of_devices = words_in(device_plugins);
  std::map<std::string, std::string> reserved = reserved_names();
  for (const LayoutName& name : names_of_layout()) {
    auto reason = reserved.find(name.full);
    std::string user = user_of(name, foreign);
    if (user.empty() && is_of_devices(name)) user = user_of(name, of_devices);
    RecordProperty(name.full, user);
    if (reason == reserved.end()) {
      EXPECT_NE(user, "") << name.full << ": no plugin uses it and v1.reserved gives no reason";
      continue;
    }
    EXPECT_GT(reason->second.size(), 10u) << name.full << ": a reason is missing";
    EXPECT_TRUE(user.empty() || name.word == "host_data")
        << name.full << " is reserved, " << user << " uses it";
    reserved.erase(reason);
  }
  for (const auto& [name, reason] : reserved) ADD_FAILURE() << name << " is not in the layout";
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
