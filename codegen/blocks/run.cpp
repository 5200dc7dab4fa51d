#include "run.h"

#include <bit>
#include <cstring>

namespace blocks {

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

void Machine::Run::apply_to(const Ready& r, void* out, const void* a, const void* b, const void* c,
                            int64_t count) {
  if (!r.of_host) return r.apply(out, a, b, c, count);
  const void* in[] = {a, b};
  r.of_host(out, in, count, r.step.singles);
}

void Machine::Run::apply(const Ready& r) {
  const Step& s = r.step;
  if (s.rows) return apply_rows(r);
  auto at = [&](Id v) -> const void* { return v == none ? nullptr : values[v]; };
  apply_to(r, values[s.out], at(s.a), at(s.b), at(s.c), lanes(s));
}

// Row by row, with one element of those operands that have one a row.
void Machine::Run::apply_rows(const Ready& r) {
  const Step& s = r.step;
  auto bytes = [](Type t) { return static_cast<int64_t>(size_of(t)); };
  auto *out = static_cast<std::byte*>(values[s.out]), *a = static_cast<std::byte*>(values[s.a]),
       *b = static_cast<std::byte*>(values[s.b]);
  auto step = [&](uint8_t bit) {
    return bytes(s.from) * (s.rows & bit ? 1 : s.singles & bit ? 0 : length);
  };
  int64_t step_a = step(a_is_single), step_b = step(b_is_single), step_out = bytes(s.to) * length;
  for (int64_t i = 0; i < rows; ++i, out += step_out, a += step_a, b += step_b)
    apply_to(r, out, a, b, nullptr, length);
}

void Machine::Run::join(const Ready& r) {
  const Step& s = r.step;
  auto at = [&](Id v) { return v == none ? nullptr : static_cast<const float*>(values[v]); };
  const float* operands[] = {at(s.a), at(s.b), at(s.c), at(s.d)};
  auto* out = static_cast<float*>(values[s.out]);
  if (!s.rows) return elements().run_joined(r.joined, out, operands, s.singles, lanes(s));
  for (int64_t i = 0; i < rows; ++i, out += length) {
    elements().run_joined(r.joined, out, operands, s.singles, length);
    for (unsigned k = 0; k < 4; ++k)
      if (operands[k]) operands[k] += s.rows >> k & 1 ? 1 : s.singles >> k & 1 ? 0 : length;
  }
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

// One element a row becomes a segment of them.
void Machine::Run::expand(const Step& s) {
  with_bytes(size_of(s.to), [&](auto t) {
    using T = decltype(t);
    auto* from = static_cast<const T*>(values[s.a]);
    auto* to = static_cast<T*>(values[s.out]);
    for (int64_t i = 0; i < rows; ++i, to += length) std::fill_n(to, length, from[i]);
  });
}

void Machine::Run::start(const Step& s) {
  int64_t count = lanes(s);
  with_bytes(size_of(s.to), [&](auto t) {
    using T = decltype(t);
    std::fill_n(static_cast<T*>(values[s.out]), count, static_cast<T>(s.number));
  });
}

// ---- folds

void Machine::Run::fold(const Ready& r) {
  const Step& s = r.step;
  if (s.number == 0) return r.accumulate(values[s.out], values[s.a], lanes(s));
  auto* state = static_cast<std::byte*>(values[s.out]);
  auto* from = static_cast<const std::byte*>(values[s.a]);
  size_t segment = static_cast<size_t>(length) * size_of(s.from);
  for (int64_t i = 0; i < rows; ++i, state += size_of(s.to), from += segment)
    r.accumulate(state, from, length);
}

void Machine::Run::fold_place(const Ready& r) {
  const Step& s = r.step;
  auto* best = static_cast<std::byte*>(values[s.out]);
  auto* at = static_cast<int64_t*>(values[s.c]);
  auto* from = static_cast<const std::byte*>(values[s.a]);
  auto* places = static_cast<const int64_t*>(values[s.b]);
  if (s.number == 0) return r.places(best, at, from, places, lanes(s));
  size_t segment = static_cast<size_t>(length) * size_of(s.from);
  for (int64_t i = 0; i < rows; ++i, best += size_of(s.to), from += segment, places += length)
    r.places(best, at + i, from, places, length);
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
  auto extent = [&](int64_t e) { return e < 0 ? std::clamp<int64_t>(numbers[~e], 1, out.n) : e; };
  for (size_t d = 1; d < out.n_dims; ++d) inner *= out.extents[d] = extent(tile.extents[d]);
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

// As many blocks of a row at once as the range has.
void Machine::Run::run_blocks(const Step& s) {
  int64_t of_row = std::max<int64_t>(numbers[s.a], 1);
  for (int64_t i = begin; i < end; i += behind_blocks - first_block) {
    numbers[s.out] = i / of_row;
    first_block = i % of_row, behind_blocks = std::min(of_row, first_block + end - i);
    body(static_cast<size_t>(s.number));
  }
}

// Rows of one block lie behind one another along their variable.
void Machine::Run::run_rows(const Step& s) {
  int64_t most = machine.code_.width / std::max<int64_t>(numbers[s.b], 1);
  int64_t extent = std::max<int64_t>(numbers[s.a], 1);
  for (int64_t i = begin; i < end; i += n) {
    numbers[s.out] = i;
    n = rows = std::min({most, extent - i % extent, end - i});
    body(static_cast<size_t>(s.number));
  }
  n = rows = 1;
}

void Machine::Run::run_segments(const Step& s) {
  length = std::clamp<int64_t>(numbers[s.a], 0, machine.code_.width / rows);
  n = rows * length;
  if (n > 0) body(static_cast<size_t>(s.number));
  n = rows;
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
    case Do::expand:
      return expand(s);
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
      return fold(r);
    case Do::scan:
      return r.accumulate(values[s.out], values[s.a], lanes(s));
    case Do::fold_place:
      return fold_place(r);
    case Do::units:
      if (s.b != none && is_short(s)) return;
      return s.a == none ? loop(s) : run_blocks(s);
    case Do::loop:
      return loop(s);
    case Do::lanes:
      return run_lanes(s, 0, INT64_MAX / machine.code_.width);
    case Do::some_blocks:
      return run_lanes(s, first_block, behind_blocks);
    case Do::first_block:
      return run_lanes(s, 0, 1);
    case Do::unit_lanes:
      return run_lanes(s, begin, end);
    case Do::unit_rows:
      return is_short(s) ? run_rows(s) : void();
    case Do::segments:
      return run_segments(s);
  }
}

void Machine::Run::body(size_t i) {
  const std::vector<Ready>& steps = machine.bodies_[i];
  for (const Ready *r = steps.data(), *end = r + steps.size(); r != end;) {
    if (const Chain* chain = r->chain; chain && chain->is_for(n)) [[unlikely]] {
      chain->run(values, raw, n);
      r += chain->n_steps;
    } else {
      step(*r++);
    }
  }
}

}  // namespace blocks
