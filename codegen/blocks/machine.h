// Runs code for blocks.
#pragma once

#include "chains.h"
#include "code.h"

#include <inductor_runtime/kernel_interface.h>

#include <memory>

namespace blocks {

/// Throws `error` (TN_DATA_LOSS) unless every register, buffer and body that the code names is
/// there, and every primitive: code may come from a file.
class Machine final : public inductor::KernelBody {
 public:
  explicit Machine(Code code);
  ~Machine() override;
  uint32_t run(void* const* buffers, const int64_t* symbols, int64_t begin, int64_t end,
               void* scratch) const override;
  const Code& code() const { return code_; }

 private:
  struct Run;
  struct Ready;  // a step with the functions that it calls
  void make_ready(const Step& s, Ready& out) const;
  void make_body(Chained body);

  Code code_;
  std::vector<std::vector<Ready>> bodies_;
  std::vector<std::unique_ptr<Chain>> chains_;
};

}  // namespace blocks
