// The text of explain() of a compiled callable.
#include "compile/site_settings.h"
#include "core/error.h"
#include "graph/text/print.h"
#include "runtime/limits.h"

namespace tenon::detail {

std::string explain_site(const Site& s) {
  auto& site = const_cast<Site&>(s);
  std::lock_guard lock(site.changing);
  std::string out =
      message("callable {} with backend {}: {} versions, {} compiles\n", display_name(site),
              backend_of(site), site.n_entries.load(), site.compiles.load());
  for (uint32_t i = 0; i < site.n_entries.load(); ++i) {
    const Entry& e = *site.order[i].load();
    out += message("version {}: {}\n", e.id,
                   e.replays() ? "the body is recorded on every call: " + e.recorded.break_reason
                   : e.path && !site.skips_bodies()
                       ? "the body runs on every call, compared with the recorded one"
                   : site.skips_bodies() ? "the code runs alone; the body is stated pure"
                                         : "the code runs alone: " + e.why_no_path);
    out += e.recorded.guards.to_text();
    if (e.recorded.has_code) out += to_text(*e.recorded.graph);
  }
  for (const std::string& reason : site.recompile_reasons)
    out += "recompiled because " + reason + "\n";
  return out;
}

}  // namespace tenon::detail
