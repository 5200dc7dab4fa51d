// Code of the architecture "simt": made by LLVM, loaded into this process.
#pragma once

#include <inductor_cuda/simt.h>

#include <memory>
#include <string>
#include <string_view>

namespace simt {

/// Makes the parts of inductor_cuda give images for "simt". With the variable SIMT_CHECKS_PTX each
/// kernel becomes PTX for sm_75, 80 and 90 as well, and that is checked. SIMT_KEEPS_PTX names a file to
/// which that for sm_90 is added.
void make_images();

/// An image in memory. Threads: any.
class LoadedImage {
 public:
  /// Throws std::runtime_error for what is no image.
  explicit LoadedImage(std::string_view bytes);
  ~LoadedImage();
  /// Null where it has no such kernel.
  SimtKernel kernel(const std::string& name) const;
  const SimtFacts* facts(const std::string& name) const;

 private:
  void* find(const std::string& symbol) const;
  struct Library;
  std::unique_ptr<Library> library_;
};

}  // namespace simt
