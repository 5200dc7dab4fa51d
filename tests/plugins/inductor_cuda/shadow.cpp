// One byte after the other; neighbours mostly tell the same.
#include "shadow.h"

namespace simt {

bool Shadow::is_unordered(const Mark& mark, const Moment& now) {
  if (!mark.is_there) return false;
  if (mark.at.block != now.block) return true;
  bool is_other = mark.is_many || mark.at.thread != now.thread;
  return is_other && mark.at.barriers == now.barriers;
}

const char* Shadow::conflict(const Mark& write, const Mark& read, Use use, const Moment& now) {
  bool meets_write = is_unordered(write, now) && !(use == Use::change && write.is_change);
  if (meets_write)
    return use == Use::read ? "reads what another writes" : "writes what another writes";
  bool meets_read = use != Use::read && is_unordered(read, now);
  return meets_read ? "writes what another reads" : nullptr;
}

void Shadow::note(Mark& write, Mark& read, Use use, const Moment& now) {
  if (use != Use::read) {
    write = {now, true, false, use == Use::change};
    return;
  }
  bool is_same_time =
      read.is_there && read.at.block == now.block && read.at.barriers == now.barriers;
  bool is_many =
      read.is_there && (read.at.block != now.block ||
                        (is_same_time && (read.is_many || read.at.thread != now.thread)));
  read = {now, true, is_many, false};
}

std::string Shadow::use(const void* address, uint64_t bytes, Use use, const Moment& now) {
  if (use == Use::report) return "";
  auto first = reinterpret_cast<uint64_t>(address);
  for (uint64_t at = first; at < first + bytes;) {
    Cell& cell = cells_[at / 8];
    for (; at < first + bytes; ++at) {
      Mark &write = cell.write[at % 8], &read = cell.read[at % 8];
      if (const char* what = conflict(write, read, use, now))
        return std::string("races: thread ") + std::to_string(now.thread) + " " + what + " (" +
               std::to_string(write.is_there ? write.at.thread : read.at.thread) +
               ") without a barrier between them";
      note(write, read, use, now);
      if (at % 8 == 7) {
        ++at;
        break;
      }
    }
  }
  return "";
}

}  // namespace simt
