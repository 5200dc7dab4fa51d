// cuBLASLt, opened at run time.
#pragma once

#include "../api/cublaslt.h"
#include "../machine.h"

#include <string>

namespace inductor_cuda {

/// The library on one device, for the whole process. Threads: any.
class Library {
 public:
  /// Null where the library is not found or does not start, with the reason. Found out once.
  static const Library* of(const Device& device, std::string* why_not);

  const lt::Functions& functions() const { return functions_; }
  lt::Handle handle() const { return handle_; }
  /// Throws an error that names the call, `subject` and the status.
  void check(lt::Status status, const char* call, const std::string& subject) const;
  std::string name_of(lt::Status status) const;

 private:
  explicit Library(const Device& device);

  lt::Functions functions_;
  lt::Handle handle_ = nullptr;
};

/// The driver's handle of a stream; makes its device the calling thread's.
lt::Stream native_stream(const Device& device, tn_stream* stream);

}  // namespace inductor_cuda
