// cuDNN, opened at run time.
#pragma once

#include "../api/cudnn.h"
#include "../machine.h"

#include <mutex>
#include <string>
#include <vector>

namespace inductor_cuda {

/// The library on one device, for the whole process. Threads: any.
class DnnLibrary {
 public:
  /// Null where the library is not found or does not start, with the reason. Found out once.
  static const DnnLibrary* of(const Device& device, std::string* why_not = nullptr);

  const dnn::Functions& functions() const { return functions_; }
  dnn::Handle handle() const { return handle_; }
  /// What plans depend on beside their graphs: its version, the device, the driver.
  const std::string& identity() const { return identity_; }
  /// Throws an error that names the call, `subject` and the status.
  void check(dnn::Status status, const char* call, const std::string& subject) const;
  /// A handle that no other thread uses, until it is given back; the device is the thread's own then.
  dnn::Handle lend_handle() const;
  void give_back(dnn::Handle handle) const;
  /// Enqueues a plan on a stream. The handle serves one stream at a time.
  void execute(dnn::Descriptor plan, dnn::Descriptor pack, dnn::Stream stream,
               const std::string& subject) const;

 private:
  explicit DnnLibrary(const Device& device);
  dnn::Handle new_handle() const;

  Device device_;
  dnn::Functions functions_;
  dnn::Handle handle_ = nullptr;
  std::string identity_;
  mutable std::mutex guarding_handle_;
  mutable std::mutex lending_;  // guards idle_
  mutable std::vector<dnn::Handle> idle_;
};

}  // namespace inductor_cuda
