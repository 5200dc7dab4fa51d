#include "extern_call.h"

#include "call_sizes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace loopir {

using tenon::plugin::error;
using tenon::plugin::tensor;

ExternCall::ExternCall(const Extern& op)
    : op_(op.op),
      name_(op.name),
      results_(op.results.begin(), op.results.end()),
      looks_by_place_(op.looks_by_place) {
  std::map<Id, uint32_t> positions;
  for (const auto& [value, view] : op.tensors) {
    positions[value] = static_cast<uint32_t>(views_.size());
    views_.push_back(view);
  }
  for (size_t i = 0; i < op.node->args().size(); ++i) add(op.node->args()[i], op, i, positions);
  make_args();
}

void ExternCall::add(const tn_arg& a, const Extern& op, size_t position,
                     const std::map<Id, uint32_t>& views) {
  Argument& out = arguments_.emplace_back();
  out.kind = a.kind;
  if (auto real = op.reals.find(position); real != op.reals.end()) {
    out.kind = TN_ARG_SYMFLOAT;
    out.plain[0] = real->second;
    return;
  }
  auto elements = [&](const auto* list) { return std::vector(list, list + a.count); };
  auto text = [](tn_str s) { return std::string(s.data, s.size); };
  switch (a.kind) {
    case TN_ARG_VALUE:
      if (auto number = op.numbers.find(a.u.value); number != op.numbers.end()) {
        out.kind = TN_ARG_SYMINT;
        out.symbolic = {number->second};
      } else {
        out.views = {views.at(a.u.value)};
      }
      return;
    case TN_ARG_VALUES:
      for (uint32_t v : elements(a.u.values))
        out.views.push_back(v == TN_NO_VALUE ? v : views.at(v));
      return;
    case TN_ARG_INTS:
      out.ints = elements(a.u.ints);
      return;
    case TN_ARG_FLOATS:
      out.floats = elements(a.u.floats);
      return;
    case TN_ARG_BOOLS:
      out.bools = elements(a.u.bools);
      return;
    case TN_ARG_STRING:
      out.texts = {text(a.u.str)};
      return;
    case TN_ARG_STRINGS:
      for (tn_str s : elements(a.u.strings)) out.texts.push_back(text(s));
      return;
    case TN_ARG_SYMINT:
    case TN_ARG_SYMINTS:
      out.symbolic = op.symbolic[position];
      return;
    default:
      static_assert(sizeof out.plain == sizeof a.u);
      std::memcpy(out.plain, &a.u, sizeof out.plain);
  }
}

tn_arg ExternCall::pointing_into(const Argument& a) {
  tn_arg out{};
  out.kind = a.kind;
  auto list = [&](const auto& items, auto& to) {
    out.count = static_cast<uint32_t>(items.size());
    to = items.data();
  };
  switch (a.kind) {
    case TN_ARG_VALUE:
      out.u.value = a.views[0];
      break;
    case TN_ARG_VALUES:
      list(a.views, out.u.values);
      break;
    case TN_ARG_INTS:
      list(a.ints, out.u.ints);
      break;
    case TN_ARG_FLOATS:
      list(a.floats, out.u.floats);
      break;
    case TN_ARG_BOOLS:
      list(a.bools, out.u.bools);
      break;
    case TN_ARG_STRING:
      out.u.str = {a.texts[0].data(), a.texts[0].size()};
      break;
    case TN_ARG_STRINGS: {
      std::vector<tn_str>& heads = heads_.emplace_back();
      for (const std::string& t : a.texts) heads.push_back({t.data(), t.size()});
      list(heads, out.u.strings);
      break;
    }
    case TN_ARG_SYMINT:  // of each call
    case TN_ARG_SYMINTS:
    case TN_ARG_SYMFLOAT:
      break;
    default:
      std::memcpy(&out.u, a.plain, sizeof a.plain);
  }
  return out;
}

// The arguments stay where they are from here on: vectors keep their memory when heads_ grows.
void ExternCall::make_args() {
  for (const Argument& a : arguments_) args_.push_back(pointing_into(a));
}

void ExternCall::link(const Program& program) {
  size_t n_buffers = program.buffers.size();
  size_t n_numbers = program.expressions.symbols.size() + program.reals.size();
  auto expect = [](bool holds) {
    if (!holds) throw error(TN_DATA_LOSS, "saved code: malformed arguments of an op");
  };
  for (Id r : results_) expect(r == none || r < n_buffers);
  for (const View& view : views_) expect(view.buffer != none);
  for (const Argument& a : arguments_) {
    expect(a.kind < TN_ARG_GRAPH || a.kind == TN_ARG_SYMFLOAT);
    expect(a.kind != TN_ARG_SYMFLOAT || static_cast<uint64_t>(a.plain[0]) < n_numbers);
    expect(a.kind != TN_ARG_VALUE || a.views.size() == 1);
    expect(a.kind != TN_ARG_STRING || a.texts.size() == 1);
    expect(a.kind != TN_ARG_SYMINT || a.symbolic.size() == 1);
    for (uint32_t v : a.views)
      expect(v < views_.size() || (v == TN_NO_VALUE && a.kind == TN_ARG_VALUES));
    for (Id i : a.symbolic) expect(i != none);
  }
  op_ = tenon::plugin::op(name_);
  if (op_ == TN_NO_VALUE)
    throw error(TN_NOT_FOUND, "the code calls " + name_ +
                                  ", an op that this program does not have; load the library or "
                                  "plugin that defines it first");
  make_args();
}

void ExternCall::check_result(size_t r, const tn_tensor* t, int32_t dtype,
                              std::span<const int64_t> sizes) const {
  bool fits = t && t->dtype == dtype && t->ndim == static_cast<int32_t>(sizes.size()) &&
              std::equal(sizes.begin(), sizes.end(), t->sizes);
  if (!fits)
    throw error(TN_INTERNAL,
                name_ + ": result " + std::to_string(r) +
                    (t ? " has another dtype or other sizes than its shape function says"
                       : " is missing, though its shape function promises it") +
                    "; this is a bug of what runs the op");
}

tensor ExternCall::as_promised(size_t r, tensor found, const Program& program,
                               std::span<const int64_t> table, bool is_lent,
                               const CallPlace& place) const {
  const Buffer& info = program.buffers[results_[r]];
  const Expressions& x = program.expressions;
  CallSizes all_sizes(x, info.sizes, table), all_strides(x, info.strides, table);
  std::span<const int64_t> sizes = all_sizes.span(), strides = all_strides.span();
  check_result(r, found.get(), info.dtype, sizes);
  bool is_kept = !is_lent;
  for (size_t d = 0; is_kept && d < sizes.size(); ++d)
    is_kept = sizes[d] == 1 || found->strides[d] == strides[d];
  if (is_kept) return found;
  tensor copy = tensor::strided(sizes, strides, info.dtype, place.device_type, place.device_index);
  copy.copy_from(found.get(), place.stream);
  return copy;
}

namespace {

bool is_of_the_call(const tn_arg& a) {
  return a.kind == TN_ARG_SYMINT || a.kind == TN_ARG_SYMINTS || a.kind == TN_ARG_SYMFLOAT;
}

// Writes the numbers of a call into `args`; returns what those then point to.
std::vector<std::vector<int64_t>> fill_in(std::vector<tn_arg>& args, const auto& arguments,
                                          const Expressions& x, std::span<const int64_t> table) {
  std::vector<std::vector<int64_t>> sizes(args.size());
  for (size_t i = 0; i < args.size(); ++i) {
    for (Id id : arguments[i].symbolic) sizes[i].push_back(x.evaluate(id, table));
    if (args[i].kind == TN_ARG_SYMINT) {
      args[i].kind = TN_ARG_INT;
      args[i].u.i = sizes[i][0];
    } else if (args[i].kind == TN_ARG_SYMINTS) {
      args[i].kind = TN_ARG_INTS;
      args[i].count = static_cast<uint32_t>(sizes[i].size());
      args[i].u.ints = sizes[i].data();
    } else if (args[i].kind == TN_ARG_SYMFLOAT) {
      args[i].kind = TN_ARG_FLOAT;
      args[i].u.f = std::bit_cast<double>(table[static_cast<size_t>(arguments[i].plain[0])]);
    }
  }
  return sizes;
}

}  // namespace

// Where no argument is a number of the call, they are given as they are.
std::vector<tensor> ExternCall::run(const Expressions& x, std::span<const int64_t> table,
                                    const TensorOf& tensor_of) const {
  // Usual numbers of operands lie on the stack.
  constexpr size_t usual = 8;
  size_t n = views_.size() + results_.size();
  std::array<tn_tensor*, usual> few{};
  std::vector<tn_tensor*> many(n > usual ? n : 0);
  tn_tensor** values = n > usual ? many.data() : few.data();
  for (size_t i = 0; i < views_.size(); ++i) values[i] = tensor_of(views_[i]);
  std::span<tn_tensor*> out(values + views_.size(), results_.size());
  if (std::ranges::none_of(args_, is_of_the_call)) {
    tenon::plugin::run_op(op_, args_, values, out);
  } else {
    std::vector<tn_arg> args = args_;
    std::vector<std::vector<int64_t>> sizes = fill_in(args, arguments_, x, table);
    tenon::plugin::run_op(op_, args, values, out);
  }
  return {out.begin(), out.end()};
}

}  // namespace loopir
