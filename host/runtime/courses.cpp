// Keeping courses, and finding those that are for a call.
#include "runtime/courses.h"

#include "config/flags.h"

#include <algorithm>

namespace tenon {

using detail::Leaves;

bool Course::accepts(const Leaves& leaves) const {
  auto holds = [&](const auto& guards) { return guards->check_before_body(leaves); };
  return (has_guards_of_entry || recorded.guards.check_before_body(leaves)) &&
         std::ranges::all_of(recorded.earlier_guards, holds);
}

void Courses::add(Recording recording, bool is_first) {
  std::vector<SlotGuard> guards = slot_guards(recording);
  for (ImplicitInput& in : recording.implicit) in.tensor = Tensor();  // later calls bring it
  recording.results.clear();
  recording.prototype.reset();
  auto course = std::make_shared<const Course>(std::move(recording), std::move(guards), is_first);
  std::lock_guard lock(lock_);
  all_.insert(all_.begin(), std::move(course));
  drop_oldest();
}

void Courses::drop_oldest() {
  constexpr size_t most_courses = 64;
  auto most_segments = static_cast<uint64_t>(config::flags().capture.trace_tree_max_nodes);
  size_t n_kept = 0, total = 0;
  while (n_kept < std::min(all_.size(), most_courses)) {
    total += all_[n_kept]->path.parts().size();
    if (n_kept > 0 && total > most_segments) break;
    ++n_kept;
  }
  all_.resize(n_kept);
}

std::vector<std::shared_ptr<const Course>> Courses::of_call(const Leaves& leaves) const {
  std::vector<std::shared_ptr<const Course>> courses;
  std::lock_guard lock(lock_);
  for (const std::shared_ptr<const Course>& course : all_)
    if (course->accepts(leaves)) courses.push_back(course);
  return courses;
}

std::shared_ptr<const Course> Courses::take(const Leaves& leaves) {
  std::lock_guard lock(lock_);
  auto found = std::ranges::find_if(all_, [&](const auto& c) { return c->accepts(leaves); });
  if (found == all_.end()) return nullptr;
  std::rotate(all_.begin(), found, found + 1);
  return all_.front();
}

void Courses::move_to_front(const Course& course) {
  std::lock_guard lock(lock_);
  auto found = std::ranges::find(all_, &course, &std::shared_ptr<const Course>::get);
  if (found != all_.end()) std::rotate(all_.begin(), found, found + 1);
}

size_t Courses::size() const {
  std::lock_guard lock(lock_);
  return all_.size();
}

void Courses::add_without_path(const Recording& recording) {
  uint64_t course = PlainNumbers::course_of(recording);
  std::lock_guard lock(lock_);
  auto is_it = [&](const auto& known) { return known.first == course; };
  if (std::ranges::any_of(without_path_, is_it)) return;
  constexpr size_t most_courses = 64;
  if (without_path_.size() == most_courses) without_path_.erase(without_path_.begin());
  without_path_.emplace_back(course, std::make_shared<const PlainNumbers>(recording));
}

std::vector<std::shared_ptr<const PlainNumbers>> Courses::numbers_without_path() const {
  std::vector<std::shared_ptr<const PlainNumbers>> numbers;
  std::lock_guard lock(lock_);
  for (const auto& [course, of_course] : without_path_) numbers.push_back(of_course);
  return numbers;
}

}  // namespace tenon
