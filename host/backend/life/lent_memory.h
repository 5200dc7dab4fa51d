// Memory that a plugin lends to tensors: its code must stay until the memory has been given back.
#pragma once

#include "backend/life/lifetime.h"

#include <tenon/tensor.h>

#include <memory>

namespace tenon {

/// Made before the tensor, so that nothing can fail once the tensor owns the memory.
class LentMemory {
 public:
  /// `deleter` is the code that gives the memory back. Memory that no plugin gives back needs no
  /// keeping.
  explicit LentMemory(const void* deleter);
  ~LentMemory();
  LentMemory(const LentMemory&) = delete;
  LentMemory& operator=(const LentMemory&) = delete;

  /// From here on the memory of the tensor keeps the plugin ready.
  void keep_with(const Tensor& tensor);

 private:
  struct Record;
  static void give_back(void* record);
  std::unique_ptr<Record> record_;
};

}  // namespace tenon
