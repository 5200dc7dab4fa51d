// Statistics of code as lines.
#include "compile/told.h"

#include "core/error.h"
#include "formats/json.h"
#include "report/findings.h"

#include <tenon/plugin.h>

namespace tenon {

namespace {

using formats::Json;
using report::plural;

constexpr size_t most_lines = 200;

const std::string* text(const Json& value) { return std::get_if<std::string>(&value.value()); }

template <class F>
void for_each_item(const Json& object, std::string_view name, F&& f) {
  const Json* member = object.find(name);
  const auto* list = member ? std::get_if<Json::Array>(&member->value()) : nullptr;
  for (size_t i = 0; list && i < list->size(); ++i) f((*list)[i]);
}

template <class F>
void for_each_member(const Json& object, std::string_view name, F&& f) {
  const Json* member = object.find(name);
  const auto* members = member ? std::get_if<Json::Object>(&member->value()) : nullptr;
  if (members)
    for (const auto& [key, value] : *members)
      if (const auto* n = std::get_if<int64_t>(&value.value())) f(key, *n);
}

/// Of all recordings of one function.
struct Recordings {
  int64_t n = 0, sizes = 0, nodes = 0, bytes = 0;

  explicit Recordings(const Json& function) {
    for_each_item(function, "sizes", [&](const Json& size) {
      ++sizes;
      for_each_item(size, "recordings", [&](const Json& recording) {
        ++n;
        nodes += recording["nodes"].integer();
        bytes += recording["bytes"].integer();
      });
    });
  }
};

void tell_function(const Json& function, std::vector<std::string>& out) {
  const Json* name = function.find("name");
  const std::string* words = name ? text(*name) : nullptr;
  Recordings all(function);
  out.push_back(message("{}: {} of {}, with {} and {} of memory; {}, {}", words ? *words : "",
                        plural(all.n, "recording"), plural(all.sizes, "size"),
                        plural(all.nodes, "node"), plural(all.bytes, "byte"),
                        plural(function["replays"].integer(), "replay"),
                        plural(function["warm_ups"].integer(), "warm-up")));
  for_each_member(function, "rerecords", [&](const std::string& why, int64_t n) {
    out.push_back(message("recorded anew {}: {}", plural(n, "time"), why));
  });
  for_each_member(function, "direct", [&](const std::string& reason, int64_t n) {
    const Json* reasons = function.find("reasons");
    const Json* why = reasons ? reasons->find(reason) : nullptr;
    const std::string* sentence = why ? text(*why) : nullptr;
    out.push_back(message("ran directly {}: {} ({})", plural(n, "time"),
                          sentence ? *sentence : "no reason is told", reason));
  });
}

}  // namespace

std::vector<std::string> told_by(const Artifact& code) {
  std::vector<std::string> out;
  try {
    std::string json = code.describe(TN_DESC_STATS_JSON);
    if (json.empty()) return out;
    Json statistics = formats::parse_json(json, "statistics of an artifact").root();
    for_each_item(statistics, "told", [&](const Json& line) {
      if (const std::string* words = text(line)) out.push_back(*words);
    });
    for_each_item(statistics, "recorded", [&](const Json& f) { tell_function(f, out); });
  } catch (const std::exception&) {
    out.emplace_back("what its code tells cannot be read");
  }
  if (out.size() > most_lines) out.resize(most_lines);
  return out;
}

}  // namespace tenon
