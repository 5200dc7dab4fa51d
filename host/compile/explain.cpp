// The text of explain() of a compiled callable.
#include "compile/site_settings.h"
#include "core/error.h"
#include "graph/text/print.h"
#include "runtime/limits.h"

namespace tenon::detail {

namespace {

// What happens on calls that a version serves, and why.
std::string regime_of(const Site& site, const Entry& e) {
  size_t n = e.n_courses();
  if (e.replays() && n == 0)
    return message("the body is recorded on every call: {} ({})", e.recorded.break_reason,
                   e.why_no_path);
  if (e.replays())
    return message("the body runs on every call, compared with {} recorded courses: {}", n,
                   e.recorded.break_reason);
  if (site.replay_for_good)
    return "the body is recorded on every call: it did something else than when it was recorded";
  if (site.skips_bodies()) return "the code runs alone: the body is stated pure";
  if (e.path) return "the body runs on every call, compared with the recorded one";
  if (e.recorded.has_backward) return "the code runs alone: " + e.why_no_path;
  return "the body is recorded on every call: " + e.why_no_path;
}

}  // namespace

std::string explain_site(const Site& s) {
  auto& site = const_cast<Site&>(s);
  std::lock_guard lock(site.changing);
  std::string out =
      message("callable {} with backend {}: {} versions, {} compiles\n", display_name(site),
              backend_of(site), site.versions.size(), site.compiles.load());
  for (uint32_t i = 0; i < site.versions.size(); ++i) {
    const Entry& e = *site.versions[i];
    out += message("version {}: {}\n", e.id, regime_of(site, e));
    out += e.recorded.guards.to_text();
    if (e.recorded.has_code) out += to_text(*e.recorded.graph);
  }
  for (const std::string& reason : site.recompile_reasons)
    out += "recompiled because " + reason + "\n";
  return out;
}

}  // namespace tenon::detail
