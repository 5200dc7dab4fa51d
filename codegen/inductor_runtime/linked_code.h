// Object code in the memory of this process.
#pragma once

#include "kernel_interface.h"

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace inductor {

/// Linked code; the memory is freed with it. Threads: any.
class LinkedCode {
 public:
  /// Takes relocatable objects of x86-64, which may call each other and runtime_symbols(). Throws
  /// `error` (TN_DATA_LOSS) where the bytes are not such code, TN_FAILED_PRECONDITION where the
  /// system allows no new code.
  explicit LinkedCode(std::vector<std::string> objects);
  ~LinkedCode();
  LinkedCode(const LinkedCode&) = delete;
  LinkedCode& operator=(const LinkedCode&) = delete;

  bool has(const std::string& symbol) const { return functions_.contains(symbol); }
  /// Throws `error` (TN_DATA_LOSS) where there is no such function.
  KernelFunction find(const std::string& symbol) const;
  /// Its bytes; empty where there is no such function.
  std::span<const std::byte> code_of(const std::string& symbol) const;
  /// What it was made of.
  const std::vector<std::string>& objects() const { return objects_; }

 private:
  std::vector<std::string> objects_;
  std::map<std::string, std::span<const std::byte>, std::less<>> functions_;
  void* memory_ = nullptr;
  size_t bytes_ = 0;
};

struct NamedKernel {
  std::string name;
  std::span<const std::byte> code;
};

/// A kernel's code, which it keeps: a function, or a body that is interpreted.
struct KernelCode {
  KernelFunction run = nullptr;
  std::shared_ptr<const LinkedCode> code;
  std::shared_ptr<const KernelBody> body;

  uint32_t operator()(void* const* buffers, const int64_t* symbols, int64_t begin, int64_t end,
                      void* scratch) const {
    return run ? run(buffers, symbols, begin, end, scratch)
               : body->run(buffers, symbols, begin, end, scratch);
  }
};

}  // namespace inductor
