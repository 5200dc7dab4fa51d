// What `figures` is made of: the list of figures, results on disk, the page that shows them.
#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

namespace figures {

using Json = nlohmann::ordered_json;

/// A mistake in the list, a result file or a program that was run; its text ends the tool.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

Json read_json(const std::filesystem::path& path);
/// All results in a folder, newest first. A result has machine, date, commit and compiler; what it
/// holds are `figures` (by name, each a list of numbers) and `tables` (of comparisons with peers).
std::vector<Json> read_results(const std::filesystem::path& folder);

/// Runs the commands of the list whose name contains `filter` and adds what they measure to the
/// result of this machine and day. Commands run in the current folder.
void measure(const Json& list, const std::filesystem::path& folder, const std::string& filter);

/// docs/performance.md.
std::string page(const Json& list, const std::vector<Json>& results);
/// `text` with the headline figures between its two markers.
std::string with_headlines(const std::string& text, const Json& list,
                           const std::vector<Json>& results);

}  // namespace figures
