// Reading manifests and listing plugins; nothing is loaded.
#include "backend/find/discover.h"
#include "backend/find/note.h"
#include "backend/life/load.h"

#include <benchmark/benchmark.h>

#include <filesystem>

using namespace tenon;
namespace fs = std::filesystem;

// The first plugin of this build by name.
static fs::path any_plugin() {
  fs::path first;
  for (const auto& file : fs::directory_iterator(plugin_install_dir()))
    if (file.path().extension() == ".so" && (first.empty() || file.path() < first))
      first = file.path();
  return first;
}

static void read_one_manifest(benchmark::State& state) {
  fs::path plugin = any_plugin();
  if (plugin.empty()) return state.SkipWithError("no plugin was built");
  for (auto _ : state) {
    NoteResult note = read_note(plugin.string());
    benchmark::DoNotOptimize(parse_manifest(note.info.manifest, plugin.string()));
  }
}
BENCHMARK(read_one_manifest);

static void list_fifty_plugins(benchmark::State& state) {
  fs::path plugin = any_plugin();
  if (plugin.empty()) return state.SkipWithError("no plugin was built");
  fs::path folder = fs::temp_directory_path() / ("tenon_discover_" + std::to_string(::getpid()));
  fs::create_directory(folder);
  for (int i = 0; i < 50; ++i)
    fs::copy_file(plugin, folder / ("tenon_copy" + std::to_string(i) + ".so"));
  SearchSettings settings;
  settings.option_path = {folder.string()};
  for (auto _ : state) {
    PluginCatalog catalog(settings);
    benchmark::DoNotOptimize(catalog.list());
  }
  fs::remove_all(folder);
}
BENCHMARK(list_fifty_plugins)->Unit(benchmark::kMicrosecond);
