// A nest in names that do not depend on the program around it.
#include "nest_key.h"

#include <algorithm>
#include <sstream>

namespace loopir {

namespace {

/// A kernel in names that do not depend on the program around it.
class KeyWriter {
 public:
  KeyWriter(Program& program, const KeyParts& parts)
      : program_(program), x_(program.expressions), open_(parts.open) {
    for (Id b : parts.buffers) buffers_.emplace(b, buffers_.size());
    for (const auto& [b, offset] : parts.scratch_offsets)
      buffers_.emplace(b, 1000000 + static_cast<size_t>(offset));
  }

  std::string run(const Nest& nest, const KeyParts& parts) {
    out_ << parts.head;
    for (const auto& [b, number] : buffers_) declared_[number] = program_.buffers[b].dtype;
    for (const auto& [number, dtype] : declared_) out_ << " b" << number << ":" << dtype;
    for (Id b : parts.past_caches) out_ << " past caches b" << buffers_.at(b);
    write_variables("\nouter", nest.kernel.outer);
    out_ << " lanes " << (nest.lanes == none ? "-" : name(nest.lanes));
    for (size_t s = 0; s < nest.kernel.stages.size(); ++s) {
      const Stage& stage = nest.kernel.stages[s];
      write_variables("\nstage", stage.inner);
      Id lanes = nest.lanes_of_stage[s];
      out_ << " lanes " << (lanes == none ? "-" : name(lanes));
      for (const Statement& statement : stage.statements) write(statement);
    }
    return out_.str();
  }

 private:
  void write_variables(const char* what, const Ids& variables) {
    out_ << what;
    for (Id v : variables) {
      variables_.emplace(v, variables_.size());
      std::string extent = v == open_ ? "?" : index(x_.extent_of(v));
      out_ << " " << name(v) << "<" << extent;
    }
  }
  std::string name(Id variable) const { return "i" + std::to_string(variables_.at(variable)); }

  void write(const Statement& s) {
    std::string of = value(s.value);
    std::string at = s.index == none ? "" : index(s.index);
    std::string position = s.position == none ? "" : index(s.position);
    out_ << "\n f" << static_cast<int>(s.fold) << (s.is_scan ? "r" : "") << " s"
         << static_cast<int>(s.store) << " " << (s.folded == none ? -1 : static_cast<int>(s.folded))
         << " " << (s.buffer == none ? -1 : static_cast<int64_t>(buffers_.at(s.buffer))) << "["
         << at << "] " << position << " = " << of;
  }

  // Every value has a line of its own; the number of that line stands for it.
  std::string value(Id v) {
    if (auto known = values_.find(v); known != values_.end()) return known->second;
    const ValueNode n = x_.value_at(v);
    std::string line = std::to_string(n.code) + ":" + std::to_string(n.dtype);
    if (n.code == value_constant || n.code == value_folded || n.code == value_real) {
      line += " " + std::to_string(n.a) + " " + std::to_string(n.b);
    } else {
      if (n.code == value_load) line += " b" + std::to_string(buffers_.at(n.a));
      if (n.code == value_drawn) line += " " + std::to_string(n.a) + " " + std::to_string(n.c);
      Operands read = operands_of(n);
      if (read.index != none) line += " [" + index(read.index) + "]";
      for (Id o : read.values) line += o == none ? " -" : " " + value(o);
    }
    std::string number = "v" + std::to_string(values_.size());
    out_ << "\n" << number << " " << line;
    return values_[v] = number;
  }

  // A long one has a line of its own, as parts may be shared by many.
  std::string index(Id i) {
    constexpr size_t longest = 300;
    if (auto known = long_indices_.find(i); known != long_indices_.end()) return known->second;
    std::string line = index_line(i);
    if (line.size() <= longest) return line;
    std::string number = "x" + std::to_string(long_indices_.size());
    out_ << "\n" << number << " " << line;
    return long_indices_[i] = number;
  }
  std::string index_line(Id i) {
    const IndexNode n = x_.index_at(i);
    if (n.kind == IndexKind::variable) return name(i);
    std::string out = std::to_string(static_cast<int>(n.kind)) + "." + std::to_string(n.number);
    if (n.kind == IndexKind::value) return "(" + value(static_cast<Id>(n.number)) + ")";
    std::vector<std::string> operands;
    for (Id o : n.operands) operands.push_back(index(o));
    if (n.kind != IndexKind::floordiv && n.kind != IndexKind::mod)
      std::sort(operands.begin(), operands.end());
    for (const std::string& o : operands) out += " " + o;
    return "(" + out + ")";
  }

  Program& program_;
  Expressions& x_;
  Id open_;
  std::map<Id, size_t> buffers_, variables_;
  std::map<size_t, int32_t> declared_;
  std::map<Id, std::string> values_, long_indices_;
  std::ostringstream out_;
};

}  // namespace

std::string key_of(Program& program, const Nest& nest, const KeyParts& parts) {
  return KeyWriter(program, parts).run(nest, parts);
}

}  // namespace loopir
