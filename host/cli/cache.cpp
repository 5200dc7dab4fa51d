// `tenon cache`: what was compiled before and lies on disk.
#include "cache/artifact_cache.h"
#include "cache/cache_eviction.h"
#include "cli/output.h"
#include "cli/verb.h"
#include "config/cache_folder.h"
#include "config/flags.h"
#include "core/error.h"

#include <map>

namespace tenon::cli {

namespace {

namespace fs = std::filesystem;

std::string folder() {
  std::string root = config::cache_folder();
  require(!root.empty(),
          "there is no cache: neither TENON_CACHE_DIR nor HOME is set; set one of them");
  return root;
}

struct Sum {
  int64_t entries = 0, bytes = 0;
};

int info(const Globals& globals) {
  std::string root = folder();
  std::map<std::string_view, Sum> sums;
  Sum all;
  for (const StoredEntry& e : stored_entries(root))
    for (Sum* sum : {&sums[e.kind], &all}) {
      ++sum->entries;
      sum->bytes += e.bytes;
    }
  Json::Array kinds;
  for (std::string_view kind : cache_kinds)
    kinds.push_back({{"kind", kind}, {"entries", sums[kind].entries}, {"bytes", sums[kind].bytes}});
  const config::CompilerFlags& flags = config::flags().compiler;
  Json facts{{"schema", 1},
             {"folder", root},
             {"entries", all.entries},
             {"bytes", all.bytes},
             {"limit", flags.cache_bytes},
             {"disabled", flags.force_disable_caches},
             {"kinds", kinds}};
  if (globals.json) return print_json(facts), 0;
  print(message("{}: {} of at most {} bytes{}\n", root, all.bytes, flags.cache_bytes,
                flags.force_disable_caches ? ", switched off" : ""));
  Table table({"KIND", "ENTRIES", "BYTES"});
  for (std::string_view kind : cache_kinds)
    table.add(
        {std::string(kind), std::to_string(sums[kind].entries), std::to_string(sums[kind].bytes)});
  print(table.text());
  return 0;
}

int clear(const Globals& globals) {
  std::string root = folder();
  std::vector<StoredEntry> entries = stored_entries(root);
  int64_t bytes = 0, removed = remove_entries(entries);
  for (const StoredEntry& e : entries) bytes += e.bytes;
  if (globals.json)
    print_json({{"schema", 1}, {"folder", root}, {"removed", removed}, {"bytes", bytes}});
  else
    print(message("{}: {} entries were removed, {} bytes\n", root, removed, bytes));
  require(static_cast<size_t>(removed) == entries.size(), ErrorCode::bad_file,
          "{}: {} entries could not be removed; may this user write there?", root,
          entries.size() - static_cast<size_t>(removed));
  return 0;
}

// Reading an entry checks its digest and removes it where that is another one.
int verify(const Globals& globals) {
  std::string root = folder();
  ArtifactCache store(root);
  std::vector<StoredEntry> entries = stored_entries(root);
  Json::Array damaged;
  for (const StoredEntry& e : entries) {
    CacheKey key{fs::relative(e.path.parent_path(), root).string(), e.path.filename().string()};
    if (!store.get(key)) damaged.push_back(e.path.string());
  }
  if (globals.json) {
    print_json(
        {{"schema", 1}, {"folder", root}, {"entries", entries.size()}, {"damaged", damaged}});
  } else {
    for (const Json& path : damaged) print(message("{} was damaged and is removed\n", path.text()));
    print(message("{}: {} entries, {} damaged\n", root, entries.size(), damaged.size()));
  }
  return damaged.empty() ? 0 : 1;
}

using Step = int (*)(const Globals&);

Action build_cache(Options& app) {
  auto chosen = std::make_shared<Step>(nullptr);
  auto add = [&](const char* name, const char* summary, Step step) {
    app.add_verb(name, summary, [chosen, step] { *chosen = step; });
  };
  add("info", "where it is, how many entries and bytes of each kind", info);
  add("clear", "removes all entries", clear);
  add("verify", "reads all entries and removes those that are damaged", verify);
  return [chosen](const Globals& globals) { return (*chosen)(globals); };
}

}  // namespace

extern constinit const Verb verb_cache{.name = "cache",
                                       .summary = "shows, checks and empties the cache on disk",
                                       .example = "tenon cache info",
                                       .build = build_cache};

}  // namespace tenon::cli
