// Finding plugin files and deciding which of them a name means.
//
// Order. Places come in the order of PluginSource; inside a directory the higher plugin version
// comes first, then the smaller file name (never the order of the directory). A file is known by
// device and inode, so that one file under two names counts once. The key of a backend is (name,
// device type), of a device provider its type, of a plugin its name: who comes first has it, the
// others are shadowed. "eager" belongs to the installation: a foreign backend or plugin of that name
// is always shadowed.
//
// Cost. A scan is one stat per file and directory. When nothing differs from the last one, that is
// all; else the notes of new and changed files are read and the order is worked out anew.
#include "backend/find/discover.h"

#include "backend/find/plugin_names.h"
#include "backend/find/quarantine.h"
#include "core/error.h"
#include "core/threads/cancellation_off.h"
#include "report/log.h"

#include <tenon/plugin.h>

#include <dirent.h>
#include <sys/auxv.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <set>

namespace tenon {

std::string_view name_of(PluginSource source) {
  constexpr std::string_view names[] = {"file", "option", "environment", "config", "install"};
  return names[static_cast<size_t>(source)];
}

std::string_view name_of(PluginState state) {
  constexpr std::string_view names[] = {"found",  "loaded",  "ready",    "draining",    "down",
                                        "broken", "refused", "shadowed", "quarantined", "faulty"};
  return names[static_cast<size_t>(state)];
}

std::string plugin_path_variable() {
  const char* value = ::secure_getenv("TENON_PLUGIN_PATH");
  return value ? value : "";
}

static std::string absolute(const std::string& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

std::vector<SearchPlace> search_places(const SearchSettings& settings) {
  std::vector<SearchPlace> out;
  auto add = [&](PluginSource source, const std::string& path) {
    if (!path.empty()) out.push_back({source, absolute(path)});
  };
  bool only_these = settings.environment.starts_with('!');
  if (!settings.secure) {
    for (const std::string& file : settings.files) add(PluginSource::file, file);
    for (const std::string& dir : settings.option_path) add(PluginSource::option, dir);
    std::string_view rest = settings.environment;
    if (only_these) rest.remove_prefix(1);
    while (!rest.empty()) {
      size_t colon = std::min(rest.find(':'), rest.size());
      add(PluginSource::environment, std::string(rest.substr(0, colon)));
      rest.remove_prefix(std::min(colon + 1, rest.size()));
    }
    if (!only_these)
      for (const std::string& dir : settings.config_path) add(PluginSource::config, dir);
  }
  if (!only_these || settings.secure) add(PluginSource::install, settings.install_dir);
  return out;
}

std::string FoundPlugin::file_name() const { return path.substr(path.rfind('/') + 1); }

// ---- scanning ----

static bool same_directory(const std::string& a, const std::string& b) {
  struct stat sa {
  }, sb{};
  return !a.empty() && !b.empty() && ::stat(a.c_str(), &sa) == 0 && ::stat(b.c_str(), &sb) == 0 &&
         sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}

void PluginCatalog::list_directory(size_t place, std::vector<Candidate>& out) const {
  const std::string& directory = places_[place].path;
  DIR* dir = ::opendir(directory.c_str());
  if (!dir && errno == ENOTDIR)
    report::warn_once(
        "no folder " + directory, "backend",
        message("{} is not a folder, so no plugins are searched there; --plugin names "
                "a file",
                directory));
  if (!dir) return;
  bool install = same_directory(directory, settings_.install_dir);
  size_t first = out.size();
  while (const dirent* entry = ::readdir(dir)) {
    std::string_view name = entry->d_name;
    struct stat s {};
    if (name.starts_with('.') || !name.ends_with(".so")) continue;
    bool examined = ::fstatat(::dirfd(dir), entry->d_name, &s, 0) == 0;
    // A link that leads nowhere is no file; one that cannot be examined is not passed over.
    bool is_nothing = examined ? !S_ISREG(s.st_mode) : errno == ENOENT || errno == ELOOP;
    if (is_nothing) continue;
    out.push_back({directory + "/" + entry->d_name,
                   entry->d_name,
                   place,
                   install,
                   examined ? identity_of(s) : FileIdentity{},
                   {},
                   {}});
  }
  ::closedir(dir);
  std::sort(out.begin() + static_cast<std::ptrdiff_t>(first), out.end(),
            [](const Candidate& a, const Candidate& b) { return a.name < b.name; });
}

PluginCatalog::Candidate PluginCatalog::explicit_file(size_t place) const {
  const std::string& path = places_[place].path;
  std::filesystem::path p(path);
  Candidate out{path, p.filename(), place, same_directory(p.parent_path(), settings_.install_dir),
                {},   {},           {}};
  struct stat s {};
  if (::stat(path.c_str(), &s) == 0) out.file = identity_of(s);
  return out;
}

std::vector<PluginCatalog::Candidate> PluginCatalog::candidates() const {
  std::vector<Candidate> all, out;
  for (size_t i = 0; i < places_.size(); ++i) {
    if (places_[i].source == PluginSource::file)
      all.push_back(explicit_file(i));
    else
      list_directory(i, all);
  }
  std::set<std::pair<uint64_t, uint64_t>> seen;
  TrustCheck trust(settings_.trust);
  std::vector<CrashRecord> crashes = crash_records(settings_.quarantine);
  for (Candidate& c : all) {
    bool exists = c.file != FileIdentity{};
    if (exists && !seen.emplace(c.file.device, c.file.inode).second) continue;
    bool is_named = places_[c.place].source == PluginSource::file;
    if (exists || !is_named) c.trust = trust.judge(c.path);
    if (exists) c.quarantine = quarantine_verdict(crashes, c.path, c.file);
    out.push_back(std::move(c));
  }
  return out;
}

Diagnosis no_entry(const std::string& path) {
  return {PluginFault::no_entry, path,
          "expected the exported function tenon_plugin_entry_v1, found none",
          "declare it extern \"C\" TN_EXPORT, and let the version script export it"};
}

/// What the file itself tells, whoever comes before it.
static std::shared_ptr<FoundPlugin> read_plugin(const std::string& path) {
  auto out = std::make_shared<FoundPlugin>();
  out->path = path;
  NoteResult note = read_note(path);
  out->elf = std::move(note.info);
  out->diagnosis = std::move(note.diagnosis);
  if (out->diagnosis) return out;
  ManifestResult parsed = parse_manifest(out->elf.manifest, path);
  out->manifest = std::move(parsed.manifest);
  out->unknown_keys = std::move(parsed.unknown_keys);
  out->diagnosis = std::move(parsed.diagnosis);
  if (!out->diagnosis)
    out->diagnosis = check_abi(out->manifest, path, {TN_ABI_MAJOR, TN_ABI_MINOR});
  if (!out->diagnosis && !out->elf.exports_entry) out->diagnosis = no_entry(path);
  return out;
}

static PluginState state_before_loading(const Diagnosis& diagnosis) {
  switch (diagnosis.fault) {
    case PluginFault::none:
      return PluginState::found;
    case PluginFault::refused:
    case PluginFault::wrong_digest:
      return PluginState::refused;
    case PluginFault::quarantined:
      return PluginState::quarantined;
    default:
      return PluginState::broken;
  }
}

/// Null for files that are not plugins and were not asked for by name.
std::shared_ptr<FoundPlugin> PluginCatalog::examine(const Candidate& c) {
  FoundPluginPtr& known = read_[c.path];
  if (!known || known->elf.file != c.file) {
    auto fresh = read_plugin(c.path);
    bool is_plugin = fresh->diagnosis.fault != PluginFault::no_note;
    if (Diagnosis bad = is_plugin ? settings_.allow.judge(c.path) : Diagnosis{})
      fresh->diagnosis = std::move(bad);
    known = std::move(fresh);
  }
  PluginSource source = places_[c.place].source;
  if (known->diagnosis.fault == PluginFault::no_note && source != PluginSource::file) return {};

  auto out = std::make_shared<FoundPlugin>(*known);
  out->source = source;
  out->in_install_dir = c.in_install_dir;
  TrustVerdict trust = c.trust;
  TrustCheck(settings_.trust).judge_contents(c.path, known->elf, trust);
  out->warnings = std::move(trust.warnings);
  if (trust.refusal) out->diagnosis = trust.refusal;
  if (!out->diagnosis) out->diagnosis = c.quarantine;
  out->state = state_before_loading(out->diagnosis);
  out->usable = out->state == PluginState::found;
  return out;
}

/// Once mapped, a library stays: the loader would give the old mapping for the same path.
static bool is_mapped(PluginState state, PluginFault fault) {
  if (state == PluginState::broken)
    return fault != PluginFault::missing_library && fault != PluginFault::undefined_symbol &&
           fault != PluginFault::unreadable && fault != PluginFault::missing_extension;
  return state != PluginState::found && state != PluginState::quarantined &&
         state != PluginState::refused && state != PluginState::shadowed;
}

/// The plugin with what the loader said about it; null when that was about other content. `now` is
/// the file of today, null when it is gone.
std::shared_ptr<FoundPlugin> PluginCatalog::with_verdict(const Candidate* now,
                                                         const Verdict& verdict) const {
  bool same = now && now->file == verdict.plugin->elf.file;
  if (!same && !is_mapped(verdict.state, verdict.diagnosis.fault)) return {};
  auto out = std::make_shared<FoundPlugin>(*verdict.plugin);
  if (now) out->source = places_[now->place].source;
  out->state = verdict.state;
  out->diagnosis = verdict.diagnosis;
  if (same) return out;
  auto fresh = now ? read_plugin(out->path) : nullptr;
  std::string found = !fresh             ? "gone"
                      : fresh->diagnosis ? "an unreadable file"
                                         : to_text(fresh->manifest.version);
  out->diagnosis = {
      PluginFault::replaced, out->path,
      message("version {} is loaded, the file is now {}", out->manifest.version, found),
      now ? "restart to use it" : "what is loaded can be used until the process ends"};
  return out;
}

// ---- order ----

void PluginCatalog::rebuild_locked() {
  std::vector<Ranked> ranked;
  std::set<std::string> present;
  for (const Candidate& c : candidates_) {
    present.insert(c.path);
    std::shared_ptr<FoundPlugin> plugin;
    if (auto said = verdicts_.find(c.path); said != verdicts_.end()) {
      plugin = with_verdict(&c, said->second);
      if (!plugin) verdicts_.erase(said);
    }
    if (!plugin) plugin = examine(c);
    if (plugin) ranked.push_back({c.place, std::move(plugin)});
  }
  for (const auto& [path, verdict] : verdicts_)  // loaded, and deleted since
    if (!present.contains(path))
      if (auto plugin = with_verdict(nullptr, verdict)) ranked.push_back({places_.size(), plugin});
  std::erase_if(read_, [&](const auto& entry) { return !present.contains(entry.first); });

  std::sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) {
    if (a.place != b.place) return a.place < b.place;
    if (auto c = b.plugin->manifest.version <=> a.plugin->manifest.version; c != 0) return c < 0;
    return a.plugin->path < b.plugin->path;  // of one directory: by file name
  });
  PluginNames names;
  plugins_.clear();
  for (Ranked& r : ranked) {
    if (r.plugin->usable) names.claim(*r.plugin);
    plugins_.push_back(std::move(r.plugin));
  }
}

bool PluginCatalog::rescan_locked() {
  const CancellationOff until_scanned;
  std::vector<Candidate> now = candidates();
  if (now == candidates_) return false;
  candidates_ = std::move(now);
  rebuild_locked();
  return true;
}

// ---- the catalog ----

PluginCatalog::PluginCatalog(SearchSettings settings)
    : settings_(std::move(settings)), places_(search_places(settings_)) {
  if (settings_.secure && settings_.trust == TrustMode::off) settings_.trust = TrustMode::owner;
}

bool PluginCatalog::rescan() {
  std::lock_guard lock(plugins_mutex_);
  return rescan_locked();
}

void PluginCatalog::add_file(const std::string& path) {
  std::lock_guard lock(plugins_mutex_);
  std::string file = absolute(path);
  std::vector<std::string>& files = settings_.files;
  if (std::find(files.begin(), files.end(), file) == files.end()) files.push_back(file);
  places_ = search_places(settings_);
  candidates_.clear();  // places have other indices now
  if (!rescan_locked()) rebuild_locked();
}

std::vector<FoundPluginPtr> PluginCatalog::list() {
  std::lock_guard lock(plugins_mutex_);
  rescan_locked();
  return plugins_;
}

std::vector<SearchPlace> PluginCatalog::places() const {
  std::lock_guard lock(plugins_mutex_);
  return places_;
}

std::optional<BackendChoice> PluginCatalog::find_locked(std::string_view name,
                                                        std::string_view device) const {
  size_t slash = name.find('/');
  std::string_view backend = slash == name.npos ? name : name.substr(slash + 1);
  for (const FoundPluginPtr& p : plugins_) {
    if (!p->usable || (slash != name.npos && p->manifest.name != name.substr(0, slash))) continue;
    for (size_t i = 0; i < p->manifest.backends.size(); ++i) {
      const BackendManifest& b = p->manifest.backends[i];
      bool reachable = slash != name.npos || p->backend_shadowed_by[i].empty();
      if (reachable && b.name == backend && (device.empty() || b.serves(device)))
        return BackendChoice{p, i};
    }
  }
  return std::nullopt;
}

std::optional<BackendChoice> PluginCatalog::find_backend(std::string_view name,
                                                         std::string_view device) {
  std::lock_guard lock(plugins_mutex_);
  auto found = find_locked(name, device);
  if (!found && rescan_locked()) found = find_locked(name, device);
  return found;
}

std::vector<Diagnosis> PluginCatalog::why_missing(std::string_view backend) const {
  std::lock_guard lock(plugins_mutex_);
  std::string_view name = backend.substr(backend.find('/') + 1);
  std::vector<Diagnosis> out;
  for (const FoundPluginPtr& p : plugins_) {
    bool unreadable = p->diagnosis.fault == PluginFault::bad_manifest || p->manifest.name.empty();
    if (p->diagnosis && (unreadable || p->manifest.find_backend(name))) out.push_back(p->diagnosis);
  }
  return out;
}

FoundPluginPtr PluginCatalog::find_plugin(std::string_view name) const {
  std::lock_guard lock(plugins_mutex_);
  for (bool usable : {true, false})  // an unusable one, to say why
    for (const FoundPluginPtr& p : plugins_)
      if (p->usable == usable && p->manifest.name == name) return p;
  return {};
}

FoundPluginPtr PluginCatalog::find_path(std::string_view path) const {
  std::lock_guard lock(plugins_mutex_);
  for (const FoundPluginPtr& p : plugins_)
    if (p->path == path) return p;
  return {};
}

FoundPluginPtr PluginCatalog::find_op(std::string_view name) {
  list();  // reads the folders, at the first call
  std::lock_guard lock(plugins_mutex_);
  for (const FoundPluginPtr& p : plugins_)
    if (p->usable && !p->shadowed)
      for (const OpManifest& op : p->manifest.ops)
        if (op.name == name) return p;
  return {};
}

FoundPluginPtr PluginCatalog::find_extension(std::string_view id, uint32_t min_version) const {
  std::lock_guard lock(plugins_mutex_);
  for (const FoundPluginPtr& p : plugins_)
    if (p->usable && !p->shadowed)
      for (const ExtensionManifest& e : p->manifest.extensions)
        if (e.id == id && e.version >= min_version) return p;
  return {};
}

std::vector<PluginCatalog::KernelsChoice> PluginCatalog::kernels_for(
    std::string_view device) const {
  std::lock_guard lock(plugins_mutex_);
  auto before = [](const KernelsChoice& a, const KernelsChoice& b) {
    return a.plugin->manifest.kernels[a.index].priority >
           b.plugin->manifest.kernels[b.index].priority;
  };
  std::vector<KernelsChoice> out;
  for (const FoundPluginPtr& p : plugins_)
    for (size_t i = 0; p->usable && !p->shadowed && i < p->manifest.kernels.size(); ++i) {
      if (p->manifest.kernels[i].device != device) continue;
      KernelsChoice choice{p, i};
      out.insert(std::upper_bound(out.begin(), out.end(), choice, before), choice);
    }
  return out;
}

void PluginCatalog::set_state(const std::string& path, PluginState state, Diagnosis diagnosis) {
  std::lock_guard lock(plugins_mutex_);
  auto at = std::find_if(plugins_.begin(), plugins_.end(),
                         [&](const FoundPluginPtr& p) { return p->path == path; });
  if (at == plugins_.end()) return;
  verdicts_[path] = {state, std::move(diagnosis), *at};
  rebuild_locked();
}

}  // namespace tenon
