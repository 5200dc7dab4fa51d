// A walk over the frames of the thread, as the first phase of throwing makes it.
//
// Problem: C++ does not say whether a function may throw to its callers. Model: the tables that
// unwinding reads do. A function with handlers or clean-ups lists the calls that may throw, with what
// is to be done then; one that is missing there ends the process, which is how g++ compiles noexcept.
// Method: from the innermost frame on, the first one that has a handler for the call, or misses it.
// Format: "C++ ABI for Itanium: Exception Handling", level II; LSB, "DWARF extensions".
#include "capture/errors/may_throw.h"

#include <unwind.h>

#include <cstdint>
#include <cstring>

namespace tenon {

namespace {

enum class At { passes, is_caught, ends_process };

constexpr uint8_t omitted = 0xff;

/// Reads such a table.
struct Reader {
  const uint8_t* at;

  uint8_t byte() { return *at++; }
  uint64_t uleb() {
    uint64_t value = 0;
    uint8_t read = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      read = byte();
      value |= static_cast<uint64_t>(read & 0x7f) << shift;
      if (!(read & 0x80)) break;
    }
    return value;
  }
  template <class T>
  uint64_t fixed() {
    T value;
    std::memcpy(&value, at, sizeof value);
    at += sizeof value;
    return static_cast<uint64_t>(value);
  }
  uint64_t encoded(uint8_t encoding) {
    switch (encoding & 0x07) {
      case 2:
        return fixed<uint16_t>();
      case 3:
        return fixed<uint32_t>();
      case 4:
        return fixed<uint64_t>();
      case 1:
        return uleb();
      default:
        return fixed<uintptr_t>();
    }
  }
};

// A chain of signed numbers, two each: what is caught, 0 for a clean-up, and the way to the next.
bool has_handler(const uint8_t* action) {
  auto small = [](uint8_t b) { return static_cast<int64_t>(b & 0x7f) - ((b & 0x40) ? 0x80 : 0); };
  for (Reader read{action};;) {
    if (*read.at != 0) return true;
    ++read.at;
    int64_t next = small(*read.at);
    if (next == 0) return false;
    read.at += next;
  }
}

At at_call(const uint8_t* table, uint64_t offset) {
  Reader read{table};
  if (uint8_t encoding = read.byte(); encoding != omitted) read.encoded(encoding);
  if (read.byte() != omitted) read.uleb();  // where the types of handlers stand
  uint8_t encoding = read.byte();
  const uint64_t size = read.uleb();
  const uint8_t* actions = read.at + size;
  while (read.at < actions) {
    uint64_t first = read.encoded(encoding), length = read.encoded(encoding);
    uint64_t pad = read.encoded(encoding), action = read.uleb();
    if (offset < first) break;
    if (offset >= first + length) continue;
    bool handles = pad != 0 && action != 0 && has_handler(actions + action - 1);
    return handles ? At::is_caught : At::passes;
  }
  return At::ends_process;
}

_Unwind_Reason_Code look_at_frame(_Unwind_Context* frame, void* out) {
  const auto* table = reinterpret_cast<const uint8_t*>(_Unwind_GetLanguageSpecificData(frame));
  if (!table) return _URC_NO_REASON;
  int is_before = 0;
  uintptr_t ip = _Unwind_GetIPInfo(frame, &is_before);
  if (!is_before) --ip;  // of the call, which the address is behind
  At at = at_call(table, ip - _Unwind_GetRegionStart(frame));
  if (at == At::passes) return _URC_NO_REASON;
  *static_cast<At*>(out) = at;
  return _URC_NORMAL_STOP;
}

}  // namespace

bool is_exception_caught() {
  At at = At::passes;
  _Unwind_Backtrace(look_at_frame, &at);
  return at != At::ends_process;
}

}  // namespace tenon
