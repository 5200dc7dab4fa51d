// Finds plugins: where they are looked for, which files there are, and which of them a name means.
//
// Nothing is loaded here. A catalog reads the notes of the files and remembers them by identity;
// a rescan reads again only what changed.
#pragma once

#include "backend/find/allow_list.h"
#include "backend/find/diagnose.h"
#include "backend/find/manifest.h"
#include "backend/find/note.h"
#include "backend/find/trust.h"

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

/// Where a plugin was found, in the order of precedence.
enum class PluginSource : uint8_t { file, option, environment, config, install };
/// "file", "option", ...
std::string_view name_of(PluginSource source);

struct SearchPlace {
  PluginSource source;
  std::string path;  ///< absolute; a file for PluginSource::file, else a directory
  friend bool operator==(const SearchPlace&, const SearchPlace&) = default;
};

struct SearchSettings {
  std::vector<std::string> files;        ///< --plugin, tenon::load_plugin
  std::vector<std::string> option_path;  ///< --plugin-path, option plugin_path
  std::string environment;               ///< TENON_PLUGIN_PATH, as plugin_path_variable() gives it
  std::vector<std::string> config_path;  ///< plugins.path
  std::string install_dir;               ///< <dir of libtenon>/tenon/plugins
  bool secure = false;                   ///< as process_is_secure() gives it
  TrustMode trust = TrustMode::owner;    ///< `off` means `owner` in a secure process
  AllowList allow;                       ///< plugins.allow
  std::string quarantine;                ///< the folder of breadcrumbs; empty = no quarantine
};

/// TENON_PLUGIN_PATH; empty where it is unset and in set-uid processes.
std::string plugin_path_variable();

/// All places, first hit first. A leading '!' of the variable leaves out config and install
/// directory; a secure process knows the install directory only.
std::vector<SearchPlace> search_places(const SearchSettings& settings);

enum class PluginState : uint8_t {
  found,        ///< the manifest is read, nothing more
  loaded,       ///< mapped, entry not yet returned
  ready,        ///< its tables may be used
  draining,     ///< shutting down, calls are awaited
  down,         ///< shut down
  broken,       ///< cannot be used: see the diagnosis
  refused,      ///< not trusted
  shadowed,     ///< all that it offers comes from another plugin
  quarantined,  ///< crashed earlier while loading
  faulty,       ///< broke its contract at run time
};
std::string_view name_of(PluginState state);

struct FoundPlugin {
  std::string path;
  PluginSource source = PluginSource::file;
  bool in_install_dir = false;
  PluginManifest manifest;  ///< empty where it could not be read
  ElfInfo elf;
  PluginState state = PluginState::found;
  Diagnosis diagnosis;
  std::vector<Diagnosis> warnings;  ///< what is doubtful about it, but lets it be loaded
  bool usable = false;    ///< readable, trusted and of our ABI: takes part in the look-up of names
  bool shadowed = false;  ///< nothing that it offers has a bare name any more
  std::vector<std::string> unknown_keys;  ///< of the manifest
  /// Per backend and per device of the manifest: the path of who comes first, or empty.
  std::vector<std::string> backend_shadowed_by, device_shadowed_by;

  std::string file_name() const;
};
using FoundPluginPtr = std::shared_ptr<const FoundPlugin>;

/// P07 for a file that does not export its entry.
Diagnosis no_entry(const std::string& path);

/// A backend of a plugin; the manifest lives as long as `plugin`.
struct BackendChoice {
  FoundPluginPtr plugin;
  size_t index = 0;
  const BackendManifest& manifest() const { return plugin->manifest.backends[index]; }
};

/// The plugins that the settings lead to. Threads: all functions may be called from any thread.
class PluginCatalog {
 public:
  explicit PluginCatalog(SearchSettings settings);

  /// Looks at the directories again and reads what is new or changed. True when anything changed.
  bool rescan();
  /// Adds an explicit file, in front of all that were found by search, and rescans.
  void add_file(const std::string& path);

  /// What is known, by precedence, after looking at the directories again. Files without a Tenon
  /// note are not in it unless they were named explicitly.
  std::vector<FoundPluginPtr> list();
  std::vector<SearchPlace> places() const;
  /// What was given. Explicit files may join them at any time; the rest stays as it is.
  const SearchSettings& settings() const { return settings_; }

  /// The backend that `name` means on `device` ("" = any); "plugin/backend" also reaches shadowed
  /// ones. A miss looks at the directories again.
  std::optional<BackendChoice> find_backend(std::string_view name, std::string_view device);
  /// Why a name is not there: the diagnoses of unusable plugins that would offer it, and of files
  /// whose manifest could not be read.
  std::vector<Diagnosis> why_missing(std::string_view backend) const;
  FoundPluginPtr find_plugin(std::string_view name) const;
  FoundPluginPtr find_path(std::string_view path) const;
  FoundPluginPtr find_extension(std::string_view id, uint32_t min_version) const;
  /// The plugin that declares the op "my.swiglu.default", or null. Loads nothing.
  FoundPluginPtr find_op(std::string_view name);

  struct KernelsChoice {
    FoundPluginPtr plugin;
    size_t index = 0;  ///< into manifest.kernels
  };
  /// Kernels for a device, higher priority first, then by precedence.
  std::vector<KernelsChoice> kernels_for(std::string_view device) const;

  /// What became of a plugin (nothing happens when it is not in the catalog any more). From
  /// `loaded` on, its manifest stays as it is although the file may change (P18), since its code
  /// stays mapped.
  void set_state(const std::string& path, PluginState state, Diagnosis diagnosis = {});

  /// Around a fork(), so that the child does not find the catalog locked by a thread that it lacks.
  void lock_for_fork() { plugins_mutex_.lock(); }
  void unlock_after_fork() { plugins_mutex_.unlock(); }

 private:
  struct Candidate {
    std::string path, name;
    size_t place = 0;  ///< index into places_
    bool in_install_dir = false;
    FileIdentity file;   ///< all zero where an explicit file is missing
    TrustVerdict trust;  ///< of the file and its directories
    Diagnosis quarantine;
    friend bool operator==(const Candidate&, const Candidate&) = default;
  };
  struct Verdict {  ///< what the loader said, about the content that `plugin` has
    PluginState state;
    Diagnosis diagnosis;
    FoundPluginPtr plugin;
  };
  struct Ranked {
    size_t place;
    std::shared_ptr<FoundPlugin> plugin;
  };

  bool rescan_locked();
  void rebuild_locked();
  std::vector<Candidate> candidates() const;
  void list_directory(size_t place, std::vector<Candidate>& out) const;
  Candidate explicit_file(size_t place) const;
  std::shared_ptr<FoundPlugin> examine(const Candidate& candidate);
  std::shared_ptr<FoundPlugin> with_verdict(const Candidate* now, const Verdict& verdict) const;
  std::optional<BackendChoice> find_locked(std::string_view name, std::string_view device) const;

  mutable std::mutex plugins_mutex_;  ///< guards all below
  SearchSettings settings_;
  std::vector<SearchPlace> places_;
  std::vector<Candidate> candidates_;           ///< as of the last scan
  std::vector<FoundPluginPtr> plugins_;         ///< by precedence
  std::map<std::string, FoundPluginPtr> read_;  ///< every file read, by path, before any look-up
  std::map<std::string, Verdict> verdicts_;     ///< by path
};

}  // namespace tenon
