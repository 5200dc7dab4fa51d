// Calls whose bodies run along a path: the glue between a follower and its call site.
#include "capture/follow.h"

#include "compile/replay.h"
#include "config/flags.h"
#include "report/compile_record.h"
#include "runtime/limits.h"
#include "runtime/overrides.h"

#include <optional>

namespace tenon {

using detail::Body;
using detail::CallResult;
using detail::Leaves;
using detail::Site;

namespace {

std::vector<PathVersion> other_versions(const Site& site, const Entry& first,
                                        const Leaves& leaves) {
  std::vector<PathVersion> versions;
  for (uint32_t i = 0; i < site.n_entries.load(); ++i)
    if (const Entry* entry = site.order[i].load();
        entry != &first && entry->path && entry->accepts(leaves))
      versions.push_back(entry->version());
  return versions;
}

// A recording that begins in the middle of a body.
struct LateRecording {
  config::OptionScope options, overrides;
  Miss then;
  report::CompileWatch watch;
  LateRecording(Site& site, const Leaves& leaves, const std::string& difference)
      : options(site.flags),
        overrides(flag_override(site.number)),
        then(decide(site, leaves, difference)),
        watch(message("{}/{}", site.number, site.attempts), display_name(site)) {}

  static Miss decide(Site& site, const Leaves& leaves, const std::string& difference) {
    std::lock_guard lock(site.changing);
    return what_to_do(site, leaves, difference);
  }
};

void on_follow(Site& site, Entry& first, const Leaves& leaves, const Body& body,
               CallResult& result) {
  if (first.rests()) {
    ++site.eager_calls;
    return body.run_eager(body.context);
  }
  std::optional<LateRecording> late;
  auto others = [&] { return other_versions(site, first, leaves); };
  auto holds = [&](const PathVersion& version, std::span<const Tensor> slots) {
    return static_cast<const Entry*>(version.owner)->serves_followed({leaves, slots});
  };
  auto record = [&](const Path& path, const std::string& difference) {
    late.emplace(site, leaves, difference);
    return new_trace(site, leaves, &path);
  };
  Follower follower(leaves, first.version(), {others, holds, record});
  try {
    follower.run(body);
  } catch (const WantsTape&) {
    site.calls_backward = true;
    return serve_recording(site, record_body(site, leaves, body), leaves, result);
  }
  if (const PathVersion* version = follower.version()) {
    first.n_left.store(0, std::memory_order_relaxed);
    Site::Counters& counters = site.my_counters();
    counters.hits.store(counters.hits.load(std::memory_order_relaxed) + 1,
                        std::memory_order_relaxed);
    BodyResults& given = follower.results();
    result.numbers.assign(given.plain.numbers.span().begin(), given.plain.numbers.span().end());
    result.tensors = std::move(given.tensors);
    CallInputs in{leaves, follower.slots(), follower.numbers()};
    return static_cast<const Entry*>(version->owner)->run(in, result);
  }
  Recording recording = std::move(follower.recording());
  if (late->then == Miss::compile)
    return serve_recording(site, std::move(recording), leaves, result);
  if (late->then == Miss::replay) return finish_call(site, std::move(recording), leaves, result);
  first.note_left();
  ++site.eager_calls;
  finish_call(site, std::move(recording), leaves, result, CodeOf::interpreter);
}

const bool installed = (follow_entry_slot = &on_follow, true);

}  // namespace

}  // namespace tenon
