// The courses that a body with graph breaks has taken so far.
#pragma once

#include "capture/follow/path.h"
#include "capture/follow/position.h"
#include "capture/recording.h"

#include <tenon/detail/compiled.h>

#include <memory>
#include <mutex>
#include <vector>

namespace tenon {

/// One course of a body with graph breaks.
struct Course {
  Course(Recording recording, std::vector<SlotGuard> guards, bool is_first)
      : recorded(std::move(recording)),
        slot_guards(std::move(guards)),
        path(recorded),
        has_guards_of_entry(is_first) {}
  const Recording recorded;
  const std::vector<SlotGuard> slot_guards;
  const Path path;
  const bool has_guards_of_entry;

  /// Whether it is for a call that its entry accepts.
  bool accepts(const detail::Leaves& leaves) const;
};

/// Those of one entry; the one that was taken last comes first, and those taken longest ago go.
/// Threads: any.
class Courses {
 public:
  void add(Recording recording, bool is_first);
  /// Those for calls with such arguments, which the entry accepts. They live as long as the result.
  std::vector<std::shared_ptr<const Course>> of_call(const detail::Leaves& leaves) const;
  /// The first of them, which comes to the front, or null.
  std::shared_ptr<const Course> take(const detail::Leaves& leaves);
  void move_to_front(const Course& course);
  size_t size() const;

  /// Of a recording that has no path the numbers are kept, once for recordings of the same operations.
  void add_without_path(const Recording& recording);
  std::vector<std::shared_ptr<const PlainNumbers>> numbers_without_path() const;

 private:
  void drop_oldest();

  mutable std::mutex lock_;
  std::vector<std::shared_ptr<const Course>> all_;
  std::vector<std::pair<uint64_t, std::shared_ptr<const PlainNumbers>>> without_path_;
};

}  // namespace tenon
