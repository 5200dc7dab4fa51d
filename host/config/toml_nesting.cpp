// Bounds the nesting of a TOML text.
//
// Problem. `a.b.c = 1` is a table in a table in a table. The parser bounds the brackets but not the
// dots: a manifest of 64 KiB can nest 30000 deep, and whoever walks or frees such a tree needs as
// many stack frames, more than there are.
//
// Method. One pass that knows comments and the four kinds of strings. It adds up the brackets that
// are open, each with the dots of the key before it, and the dots of the key being read. The tables
// of a header `[a.b]` are counted for the header only, so a tree is at most twice as deep as the
// bound. A text that is not TOML may be counted wrongly, but only behind the place at which the
// parser stops.
//
// Cost: one look at each byte.
#include "config/toml_nesting.h"

#include "config/toml.h"
#include "config/toml_strings.h"

#include <algorithm>
#include <vector>

namespace tenon::config {

namespace {

constexpr size_t deepest = 64;

class NestingScanner {
 public:
  NestingScanner(std::string_view text, std::string_view source) : text_(text), source_(source) {}

  void run() {
    while (at_ < text_.size()) step();
  }

 private:
  void step() {
    switch (text_[at_]) {
      case '#':
        at_ = std::min(text_.find('\n', at_), text_.size());
        return;
      case '"':
      case '\'':
        at_ = end_of_toml_string(text_, at_);
        return;
      case '.':
        ++dots_;
        check();
        break;
      case '[':
      case '{':
        open_.push_back(dots_ + 1);
        depth_ += open_.back();
        dots_ = 0;
        check();
        break;
      case ']':
      case '}':
        close();
        break;
      case ',':
      case '\n':
        dots_ = 0;
        break;
      default:
        break;
    }
    ++at_;
  }

  void close() {
    dots_ = 0;
    if (open_.empty()) return;
    depth_ -= open_.back();
    open_.pop_back();
  }

  void check() const {
    if (depth_ + dots_ <= deepest) return;
    auto line = std::count(text_.begin(), text_.begin() + static_cast<ptrdiff_t>(at_), '\n') + 1;
    throw FileError(
        source_, static_cast<uint32_t>(line), 1,
        message("this is nested too deep: tables and arrays lie in more than {} others", deepest));
  }

  std::string_view text_, source_;
  size_t at_ = 0;
  size_t dots_ = 0, depth_ = 0;
  std::vector<size_t> open_;
};

}  // namespace

void check_toml_nesting(std::string_view text, std::string_view source) {
  NestingScanner(text, source).run();
}

}  // namespace tenon::config
