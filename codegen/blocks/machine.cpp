#include "machine.h"

#include "check.h"
#include "places.h"

#include <tenon/plugin.hpp>

#include <algorithm>
#include <bit>
#include <cstring>

namespace blocks {

using tenon::plugin::error;
using tenon::plugin::text;

struct Machine::Ready {
  Step step;
  union {
    Apply apply = nullptr;
    JoinedLoop joined;
    Accumulate accumulate;
    AccumulatePlaces places;
  };
  Apply convert = nullptr;                   // between memory and register
  Apply widen = nullptr, combine = nullptr;  // of stores that change what is there
  size_t item = 0;                           // bytes in memory
};

namespace {

int64_t floor_quotient(int64_t a, int64_t b) {
  if (b == 0) b = 1;  // a size that is 0 traps nobody: no element is there to be found
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
int64_t floor_rest(int64_t a, int64_t b) {
  if (b == 0) b = 1;
  return a - floor_quotient(a, b) * b;
}

int64_t integer_at(const void* value, Type type) {
  switch (type) {
    case Type::i64:
      return *static_cast<const int64_t*>(value);
    case Type::i32:
      return *static_cast<const int32_t*>(value);
    case Type::i16:
      return *static_cast<const int16_t*>(value);
    case Type::i8:
      return *static_cast<const int8_t*>(value);
    default:
      return *static_cast<const uint8_t*>(value);
  }
}

}  // namespace

/// One call, on one thread.
struct Machine::Run {
  const Machine& machine;
  const int64_t* symbols;
  int64_t begin, end;
  std::byte* raw;  // memory as it is, of one block, and of another behind it
  void** values;
  int64_t* numbers;
  std::byte** buffers;
  int64_t n = 1;
  uint32_t errors = 0;

  void body(size_t i);
  [[gnu::always_inline]] void step(const Ready& r);
  void divide(const Step& s);
  int64_t lanes(const Step& s) const { return s.is_block ? n : 1; }
  void apply(const Ready& r);
  void join(const Ready& r);
  void check(const Step& s);
  void check_divisor(const Ready& r);
  Places places_of(const Ready& r) const;
  void spread(const Step& s, Places& out) const;
  void count(const Step& s);
  void load(const Ready& r);
  void store(const Ready& r);
  void update(const Ready& r, const Places& p);
  void start(const Step& s);
  void fill(const Step& s);
  void loop(const Step& s);
  void run_lanes(const Step& s, int64_t first, int64_t last);
};

// ---- numbers

void Machine::Run::divide(const Step& s) {
  int64_t a = numbers[s.a], b = numbers[s.b];
  bool is_small = a >= 0 && b > 0 && (a | b) <= UINT32_MAX;  // for which the division is shorter
  auto p = static_cast<uint32_t>(a), q = static_cast<uint32_t>(b);
  if (s.what == Do::floordiv)
    numbers[s.out] = is_small ? p / q : floor_quotient(a, b);
  else
    numbers[s.out] = is_small ? p % q : floor_rest(a, b);
}

// ---- values

void Machine::Run::apply(const Ready& r) {
  const Step& s = r.step;
  auto at = [&](Id v) -> const void* { return v == none ? nullptr : values[v]; };
  r.apply(values[s.out], at(s.a), at(s.b), at(s.c), lanes(s));
}

void Machine::Run::join(const Ready& r) {
  const Step& s = r.step;
  auto at = [&](Id v) { return v == none ? nullptr : static_cast<const float*>(values[v]); };
  const float* operands[] = {at(s.a), at(s.b), at(s.c), at(s.d)};
  elements().run_joined(r.joined, static_cast<float*>(values[s.out]), operands, s.singles,
                        lanes(s));
}

// In range or 0, and the error is set.
void Machine::Run::check(const Step& s) {
  auto* given = static_cast<const int64_t*>(values[s.a]);
  auto* out = static_cast<int64_t*>(values[s.out]);
  auto* mask = s.c == none ? nullptr : static_cast<const uint8_t*>(values[s.c]);
  int64_t size = numbers[s.b];
  bool is_bad = false;
  for (int64_t i = 0; i < lanes(s); ++i) {
    int64_t wrapped = given[i] < 0 ? given[i] + size : given[i];
    bool is_out = static_cast<uint64_t>(wrapped) >= static_cast<uint64_t>(size);
    is_bad |= is_out && (!mask || mask[s.singles & c_is_single ? 0 : i]);
    out[i] = is_out ? 0 : wrapped;
  }
  if (is_bad) errors |= inductor::index_out_of_range;
}

void Machine::Run::check_divisor(const Ready& r) {
  const Step& s = r.step;
  auto* mask = s.c == none ? nullptr : static_cast<const uint8_t*>(values[s.c]);
  bool is_bad = false;
  with_bytes(size_of(s.to), [&](auto t) {
    using T = decltype(t);
    auto* given = static_cast<const T*>(values[s.a]);
    auto* out = static_cast<T*>(values[s.out]);
    for (int64_t i = 0; i < lanes(s); ++i) {
      is_bad |= given[i] == 0 && (!mask || mask[s.singles & c_is_single ? 0 : i]);
      out[i] = given[i];
    }
  });
  if (is_bad) errors |= inductor::division_by_zero;
}

void Machine::Run::fill(const Step& s) {
  with_bytes(size_of(s.to), [&](auto t) {
    using T = decltype(t);
    std::fill_n(static_cast<T*>(values[s.out]), machine.code_.width,
                *static_cast<const T*>(values[s.a]));
  });
}

void Machine::Run::start(const Step& s) {
  int64_t count = s.is_block ? machine.code_.width : 1;
  with_bytes(size_of(s.to), [&](auto t) {
    using T = decltype(t);
    std::fill_n(static_cast<T*>(values[s.out]), count, static_cast<T>(s.number));
  });
}

// ---- memory

Places Machine::Run::places_of(const Ready& r) const {
  const Step& s = r.step;
  auto where = static_cast<Where>(s.code);
  Places out{buffers[s.buffer], where, nullptr, nullptr, lanes(s)};
  if (where == Where::places) {
    out.places = static_cast<const int64_t*>(values[s.b]);
    return out;
  }
  out.memory += numbers[s.a] * static_cast<int64_t>(r.item);
  if (where == Where::tiled) spread(s, out);
  return out;
}

void Machine::Run::spread(const Step& s, Places& out) const {
  const Tile& tile = machine.code_.tiles[s.tile];
  out.n_dims = tile.steps.size();
  int64_t inner = 1;
  for (size_t d = 1; d < out.n_dims; ++d) inner *= out.extents[d] = tile.extents[d];
  out.extents[0] = out.n / inner;
  for (size_t d = 0; d < out.n_dims; ++d) out.steps[d] = numbers[tile.steps[d]];
}

void Machine::Run::count(const Step& s) {
  Places p{nullptr, Where::tiled, nullptr, nullptr, n};
  spread(s, p);
  auto* out = static_cast<int64_t*>(values[s.out]);
  int64_t first = numbers[s.a];
  for_each_run(p, [&](int64_t i, int64_t offset, int64_t step, int64_t count) {
    for (int64_t k = 0; k < count; ++k) out[i + k] = first + offset + k * step;
  });
}

void Machine::Run::load(const Ready& r) {
  const Step& s = r.step;
  void* to = values[s.out];
  int64_t count = lanes(s);
  auto* mask = s.c == none ? nullptr : static_cast<const uint8_t*>(values[s.c]);
  if (mask && s.singles & c_is_single) {
    if (!*mask) {
      std::memset(to, 0, static_cast<size_t>(count) * size_of(s.to));
      return;
    }
    mask = nullptr;
  }
  Places p = places_of(r);
  p.mask = mask;
  if (!r.convert) return gather(p, r.item, to);
  bool is_ready = !mask && p.where <= Where::dense;
  if (!is_ready) gather(p, r.item, raw);
  r.convert(to, is_ready ? p.memory : raw, nullptr, nullptr, count);
}

// What was there, changed: through memory of the thread's own.
void Machine::Run::update(const Ready& r, const Places& p) {
  const Step& s = r.step;
  int64_t room = machine.code_.width * 8;
  std::byte *form = raw, *old = raw + room, *sum = raw + 2 * room;
  gather(p, r.item, r.widen ? form : old);
  if (r.widen) r.widen(old, form, nullptr, nullptr, p.n);
  r.combine(sum, old, values[s.out], nullptr, p.n);
  if (r.convert) r.convert(form, sum, nullptr, nullptr, p.n);
  scatter(p, r.item, r.convert ? form : sum);
}

void Machine::Run::store(const Ready& r) {
  const Step& s = r.step;
  Places p = places_of(r);
  if (r.combine) return update(r, p);
  const void* from = values[s.out];
  bool is_dense = p.where <= Where::dense;
  if (from == p.memory && is_dense) return;  // it was made there
  if (!r.convert) return scatter(p, r.item, from);
  r.convert(is_dense ? p.memory : raw, from, nullptr, nullptr, p.n);
  if (!is_dense) scatter(p, r.item, raw);
}

// ---- loops

void Machine::Run::run_lanes(const Step& s, int64_t first, int64_t last) {
  int64_t extent = numbers[s.a], rows = machine.code_.width / s.inner;
  for (int64_t at = first * rows; at < std::min(extent, last * rows); at += rows) {
    numbers[s.out] = at;
    n = std::min(rows, extent - at) * s.inner;
    body(static_cast<size_t>(s.number));
  }
  n = 1;
}

void Machine::Run::loop(const Step& s) {
  auto inside = static_cast<size_t>(s.number);
  bool has_range = s.what == Do::units;
  int64_t from = has_range ? begin : 0, to = has_range ? end : numbers[s.a];
  for (int64_t i = from; i < to; ++i) {
    numbers[s.out] = i;
    body(inside);
  }
}

inline void Machine::Run::step(const Ready& r) {
  const Step& s = r.step;
  auto wrapped = [](uint64_t x) { return static_cast<int64_t>(x); };
  auto plain = [](int64_t x) { return static_cast<uint64_t>(x); };
  switch (s.what) {
    case Do::add:
      numbers[s.out] = wrapped(plain(numbers[s.a]) + plain(numbers[s.b]));
      return;
    case Do::add_constant:
      numbers[s.out] = wrapped(plain(numbers[s.a]) + plain(s.number));
      return;
    case Do::multiply:
      numbers[s.out] = wrapped(plain(numbers[s.a]) * plain(numbers[s.b]));
      return;
    case Do::multiply_constant:
      numbers[s.out] = wrapped(plain(numbers[s.a]) * plain(s.number));
      return;
    case Do::set_number:
      numbers[s.out] = s.number;
      return;
    case Do::symbol:
      numbers[s.out] = symbols[s.number];
      return;
    case Do::floordiv:
    case Do::mod:
      return divide(s);
    case Do::least:
      numbers[s.out] = std::min(numbers[s.a], numbers[s.b]);
      return;
    case Do::most:
      numbers[s.out] = std::max(numbers[s.a], numbers[s.b]);
      return;
    case Do::apply:
      return apply(r);
    case Do::join:
      return join(r);
    case Do::number_of_value:
      numbers[s.out] = integer_at(values[s.a], s.from);
      return;
    case Do::constant:
      std::memcpy(values[s.out], &s.number, 8);
      return;
    case Do::real:
      std::memcpy(values[s.out], &symbols[s.number], 8);
      return;
    case Do::value_of_number:
      *static_cast<int64_t*>(values[s.out]) = numbers[s.a];
      return;
    case Do::count:
      return count(s);
    case Do::fill:
      return fill(s);
    case Do::copy:
      std::memcpy(values[s.out], values[s.a], static_cast<size_t>(lanes(s)) * size_of(s.to));
      return;
    case Do::check:
      return check(s);
    case Do::check_divisor:
      return check_divisor(r);
    case Do::point:
      values[s.out] = buffers[s.buffer] + numbers[s.a] * static_cast<int64_t>(r.item);
      return;
    case Do::load:
      return load(r);
    case Do::store:
      return store(r);
    case Do::start:
      return start(s);
    case Do::fold:
    case Do::scan:
      return r.accumulate(values[s.out], values[s.a], lanes(s));
    case Do::fold_place:
      return r.places(values[s.out], static_cast<int64_t*>(values[s.c]), values[s.a],
                      static_cast<const int64_t*>(values[s.b]), lanes(s));
    case Do::loop:
    case Do::units:
      return loop(s);
    case Do::lanes:
      return run_lanes(s, 0, INT64_MAX / machine.code_.width);
    case Do::one_block:
      return run_lanes(s, numbers[s.b], numbers[s.b] + 1);
    case Do::unit_lanes:
      return run_lanes(s, begin, end);
  }
}

void Machine::Run::body(size_t i) {
  for (const Ready& r : machine.bodies_[i]) step(r);
}

// ---- the machine

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
  if (s.what == Do::apply) out.apply = elements().primitive(s.code, s.from, s.to, shape);
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
  for (const Body& b : code_.bodies) {
    auto& ready = bodies_.emplace_back();
    for (const Step& s : b.steps) make_ready(s, ready.emplace_back());
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
