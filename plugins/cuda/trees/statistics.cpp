// Counting and telling what was not recorded.
#include "statistics.h"

#include <tenon/counters.h>
#include <tenon/plugin.hpp>

#include <set>

namespace tenon::cuda::trees {

using plugin::text;

namespace {

/// Skips of all functions; leaked, as functions may be dropped at any time.
struct Skips {
  std::mutex counting;  // guards what follows
  std::map<std::string, uint64_t> by_reason;
  std::set<std::string> told;
};

Skips& skips() {
  static auto* const all = new Skips;
  return *all;
}

std::string counts_json(const std::map<std::string, uint64_t>& counts) {
  std::string out = "{";
  for (const auto& [name, count] : counts)
    out += text("{}{}: {}", out.size() > 1 ? ", " : "", quoted(name), count);
  return out + "}";
}

}  // namespace

std::string quoted(std::string_view given) {
  std::string out = "\"";
  for (char c : given) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + "\"";
}

void Statistics::add_direct(const Reason& why) {
  std::lock_guard lock(counting_);
  ++direct_[why.id];
  said_.emplace(why.id, why.sentence);
}

void Statistics::add_rerecord(const std::string& why) {
  std::lock_guard lock(counting_);
  ++rerecords_[why];
}

bool Statistics::is_first(const Reason& why) {
  std::lock_guard lock(counting_);
  return !direct_.contains(why.id);
}

std::string Statistics::to_json() const {
  std::lock_guard lock(counting_);
  std::string sentences = "{";
  for (const auto& [id, sentence] : said_)
    sentences += text("{}{}: {}", sentences.size() > 1 ? ", " : "", quoted(id), quoted(sentence));
  return text(
      "\"warm_ups\": {}, \"recordings\": {}, \"replays\": {}, \"direct\": {}, \"reasons\": {}, "
      "\"rerecords\": {}",
      warm_ups.load(), recordings.load(), replays.load(), counts_json(direct_), sentences + "}",
      counts_json(rerecords_));
}

// Beside the host's own counters, where it offers that.
static void count(const std::string& reason) {
  static const auto* const counters =
      plugin::extension<tn_counters_api>(TN_COUNTERS_ID, TN_COUNTERS_VERSION);
  if (counters) counters->count(TN_STR("cudagraph_skips"), plugin::str(reason));
}

void note_skip(const std::string& function, const Reason& why, const std::string& node,
               const std::string& source) {
  count(why.id);
  bool is_new = false;
  {
    std::lock_guard lock(skips().counting);
    ++skips().by_reason[why.id];
    is_new = skips().told.insert(function + '\n' + why.id).second;
  }
  if (!is_new) return;
  std::string where = node.empty() ? "" : text(" (node {}", node);
  if (!source.empty()) where += (where.empty() ? " (" : ", ") + source;
  if (!where.empty()) where += ")";
  plugin::log(TN_LOG_INFO, "cudagraphs", "{} is not recorded: {}: {}{}", function, why.id,
              why.sentence, where);
}

std::string skips_json() {
  std::lock_guard lock(skips().counting);
  return counts_json(skips().by_reason);
}

}  // namespace tenon::cuda::trees
