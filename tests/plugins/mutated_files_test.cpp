// Real plugin files with bits flipped, fields changed and ends cut off: whatever they say, the
// reader, the manifest and the catalog answer. TENON_MUTATED_FILES sets how many (default 400).
#include "faults.h"

#include "backend/find/discover.h"
#include "backend/find/manifest.h"
#include "backend/find/note.h"

#include <elf.h>

#include <cstring>
#include <random>

namespace tenon {
namespace {

using namespace test;
namespace fs = std::filesystem;

size_t file_count() {
  const char* wanted = std::getenv("TENON_MUTATED_FILES");
  return wanted ? std::strtoul(wanted, nullptr, 10) : 400;
}

std::string bytes_of(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

/// Changes files; the same seed gives the same files.
class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  std::string mutated(std::string bytes) {
    size_t changes = 1 + below(4);
    for (size_t i = 0; i < changes && !bytes.empty(); ++i) change(bytes);
    return bytes;
  }

 private:
  size_t below(size_t n) { return n == 0 ? 0 : random_() % n; }

  void change(std::string& bytes) {
    switch (below(7)) {
      case 0:
        return flip(bytes, 0, bytes.size());
      case 1:
        return bytes.resize(below(bytes.size()));
      case 2:
        return set_word(bytes, below(sizeof(Elf64_Ehdr)));
      case 3:
        return set_word(bytes, sizeof(Elf64_Ehdr) + below(12 * sizeof(Elf64_Phdr)));
      case 4:
        return change_note(bytes);
      case 5:
        return change_dynamic(bytes);
      default:
        return flip(bytes, 0, std::min<size_t>(bytes.size(), 4096));
    }
  }
  void flip(std::string& bytes, size_t from, size_t to) {
    if (to <= from) return;
    bytes[from + below(to - from)] ^= static_cast<char>(1u << below(8));
  }
  /// A number that is interesting as an offset, a count or a size.
  void set_word(std::string& bytes, size_t at) {
    const uint64_t values[] = {0,
                               1,
                               3,
                               8,
                               0x7F,
                               0xFFFF,
                               0xFFFFFFFF,
                               uint64_t{1} << 32,
                               uint64_t{1} << 63,
                               ~uint64_t{0},
                               ~uint64_t{0} - 7,
                               bytes.size(),
                               bytes.size() - 1,
                               random_()};
    uint64_t value = values[below(std::size(values))];
    size_t n = size_t{1} << below(4);
    if (at + n <= bytes.size()) std::memcpy(&bytes[at], &value, n);
  }
  void change_note(std::string& bytes) {
    size_t at = bytes.find("Tenon");
    if (at == std::string::npos || at < 12) return;
    size_t end = std::min(bytes.size(), at + 400);
    if (below(2)) return set_word(bytes, at - 12 + below(20));
    if (below(2)) return flip(bytes, at, end);
    const char* pieces[] = {"[[",
                            "]]",
                            "\"",
                            "'",
                            "=",
                            "\n",
                            "{",
                            "}",
                            "99999999999999999999",
                            "\xC3\x28",
                            "1e999",
                            "inf",
                            "[backend.option]",
                            "\\u0000"};
    std::string_view piece = pieces[below(std::size(pieces))];
    if (end > at + 8 + piece.size())
      bytes.replace(at + 8 + below(end - at - 8 - piece.size()), piece.size(), piece);
  }
  /// Words of the dynamic section, the symbols and the hash tables, which stand in the first pages.
  void change_dynamic(std::string& bytes) {
    set_word(bytes, below(std::min<size_t>(bytes.size(), 1 << 14)) & ~size_t{3});
  }

  std::mt19937_64 random_;
};

/// What a file that can be read must be.
void expect_bounded(const ElfInfo& info) {
  EXPECT_LE(info.manifest.size(), 64u * 1024);
  EXPECT_LE(info.needed.size(), 1024u);
}

TEST(MutatedFiles, AreReadOrRefused) {
  const std::vector<std::string> seeds = {
      bytes_of(fault_file("good")),    bytes_of(fault_file("throws")),
      bytes_of(fault_file("untidy")),  bytes_of(fault_file("breaks_contract")),
      bytes_of(fault_file("no_note")), bytes_of(fault_file("missing_library"))};
  std::string pattern = (fs::temp_directory_path() / "tenon_mutated_XXXXXX").string();
  fs::path folder = mkdtemp(pattern.data());
  std::string path = (folder / "mutated.so").string();
  size_t taken = 0, count = file_count();
  for (size_t i = 0; i < count; ++i) {
    SCOPED_TRACE(i);
    std::string bytes = Mutator(i).mutated(seeds[i % seeds.size()]);
    NoteResult in_memory =
        read_note(std::as_bytes(std::span(bytes.data(), bytes.size())), "mutated.so");
    expect_bounded(in_memory.info);
    parse_manifest(in_memory.info.manifest, "mutated.so");

    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    NoteResult on_disk = read_note(path);
    EXPECT_EQ(on_disk.diagnosis.fault, in_memory.diagnosis.fault);
    EXPECT_EQ(on_disk.info.manifest, in_memory.info.manifest);
    read_extra_exports(path);
    PluginCatalog catalog({.files = {path}});
    std::vector<FoundPluginPtr> plugins = catalog.list();
    ASSERT_EQ(plugins.size(), 1u);
    EXPECT_NE(plugins[0]->usable, bool{plugins[0]->diagnosis});
    catalog.find_backend("fault_good", "cpu");
    catalog.why_missing("fault_good");
    taken += plugins[0]->usable;
  }
  // Neither all refused nor all taken: the mutations reach what they are meant for.
  EXPECT_GT(taken, count / 20);
  EXPECT_LT(taken, count - count / 5);
  RecordProperty("taken", static_cast<int>(taken));
  fs::remove_all(folder);
}

}  // namespace
}  // namespace tenon
