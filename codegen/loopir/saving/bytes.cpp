#include "bytes.h"

#include <algorithm>

namespace loopir {

namespace {

size_t operands_of(IndexKind kind, size_t found) {
  switch (kind) {
    case IndexKind::constant:
    case IndexKind::symbol:
      return 0;
    case IndexKind::sum:
    case IndexKind::product:
      return found;
    default:
      return 2;
  }
}

}  // namespace

// What is evaluated only when code is made, loop variables and values, is not part of an index that
// a call evaluates.
Id Writer::number_of(Id id) {
  if (id == none) return none;
  if (auto known = numbers_.find(id); known != numbers_.end()) return known->second;
  IndexNode node = pool_.index_at(id);
  if (node.kind == IndexKind::variable || node.kind == IndexKind::value)
    throw tenon::plugin::error(TN_INTERNAL, "saved code: an index depends on data");
  for (Id& operand : node.operands) operand = number_of(operand);
  nodes_.push_back(std::move(node));
  return numbers_[id] = static_cast<Id>(nodes_.size() - 1);
}

std::string Writer::take() {
  std::string body = std::move(body_);
  body_.clear();
  put(static_cast<uint64_t>(nodes_.size()));
  for (IndexNode& node : nodes_) {
    put(static_cast<uint8_t>(node.kind));
    put(node.number);
    (*this)(node.operands);
  }
  return std::move(body_) + body;
}

Reader::Reader(std::string_view bytes) : rest_(bytes) {
  constexpr size_t deepest = 1000;  // evaluation recurs
  std::vector<size_t> depths;
  for (size_t n = count(); n > 0; --n) {
    IndexNode node{};
    choice(node.kind, IndexKind::max);
    get(node.number);
    (*this)(node.operands);
    if (node.kind == IndexKind::variable || node.kind == IndexKind::value)
      fail("an index depends on data");
    if (node.operands.size() != operands_of(node.kind, node.operands.size()))
      fail("an index with the wrong number of operands");
    size_t depth = 0;
    for (Id operand : node.operands) {
      if (operand >= nodes_.size()) fail("an unknown index");
      depth = std::max(depth, depths[operand] + 1);
    }
    if (depth > deepest) fail("an index of too many parts");
    depths.push_back(depth);
    nodes_.push_back(std::move(node));
  }
  n_indices_ = nodes_.size();
}

void Reader::expressions(Expressions& x) {
  std::vector<Symbol> symbols;
  (*this)(symbols);
  for (const IndexNode& node : nodes_)
    if (node.kind == IndexKind::symbol &&
        (node.number < 0 || static_cast<size_t>(node.number) >= symbols.size()))
      fail("an unknown symbol");
  x = Expressions(std::move(nodes_));
  x.symbols = std::move(symbols);
}

void Reader::finish() const {
  if (!rest_.empty()) fail("bytes after the end");
}

void Reader::fail(const char* what) {
  throw tenon::plugin::error(TN_DATA_LOSS, std::string("saved code: ") + what);
}

}  // namespace loopir
