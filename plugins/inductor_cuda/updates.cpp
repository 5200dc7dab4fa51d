// Which copies into inputs need not be.
#include "updates.h"

#include <loopir/lower/update.h>

#include <algorithm>
#include <optional>

namespace inductor_cuda {

using loopir::Access;
using loopir::Buffer;
using loopir::Extern;
using loopir::Id;
using loopir::Kernel;
using loopir::Program;
using loopir::Statement;
using loopir::View;

namespace {

bool holds(const loopir::Ids& list, Id buffer) {
  return std::ranges::find(list, buffer) != list.end();
}

/// Looks at one schedule.
class Takers {
 public:
  Takers(Program& program, const loopir::Schedule& schedule)
      : program_(program), schedule_(schedule) {
    for (const loopir::Item& item : schedule.items)
      accesses_.push_back(loopir::access_of(program, item));
  }

  /// The copy of this item, where the kernel before it can write the input itself.
  std::optional<Update> at(size_t item) const {
    auto* copy = std::get_if<Extern>(&schedule_.items[item]);
    if (!copy || !loopir::copies_into_first(copy->name) || copy->tensors.size() != 2)
      return std::nullopt;
    const View& to = copy->tensors.at(copy->node->args()[0].u.value);
    const View& from = copy->tensors.at(copy->node->args()[1].u.value);
    bool is_whole = is_all(to) && is_all(from) && is_alike(to.buffer, from.buffer);
    if (!is_whole || is_shown(to.buffer) || is_shown(from.buffer)) return std::nullopt;
    std::optional<size_t> writer = writer_of(from.buffer, item);
    if (!writer || !is_last_reader(*writer, to.buffer, item)) return std::nullopt;
    auto* kernel = std::get_if<Kernel>(&schedule_.items[*writer]);
    if (!kernel || !is_by_points(*kernel, from.buffer, to.buffer)) return std::nullopt;
    return Update{from.buffer, to.buffer};
  }

 private:
  const Buffer& buffer(Id b) const { return program_.buffers[b]; }
  bool is_all(const View& v) const {
    const Buffer& b = buffer(v.buffer);
    return program_.expressions.is(v.offset, 0) && v.sizes == b.sizes && v.strides == b.strides;
  }
  bool is_alike(Id input, Id made) const {
    const Buffer &a = buffer(input), &b = buffer(made);
    return a.place == Buffer::Place::input && b.place == Buffer::Place::temporary &&
           a.dtype == b.dtype && a.sizes == b.sizes && a.strides == b.strides;
  }
  // Outputs are read when all has run.
  bool is_shown(Id b) const {
    return std::ranges::any_of(program_.outputs, [&](const loopir::Output& o) {
      return o.kind != loopir::Output::Kind::absent && o.view.buffer == b;
    });
  }
  /// The only item that writes it, before the copy.
  std::optional<size_t> writer_of(Id b, size_t copy) const {
    std::optional<size_t> out;
    for (size_t i = 0; i < accesses_.size(); ++i) {
      if (!holds(accesses_[i].writes, b)) continue;
      if (out || i >= copy) return std::nullopt;
      out = i;
    }
    return out;
  }
  bool is_last_reader(size_t writer, Id input, size_t copy) const {
    for (size_t i = 0; i < accesses_.size(); ++i)
      if (i > writer && i != copy && holds(accesses_[i].reads, input)) return false;
    return true;
  }
  /// Whether each point of the kernel reads the input where it stores the new value, first before
  /// that: a thread loads an element once. What is folded before neither reads it nor stores; of
  /// threads that share a point one stores, and what the others read meanwhile nobody uses.
  bool is_by_points(const Kernel& kernel, Id made, Id input) const {
    // Statements of one point may be threads' of their own.
    if (kernel.outer.empty()) return false;
    Id index = loopir::none;
    bool is_fit = true;
    for (const loopir::Stage& stage : kernel.stages)
      for (const Statement& s : stage.statements) {
        bool is_plain = s.fold == loopir::Fold::none && !s.is_scan && !s.is_scatter &&
                        s.store == loopir::Store::set && s.buffer != loopir::none;
        bool is_folded = s.fold != loopir::Fold::none && !s.is_scan && kernel.stages.size() > 1;
        if (stage.inner.empty() ? !is_plain : !is_folded) return false;
        if (s.buffer == made) index = s.index, is_fit = is_fit && stage.inner.empty();
      }
    if (index == loopir::none) return false;
    bool is_stored = false, is_loaded = false;
    for (const loopir::Stage& stage : kernel.stages)
      for (const Statement& s : stage.statements) {
        loopir::for_each_load(program_.expressions, s.value, [&](const loopir::ValueNode& load) {
          if (load.a != input) return;
          is_fit = is_fit && stage.inner.empty() && load.b == index && (is_loaded || !is_stored);
          is_loaded = true;
        });
        if (s.index != loopir::none)
          loopir::for_each_index_load(
              program_.expressions, s.index,
              [&](const loopir::ValueNode& load) { is_fit = is_fit && load.a != input; });
        is_stored = is_stored || s.buffer == made;
      }
    return is_fit;
  }

  Program& program_;
  const loopir::Schedule& schedule_;
  std::vector<Access> accesses_;  // by item
};

}  // namespace

namespace {

/// The copy as a loop; nothing where the two lie in different ways.
std::optional<loopir::Loop> loop_of(Program& program, const Extern& copy) {
  if (!loopir::copies_into_first(copy.name) || copy.tensors.size() != 2) return std::nullopt;
  const View& to = copy.tensors.at(copy.node->args()[0].u.value);
  const View& from = copy.tensors.at(copy.node->args()[1].u.value);
  const Buffer &a = program.buffers[to.buffer], &b = program.buffers[from.buffer];
  bool is_plain = a.place == Buffer::Place::input && b.place == Buffer::Place::temporary &&
                  a.dtype == b.dtype && to.sizes == from.sizes && to.strides == from.strides;
  if (!is_plain) return std::nullopt;
  loopir::Expressions& x = program.expressions;
  loopir::Loop loop;
  Id place = x.constant(0);
  for (size_t d = 0; d < to.sizes.size(); ++d) {
    if (x.is(to.sizes[d], 1)) continue;
    loop.outer.push_back(x.variable(to.sizes[d]));
    place = x.add(place, x.multiply(loop.outer.back(), to.strides[d]));
  }
  loop.value = x.load(from.buffer, x.add(place, from.offset), b.dtype, loopir::none);
  loop.buffer = to.buffer;
  loop.index = x.add(place, to.offset);
  loop.name = a.name;
  return loop;
}

}  // namespace

std::vector<Id> copy_by_kernels(Program& program, loopir::Schedule& schedule,
                                const loopir::FusionOptions& options) {
  std::vector<loopir::Item> kept;
  std::vector<Id> out;
  program.steps.clear();
  for (loopir::Item& item : schedule.items) {
    auto* copy = std::get_if<Extern>(&item);
    auto loop = copy ? loop_of(program, *copy) : std::nullopt;
    if (!loop) {
      kept.push_back(std::move(item));
      continue;
    }
    out.push_back(loop->buffer);
    program.steps.emplace_back(*std::move(loop));
  }
  for (loopir::Item& item : loopir::fuse(program, options).items) kept.push_back(std::move(item));
  schedule.items = std::move(kept);
  return out;
}

std::vector<Update> take_over_inputs(Program& program, loopir::Schedule& schedule) {
  Takers takers(program, schedule);
  std::vector<Update> out;
  std::vector<loopir::Item> kept;
  std::vector<bool> is_dropped(schedule.items.size(), false);
  for (size_t i = 0; i < schedule.items.size(); ++i) {
    auto update = takers.at(i);
    bool is_new = update && std::ranges::none_of(out, [&](const Update& u) {
                    return u.input == update->input || u.buffer == update->buffer;
                  });
    if (is_new) out.push_back(*update);
    is_dropped[i] = is_new;
  }
  for (size_t i = 0; i < schedule.items.size(); ++i)
    if (!is_dropped[i]) kept.push_back(std::move(schedule.items[i]));
  schedule.items = std::move(kept);
  return out;
}

}  // namespace inductor_cuda
