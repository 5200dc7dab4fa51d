// DLPack capsules. The input is the capsule's numbers and the shape and strides that it points to;
// what a receiver cannot see, such as the size of the memory, is not lied about in pointers.
#include "formats/dlpack.h"
#include "harness/fuzz.h"

#include <algorithm>
#include <cstring>

using namespace tenon;

namespace {

// DLManagedTensorVersioned of the DLPack standard, version 1.
struct Capsule {
  uint32_t major = 1, minor = 0;
  void* context = nullptr;
  void (*deleter)(Capsule*) = nullptr;
  uint64_t flags = 0;
  void* data = nullptr;
  int32_t device_type = 1, device_id = 0;
  int32_t ndim = 0;
  uint8_t code = 2, bits = 32;
  uint16_t lanes = 1;
  int64_t* shape = nullptr;
  int64_t* strides = nullptr;
  uint64_t byte_offset = 0;
};

// The front of an input; zeros once it is used up.
class Numbers {
 public:
  explicit Numbers(std::string_view bytes) : bytes_(bytes) {}
  template <class T>
  T next() {
    T value{};
    size_t n = std::min(sizeof value, bytes_.size());
    std::memcpy(&value, bytes_.data(), n);
    bytes_.remove_prefix(n);
    return value;
  }

 private:
  std::string_view bytes_;
};

struct Sent {
  std::vector<int64_t> shape, strides;
  std::vector<char> memory = std::vector<char>(4096);
  int deleted = 0;
  Capsule capsule;

  explicit Sent(Numbers in) {
    auto present = in.next<uint8_t>();
    capsule.major = 1 + in.next<uint8_t>() / 128;
    capsule.flags = in.next<uint8_t>();
    capsule.device_type = 1 + in.next<uint8_t>() / 64;
    capsule.code = in.next<uint8_t>();
    capsule.bits = in.next<uint8_t>();
    capsule.lanes = static_cast<uint16_t>(1 + in.next<uint8_t>() / 128);
    capsule.ndim = in.next<int8_t>();
    capsule.byte_offset = in.next<uint64_t>() % memory.size();
    size_t rank = static_cast<size_t>(std::max(capsule.ndim, 0));
    for (size_t i = 0; i < rank; ++i) shape.push_back(in.next<int64_t>());
    for (size_t i = 0; i < rank; ++i) strides.push_back(in.next<int64_t>());
    if (present & 1) capsule.data = memory.data();
    if (present & 2) capsule.shape = shape.data();
    if (present & 4) capsule.strides = strides.data();
    if (present & 8)
      capsule.deleter = [](Capsule* self) { ++static_cast<Sent*>(self->context)->deleted; };
    capsule.context = this;
  }
};

void check_tensor(const Tensor& t, const Sent& sent) {
  fuzz::check(t.dim() == sent.capsule.ndim, "the rank changes");
  for (size_t i = 0; i < sent.shape.size(); ++i)
    fuzz::check(t.size(static_cast<int64_t>(i)).guard_int() == sent.shape[i], "a size changes");
  auto* back = static_cast<Capsule*>(to_dlpack(t));
  fuzz::check(back->ndim == sent.capsule.ndim && back->code == sent.capsule.code &&
                  back->bits == sent.capsule.bits &&
                  std::equal(sent.shape.begin(), sent.shape.end(), back->shape),
              "the capsule changes on its way through");
  back->deleter(back);
}

}  // namespace

TENON_FUZZ_TARGET(dlpack) {
  Sent sent{Numbers(input)};
  fuzz::accepts(fuzz::file_errors, [&] { check_tensor(from_dlpack(&sent.capsule), sent); });
  fuzz::check(sent.deleted == (sent.capsule.deleter ? 1 : 0),
              message("the deleter ran {} times", sent.deleted));
}
