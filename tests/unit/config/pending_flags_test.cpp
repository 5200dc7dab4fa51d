// A flag is pending only while the part that would read it is not there: a part that lands makes
// these tests fail until its flags act.
#include "backend/backend.h"
#include "folders.h"
#include "ops/op_table.h"
#include "unit/config/config_fixture.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

namespace tenon::config {
namespace {

namespace fs = std::filesystem;

/// A part that is not there, and words of which the public headers, or the names of operations, get
/// one with it. Parts that change nothing there show by code that reads their flags.
struct PartToCome {
  std::string_view name;
  std::vector<std::string> words;
};

const std::vector<PartToCome>& parts_to_come() {
  static const std::vector<PartToCome> parts{
      {"annotations of graph regions", {"annotate", "Annotation"}},
      {"backends that choose layouts for custom operations",
       {"needs_exact_strides", "needs_fixed_stride_order", "flexible_layout"}},
      {"compile_scope", {"compile_scope", "CompileScope"}},
      {"complex numbers as pairs of real ones", {"ComplexTensor"}},
      {"distributed training", {"all_reduce", "ProcessGroup", "DistributedDataParallel"}},
      {"functional transforms", {"vmap", "jvp", "jacrev"}},
      {"generator objects in graphs", {"Generator", "run_with_rng_state"}},
      {"GPU kernels that users write", {"triton"}},
      {"operands on different devices", {}},
      {"profiles that outlive the process", {}},
      {"real values beside the fakes of a recording", {}},
      {"recomputation inside of one graph", {}},
      {"saved values that wait in the host's memory", {"offload"}},
      {"saved-tensor hooks inside of compiled graphs", {}},
      {"the remote cache of compiled graphs", {"RemoteCache", "remote_cache"}},
  };
  return parts;
}

std::vector<const FlagDef*> pending_flags() {
  std::vector<const FlagDef*> out;
  for (const FlagDef& def : flag_defs())
    if (def.status == Status::pending) out.push_back(&def);
  return out;
}

bool is_part_of_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

/// Whether `text` has `word` between other characters than those of words.
bool has_word(std::string_view text, std::string_view word) {
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    size_t end = at + word.size();
    if ((at == 0 || !is_part_of_word(text[at - 1])) &&
        (end == text.size() || !is_part_of_word(text[end])))
      return true;
  }
  return false;
}

std::string texts_below(const std::string& folder, const std::string& left_out = "") {
  std::string out;
  for (auto& entry : fs::recursive_directory_iterator(source_path(folder))) {
    std::string path = entry.path().string();
    bool is_source = path.ends_with(".cpp") || path.ends_with(".h") || path.ends_with(".hpp");
    if (!is_source || (!left_out.empty() && path.find(left_out) != path.npos)) continue;
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    out += text.str();
  }
  return out;
}

/// What a program can call: headers, and operations by name.
std::string public_names() {
  std::string out = texts_below("host/include") + texts_below("plugin-api");
  for (const std::string& op : all_op_names()) out += " " + op;
  return out;
}

/// The name of a plugin or backend among the words of a text; empty: there is none.
std::string plugin_in(std::string_view text) {
  for (const BackendInfo& backend : all_backends())
    for (const std::string& name : {backend.name, backend.plugin})
      if (!name.empty() && has_word(text, name)) return name;
  return "";
}

TEST_F(Config, APendingFlagNamesAPartThatHasNotLanded) {
  std::set<std::string_view> named;
  for (const FlagDef* def : pending_flags()) {
    named.insert(def->why);
    EXPECT_TRUE(std::ranges::count(parts_to_come(), def->why, &PartToCome::name) == 1)
        << def->key() << " waits for \"" << def->why
        << "\", which is no part to come: has it landed?";
    EXPECT_EQ(plugin_in(def->why), "") << def->key() << " waits for a plugin that is there";
  }
  for (const PartToCome& part : parts_to_come())
    EXPECT_TRUE(named.contains(part.name)) << "no flag waits for " << part.name;
}

TEST_F(Config, NoPartToComeIsThere) {
  const std::string names = public_names();
  for (const PartToCome& part : parts_to_come())
    for (const std::string& word : part.words)
      EXPECT_EQ(names.find(word), names.npos)
          << word << " is there, and with it \"" << part.name << "\": its flags are pending";
}

// The rooms of flags aside, which look at all of them.
TEST_F(Config, NoCodeReadsAPendingFlag) {
  const std::string sources =
      texts_below("host", "/host/config/") + texts_below("plugins") + texts_below("codegen");
  for (const FlagDef* def : pending_flags())
    EXPECT_FALSE(has_word(sources, def->name)) << def->key() << " is read, so it acts";
}

// What the three would find.
TEST_F(Config, PartsThatHaveLandedAreFound) {
  const std::string names = public_names();
  for (const char* word : {"SavedTensorHooks", "cond", "aten.relu.default", "cudagraph"})
    EXPECT_NE(names.find(word), names.npos) << word;
  EXPECT_EQ(plugin_in("the options of eager code"), "eager");
  EXPECT_TRUE(has_word(texts_below("host", "/host/config/"), "recompile_limit"));
}

}  // namespace
}  // namespace tenon::config
