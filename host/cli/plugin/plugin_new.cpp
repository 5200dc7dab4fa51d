// `tenon plugin new`: a plugin project that builds against an installed Tenon.
#include "cli/exit_status.h"
#include "cli/plugin/plugin.h"
#include "config/flag_def.h"
#include "core/error.h"
#include "debug/plugin_kit/embedded.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

namespace tenon::cli {

namespace {

namespace fs = std::filesystem;

struct NewOptions {
  std::string name, language = "c++", folder;
  bool kernels = false, ops = false;  ///< in the place of a backend
  /// The folder of the templates.
  std::string kind() const { return kernels ? "kernels" : ops ? "ops" : language; }
};

void require_name(const std::string& name) {
  auto is_lower = [](char c) { return c >= 'a' && c <= 'z'; };
  auto is_allowed = [&](char c) { return is_lower(c) || (c >= '0' && c <= '9') || c == '_'; };
  bool good = !name.empty() && name.size() <= 48 && is_lower(name[0]) &&
              std::all_of(name.begin(), name.end(), is_allowed);
  require(good,
          "plugin new: a plugin's name is a lower-case letter and up to 47 letters, digits and "
          "'_'; found '{}'; choose another, such as my_backend",
          name);
}

// Names that the host keeps for itself: a project with one could never be loaded, or never be set.
void require_free_name(const NewOptions& options) {
  const std::string& name = options.name;
  bool is_backend = !options.kernels && !options.ops;
  bool is_namespace = options.ops && (name == "aten" || name == "tenon");
  auto modules = config::module_names();
  bool is_taken = is_backend && (name == "eager" || std::ranges::count(modules, name) > 0);
  require(!is_namespace, "plugin new: ops in the namespace {} are Tenon's own; choose another name",
          name);
  require(!is_taken, "plugin new: '{}' is {}; choose another name", name,
          name == "eager" ? "the host's own backend" : "a module of flags");
}

// "my_backend" as "MyBackend".
std::string class_name(const std::string& name) {
  std::string out;
  bool starts_word = true;
  for (char c : name) {
    if (c != '_')
      out += starts_word ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    starts_word = c == '_';
  }
  return out;
}

/// The files of one project.
class Project {
 public:
  explicit Project(const NewOptions& options)
      : name_(options.name),
        kind_(options.kind()),
        folder_(options.folder.empty() ? options.name : options.folder) {
    for (const EmbeddedFile& file : kit::plugin_templates())
      if (belongs(file.path)) files_.emplace_back(place(file.path), filled(file.text));
  }

  void write() const {
    for (const auto& [path, text] : files_)
      require(!fs::exists(path), ErrorCode::bad_file,
              "{}: is there already and is not overwritten; choose another --folder",
              path.string());
    std::error_code error;
    fs::create_directories(folder_, error);
    require(!error, ErrorCode::bad_file, "{}: cannot be made: {}", folder_.string(),
            error.message());
    for (const auto& [path, text] : files_) write_output(path.string(), text);
  }
  const fs::path& folder() const { return folder_; }
  std::vector<std::string> paths() const {
    std::vector<std::string> out;
    for (const auto& [path, text] : files_) out.push_back(path.string());
    return out;
  }

 private:
  std::string source() const { return name_ + (kind_ == "c" ? ".c" : ".cpp"); }
  // The README of all is about a backend.
  bool belongs(std::string_view path) const {
    if (path == "common/README.md") return kind_ == "c" || kind_ == "c++";
    return path.starts_with("common/") || path.starts_with(kind_ + "/");
  }
  fs::path place(std::string_view path) const {
    std::string file(path.substr(path.find('/') + 1));
    if (file == "gitignore") return folder_ / ".gitignore";
    return folder_ / (file.starts_with("TEMPLATE_NAME.") ? source() : file);
  }
  std::string filled(std::string_view text) const {
    const std::pair<std::string, std::string> words[] = {{"TEMPLATE_NAME", name_},
                                                         {"TEMPLATE_CLASS", class_name(name_)},
                                                         {"TEMPLATE_SOURCE", source()}};
    std::string out(text);
    for (const auto& [word, value] : words)
      for (size_t at = 0; (at = out.find(word, at)) != std::string::npos; at += value.size())
        out.replace(at, word.size(), value);
    return out;
  }

  std::string name_, kind_;
  fs::path folder_;
  std::vector<std::pair<fs::path, std::string>> files_;
};

int make_project(const NewOptions& options, const Globals& globals) {
  require_name(options.name);
  require_free_name(options);
  require(options.language == "c++" || !(options.kernels || options.ops),
          "plugin new: the projects of --kernels and --ops are in C++; leave --language out");
  Project project(options);
  project.write();
  if (globals.json) {
    print_json({{"schema", 1},
                {"name", options.name},
                {"language", options.language},
                {"folder", project.folder().string()},
                {"files", project.paths()}});
    return 0;
  }
  for (const std::string& path : project.paths()) print(path + "\n");
  print("how it is built and checked stands in " + (project.folder() / "README.md").string() +
        "\n");
  return 0;
}

Action build_plugin_new(Options& app) {
  auto options = std::make_shared<NewOptions>();
  app.add_option("NAME", options->name, "the name of the plugin and of its backend").required();
  Option& kernels = app.add_flag("--kernels", options->kernels, "eager kernels, not a backend");
  app.add_flag("--ops", options->ops, "new ops, not a backend").excludes(kernels);
  app.add_option("--language", options->language, "c++ (default) or c").one_of({"c++", "c"});
  app.add_option("--folder", options->folder, "where to (./NAME)");
  return [options](const Globals& globals) { return make_project(*options, globals); };
}

}  // namespace

extern constinit const Verb plugin_new{.name = "new",
                                       .summary = "writes a small plugin project to begin with",
                                       .example = "tenon plugin new my_backend --language c++",
                                       .build = build_plugin_new};

}  // namespace tenon::cli
