#include "machine.h"

#include "check.h"
#include "run.h"

#include <tenon/plugin.hpp>

#include <algorithm>
#include <array>

namespace blocks {

namespace {

/// The rooms of the thread's memory that code uses, behind one another.
struct Rooms {
  int64_t raw, values, pointers, numbers, buffers, end;

  explicit Rooms(const Code& c) {
    auto aligned = [](int64_t n) { return (n + 63) / 64 * 64; };
    auto words = [](size_t n) { return static_cast<int64_t>(n) * 8; };
    raw = aligned(c.row_bytes);
    values = raw + 3 * aligned(c.width * 8);
    // Behind the last register there is room for a block, whatever a register is taken for.
    pointers = values + aligned(c.value_bytes) + aligned(c.width * 8);
    numbers = pointers + words(c.offsets.size());
    buffers = numbers + words(c.n_numbers);
    end = buffers + words(c.n_buffers + c.scratch_offsets.size());
  }
};

size_t memory_size(int32_t dtype) {
  size_t bytes = size_of(type_of(dtype));
  return dtype == TN_F16 || dtype == TN_BF16 ? 2 : bytes;
}

uint16_t combining(loopir::Store store) {
  switch (store) {
    case loopir::Store::add:
      return TN_F_ADD;
    case loopir::Store::multiply:
      return TN_F_MUL;
    case loopir::Store::minimum:
      return TN_F_MIN;
    default:
      return TN_F_MAX;
  }
}

/// Whether elements/ has a loop over vectors for the primitive: the others call the C library for
/// each element, which takes 5 to 40 times as long as the host's loops.
bool has_own_loop(uint16_t code, Type t) {
  constexpr std::array of_f32{TN_F_EXP,   TN_F_EXP2, TN_F_EXPM1, TN_F_LOG,
                              TN_F_LOG1P, TN_F_TANH, TN_F_ERF,   TN_F_SIGMOID};
  constexpr std::array calls{TN_F_FLOORDIV, TN_F_FMOD, TN_F_MOD, TN_F_POW, TN_F_ATAN2};
  if (t != Type::f32 && t != Type::f64) return true;
  bool is_function = (code >= TN_F_EXP && code < TN_F_FLOOR) || std::ranges::count(calls, code);
  return !is_function || (t == Type::f32 && std::ranges::count(of_f32, code));
}

tn_primitive_fn loop_of_host(const Step& s) {
  static const auto* host_loops = static_cast<const tn_primitives_api*>(
      tenon::plugin::host->extension(TN_PRIMITIVES_ID, TN_PRIMITIVES_VERSION));
  if (!host_loops || has_own_loop(s.code, s.from)) return nullptr;
  return host_loops->find(s.code, s.from == Type::f32 ? TN_F32 : TN_F64);
}

}  // namespace

int64_t Code::scratch_bytes() const { return Rooms(*this).end; }

void Machine::make_ready(const Step& s, Ready& out) const {
  out.step = s;
  if (is_memory(s)) {
    expect(s.buffer < code_.n_buffers + code_.scratch_offsets.size(), "an unknown buffer");
    out.item = memory_size(s.dtype);
    bool reads = s.what == Do::load;
    const Elements& e = elements();
    if (s.dtype == TN_F16) out.convert = reads ? e.from_half : e.to_half;
    if (s.dtype == TN_BF16) out.convert = reads ? e.from_bf16 : e.to_bf16;
    if (s.dtype == TN_BOOL && reads) out.convert = e.to_truth;
    auto store = static_cast<loopir::Store>(s.number);
    if (s.what != Do::store || store == loopir::Store::set) return;
    out.widen = s.dtype == TN_F16 ? e.from_half : s.dtype == TN_BF16 ? e.from_bf16 : nullptr;
    out.combine = e.primitive(combining(store), s.to, s.to, Shape::blocks);
    expect(out.combine, "an unknown way to store");
    return;
  }
  auto fold = static_cast<Fold>(s.code);
  Shape shape = s.singles & a_is_single   ? Shape::first_single
                : s.singles & b_is_single ? Shape::second_single
                                          : Shape::blocks;
  if (s.what == Do::apply) {
    out.apply = elements().primitive(s.code, s.from, s.to, shape);
    out.of_host = loop_of_host(s);
  }
  if (s.what == Do::join) out.joined = elements().joined(s.code, s.then, s.is_second, s.singles);
  if (s.what == Do::fold) out.accumulate = elements().fold(fold, s.from, s.to, s.by_lanes);
  if (s.what == Do::scan) out.accumulate = elements().scan(fold, s.from, s.by_lanes);
  if (s.what == Do::fold_place) out.places = elements().places(fold, s.from, s.by_lanes);
  bool calls =
      s.what == Do::apply || s.what == Do::join || s.what == Do::fold || s.what == Do::scan;
  expect(!calls || out.apply, "an unknown primitive");
}

Machine::Machine(Code code) : code_(std::move(code)) {
  check_code(code_);
  ChainMaker chains(code_);
  for (size_t b = 0; b < code_.bodies.size(); ++b) make_body(chains.chained(b));
}

void Machine::make_body(Chained body) {
  std::vector<Ready>& ready = bodies_.emplace_back();
  for (const Step& s : body.steps) make_ready(s, ready.emplace_back());
  for (auto& [first, chain] : body.chains) {
    chains_.push_back(std::make_unique<Chain>(std::move(chain)));
    ready[first].chain = chains_.back().get();
  }
}

Machine::~Machine() = default;

uint32_t Machine::run(void* const* buffers, const int64_t* symbols, int64_t begin, int64_t end,
                      void* scratch) const {
  Rooms rooms(code_);
  auto* memory = static_cast<std::byte*>(scratch);
  Run run{*this,
          symbols,
          begin,
          end,
          memory + rooms.raw,
          reinterpret_cast<void**>(memory + rooms.pointers),
          reinterpret_cast<int64_t*>(memory + rooms.numbers),
          reinterpret_cast<std::byte**>(memory + rooms.buffers)};
  for (size_t i = 0; i < code_.offsets.size(); ++i)
    run.values[i] = memory + rooms.values + code_.offsets[i];
  for (uint32_t i = 0; i < code_.n_buffers; ++i)
    run.buffers[i] = static_cast<std::byte*>(buffers[i]);
  for (size_t i = 0; i < code_.scratch_offsets.size(); ++i)
    run.buffers[code_.n_buffers + i] = memory + code_.scratch_offsets[i];
  run.body(0);
  return run.errors;
}

}  // namespace blocks
