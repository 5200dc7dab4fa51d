// Calls whose bodies run along a path: the glue between a follower and its call site.
#include "capture/follow/follow.h"

#include "capture/tape/run_again.h"
#include "compile/replay.h"
#include "compile/segments.h"
#include "config/flags.h"
#include "report/compile_record.h"
#include "runtime/limits.h"
#include "runtime/overrides.h"

#include <memory>
#include <optional>

namespace tenon {

using detail::Body;
using detail::CallResult;
using detail::Leaves;
using detail::Site;

namespace {

PathVersion version_of(const Course& course) {
  return {&course.path, &course.recorded, course.slot_guards, const_cast<Course*>(&course)};
}

/// The versions of a call, whole bodies and courses.
struct Versions {
  Site& site;
  Entry& first;
  const Leaves& leaves;
  std::shared_ptr<const Course> begin = nullptr;            // null: a whole body
  PathVersion likeliest = {};                               // where it is not that of `first`
  std::vector<std::shared_ptr<const Course>> courses = {};  // once the others are asked for

  /// Whether a version fits to what is known of the body: that it calls backward().
  bool may_follow(const Entry& entry) const {
    return site.calls_backward == entry.recorded.has_backward;
  }
  /// The likeliest one, or null.
  const PathVersion* first_version() {
    if (first.path && may_follow(first)) return &first.version;
    if (may_follow(first)) {
      begin = first.courses.take(leaves);
      if (begin) likeliest = version_of(*begin);
      return begin ? &likeliest : nullptr;
    }
    std::vector<PathVersion> all = others();
    if (!all.empty()) likeliest = all.front();
    return all.empty() ? nullptr : &likeliest;
  }
  std::vector<PathVersion> others() {
    std::vector<PathVersion> versions;
    if (begin) add_courses(first);
    for (uint32_t i = 0; i < site.versions.size(); ++i) {
      Entry* entry = site.versions[i];
      if (entry == &first || !may_follow(*entry) || !entry->accepts(leaves)) continue;
      if (entry->path)
        versions.push_back(entry->version);
      else
        add_courses(*entry);
    }
    for (const auto& course : courses)
      if (course != begin) versions.push_back(version_of(*course));
    return versions;
  }

 private:
  void add_courses(const Entry& entry) {
    for (auto& course : entry.courses.of_call(leaves)) courses.push_back(std::move(course));
  }
};

// A recording that begins in the middle of a body.
struct LateRecording {
  config::OptionScope overrides;
  std::string difference;
  report::CompileWatch watch;
  int64_t n_compiles;  // of the site, before
  LateRecording(const Site& site, std::string how_it_differs)
      : overrides(flag_override(site.number)),
        difference(std::move(how_it_differs)),
        watch(message("{}/{}", site.number, site.attempts.load()), display_name(site)),
        n_compiles(site.compiles) {}
  /// Whether its segments have needed no new code: then it is one more course of the body.
  bool has_compiled_nothing(const Site& site, const Recording& recording) const {
    return recording.has_graph_breaks() && site.compiles == n_compiles && !compiles_nothing_new();
  }
};

void give_followed(Site& site, const Versions& versions, const PathVersion& version,
                   Follower& follower, const Leaves& leaves, CallResult& result) {
  BodyResults& given = follower.results();
  std::span<const Number> numbers = given.plain.numbers.span();
  if (!numbers.empty()) result.numbers.assign(numbers.begin(), numbers.end());
  if (version.path->has_breaks()) {
    result.tensors =
        std::move(given.tensors);  // real ones; code makes those of a body in one piece
    ++site.replays;
    auto* course = static_cast<const Course*>(version.owner);
    if (course != versions.begin.get()) versions.first.courses.move_to_front(*course);
    return;
  }
  Site::Counters& counters = site.my_counters();
  counters.hits.store(counters.hits.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  const std::optional<autograd::TapeRequests> asked = follower.requests();
  autograd::RequestsOfCall brings(asked);
  static_cast<const Entry*>(version.owner)
      ->run({leaves, follower.slots(), follower.numbers()}, result);
}

void follow(Site& site, Entry& first, const Leaves& leaves, const Body& body, CallResult& result) {
  std::optional<config::OptionScope> options;
  if (site.flags) options.emplace(site.flags);
  Versions versions{site, first, leaves};
  const PathVersion* begin = versions.first_version();
  if (!begin) return replay_slot(site, leaves, body, result);
  std::unique_ptr<LateRecording> late;
  auto others = [&] { return versions.others(); };
  std::shared_ptr<const SegmentCode> like_it;
  Eager part_is_eager = Eager::none;
  auto find = [&](const Segment& segment, std::span<const int64_t> symbols,
                  const std::vector<Overlap>& overlaps) {
    const SegmentCode* code = segment.code.get();
    if (!code->serves(symbols, overlaps)) {
      like_it = code_of_equal(site, segment, symbols, overlaps);
      code = like_it.get();
    }
    if (code && code->because != Eager::none) part_is_eager = code->because;
    return code;
  };
  auto holds = [&](const PathVersion& version, std::span<const Tensor> slots) {
    return static_cast<const Entry*>(version.owner)->serves_followed({leaves, slots});
  };
  bool captures_scalars = site.options.fullgraph || config::flags().dynamo.capture_scalar_outputs;
  auto record = [&](const Path& path, const std::string& difference) {
    late = std::make_unique<LateRecording>(site, difference);
    return new_trace(site, leaves, &path);
  };
  ModesOfCall modes;
  const Follower::Helpers helpers{others,
                                  holds,
                                  {find, run_segment},
                                  record,
                                  modes.of_call(),
                                  captures_scalars,
                                  site.options.fullgraph};
  Follower follower(leaves, *begin, helpers);
  try {
    follower.run(body);
  } catch (const WantsTape&) {
    return serve_recording(site, record_body(site, leaves, body, modes), leaves, result);
  } catch (const RunsAsItIs&) {
    first.n_rest.store(UINT32_MAX, std::memory_order_relaxed);  // it would begin twice in each call
    throw;
  }
  if (const PathVersion* version = follower.version()) {
    modes.body_is_over();
    first.n_left.store(0, std::memory_order_relaxed);
    if (part_is_eager != Eager::none) note_eager_call(site, part_is_eager);
    return give_followed(site, versions, *version, follower, leaves, result);
  }
  Recording recording = std::move(follower.recording());
  modes.body_is_over(recording);
  note_recording(site, recording);
  if (late->has_compiled_nothing(site, recording))
    return serve_recording(site, std::move(recording), leaves, result);
  auto has_come = [&] {
    return !recording.has_graph_breaks() && equal_version(site, recording, leaves);
  };
  Miss then = what_to_do(site, leaves, has_come, late->difference);
  while (then == Miss::look_again) {
    if (serve_by_equal(site, recording, leaves, result)) return;
    then = what_to_do(site, leaves, has_come, late->difference);
  }
  if (then == Miss::compile) return serve_recording(site, std::move(recording), leaves, result);
  if (then == Miss::replay) return finish_call(site, std::move(recording), leaves, result);
  first.note_left();
  note_eager_call(site);
  finish_call(site, std::move(recording), leaves, result, CodeOf::interpreter);
}

void on_follow(Site& site, Entry& first, const Leaves& leaves, const Body& body,
               CallResult& result) {
  if (first.rests()) return run_eagerly(site, body);
  serve_or_run_eagerly(site, body, [&] { follow(site, first, leaves, body, result); });
}

const bool installed_follow_entry = (follow_entry_slot = &on_follow, true);

}  // namespace

}  // namespace tenon
