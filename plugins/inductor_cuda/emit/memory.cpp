// Elements in memory. Several neighbours are one access of 32-bit words, which are taken apart by
// shifts: LLVM's vectors of bytes and halves would go through memory on some targets.
#include "memory.h"

#include <lanes/lane_ops.h>
#include <lanes/memory_form.h>

namespace inductor_cuda {

using lanes::ToBf16;
using llvm::Value;

namespace {

constexpr unsigned bits_of_word = 32;

llvm::Type* word_type(Frame& f, unsigned bytes) {
  if (bytes < 4) return f.b.getIntNTy(8 * bytes);
  return bytes == 4 ? static_cast<llvm::Type*>(f.b.getInt32Ty())
                    : llvm::FixedVectorType::get(f.b.getInt32Ty(), bytes / 4);
}

ToBf16 to_bf16(const Frame& f) {
  return f.target.converts_to_bf16() ? ToBf16::by_instruction : ToBf16::by_bits;
}

bool is_wide(int32_t dtype) { return loopir::item_size(dtype) >= 4; }

/// The i-th element of `bits` among words.
Value* element_of(Frame& f, Value* words, unsigned i, unsigned bits) {
  unsigned per_word = bits_of_word / bits;
  Value* word = words->getType()->isVectorTy()
                    ? f.b.CreateExtractElement(words, uint64_t{i / per_word})
                    : words;
  return f.b.CreateTrunc(f.b.CreateLShr(word, uint64_t{i % per_word} * bits), f.b.getIntNTy(bits));
}

Value* packed(Frame& f, std::span<Value* const> elements, unsigned bits) {
  unsigned bytes = static_cast<unsigned>(elements.size()) * bits / 8;
  llvm::Type* type = word_type(f, bytes);
  llvm::Type* word = type->getScalarType();
  unsigned per_word = word->getIntegerBitWidth() / bits;
  Value* out = type->isVectorTy() ? static_cast<Value*>(llvm::PoisonValue::get(type)) : nullptr;
  for (unsigned w = 0; w < elements.size() / per_word; ++w) {
    Value* sum = nullptr;
    for (unsigned i = 0; i < per_word; ++i) {
      Value* part = f.b.CreateZExt(elements[w * per_word + i], word);
      if (i) part = f.b.CreateShl(part, uint64_t{i} * bits);
      sum = sum ? f.b.CreateOr(sum, part) : part;
    }
    out = out ? f.b.CreateInsertElement(out, sum, uint64_t{w}) : sum;
  }
  return out;
}

Value* packed_as(Frame& f, int32_t dtype, std::span<Value* const> elements) {
  if (!is_wide(dtype))
    return packed(f, elements, 8 * static_cast<unsigned>(loopir::item_size(dtype)));
  auto n = static_cast<unsigned>(elements.size());
  Value* out = llvm::PoisonValue::get(llvm::FixedVectorType::get(elements[0]->getType(), n));
  for (unsigned i = 0; i < n; ++i) out = f.b.CreateInsertElement(out, elements[i], uint64_t{i});
  return out;
}

Value* to_memory(Frame& f, Value* value, int32_t dtype) {
  return lanes::to_memory(f.b, value, dtype, to_bf16(f));
}

/// Two neighbours of 16 bits as one word.
Value* pair_of(Frame& f, int32_t dtype, Value* low, Value* high) {
  bool is_moved = lanes::bits_as_loaded(low, dtype) || lanes::bits_as_loaded(high, dtype);
  Value* made = is_moved ? nullptr : f.target.rounded_pair(f.b, dtype, low, high);
  if (made) return made;
  Value* elements[] = {to_memory(f, low, dtype), to_memory(f, high, dtype)};
  return packed(f, elements, 16);
}

Value* narrow_words(Frame& f, int32_t dtype, std::span<Value* const> values) {
  std::vector<Value*> pairs;
  for (size_t i = 0; i < values.size(); i += 2)
    pairs.push_back(pair_of(f, dtype, values[i], values[i + 1]));
  return packed(f, pairs, bits_of_word);
}

}  // namespace

Value* place_of(Frame& f, Id buffer, Value* element, unsigned bytes, MemoryUse use) {
  llvm::Type* type = lanes::memory_type(f.b.getContext(), f.program.buffers[buffer].dtype);
  bool is_scratch = f.program.buffers[buffer].place == loopir::Buffer::Place::scratch;
  // Rows of neighbouring units lie beside each other, element by element.
  if (is_scratch && !f.plan.scratch_is_shared)
    element = f.b.CreateAdd(f.b.CreateMul(element, f.units), f.unit);
  Value* place = f.b.CreateGEP(type, f.buffers.at(buffer), element);
  bool is_shared = is_scratch && f.plan.scratch_is_shared;
  return is_shared ? f.target.shared(f.b, place, bytes, use)
                   : f.target.global(f.b, place, bytes, use);
}

namespace {

/// What `read` gives, or all bits 0.
template <class F>
Value* where(Frame& f, Value* mask, llvm::Type* type, F&& read) {
  if (!mask) return read();
  llvm::BasicBlock* before = f.b.GetInsertBlock();
  llvm::BasicBlock *inside = f.block("read"), *after = f.block("end");
  f.b.CreateCondBr(mask, inside, after);
  f.b.SetInsertPoint(inside);
  Value* loaded = read();
  f.b.CreateBr(after);
  f.b.SetInsertPoint(after);
  llvm::PHINode* out = f.b.CreatePHI(type, 2);
  out->addIncoming(llvm::Constant::getNullValue(type), before);
  out->addIncoming(loaded, inside);
  return out;
}

}  // namespace

std::vector<Value*> load(Frame& f, Id buffer, Value* element, unsigned n, Value* mask) {
  int32_t dtype = f.program.buffers[buffer].dtype;
  auto item = static_cast<unsigned>(loopir::item_size(dtype));
  llvm::Type* type = lanes::memory_type(f.b.getContext(), dtype);
  llvm::Align align(uint64_t{n} * item);
  llvm::Type* all = n == 1           ? type
                    : is_wide(dtype) ? llvm::FixedVectorType::get(type, n)
                                     : word_type(f, n * item);
  Value* loaded = where(f, mask, all, [&] {
    Value* place = place_of(f, buffer, element, n * item, MemoryUse::read);
    return f.b.CreateAlignedLoad(all, place, align);
  });
  std::vector<Value*> out;
  for (unsigned i = 0; i < n; ++i) {
    Value* one = n == 1           ? loaded
                 : is_wide(dtype) ? f.b.CreateExtractElement(loaded, uint64_t{i})
                                  : element_of(f, loaded, i, 8 * item);
    out.push_back(lanes::from_memory(f.b, one, dtype));
  }
  return out;
}

Value* host_number(Frame& f, Id buffer) {
  int32_t dtype = f.program.buffers[buffer].dtype;
  llvm::Type* type = lanes::memory_type(f.b.getContext(), dtype);
  auto bits = static_cast<unsigned>(8 * loopir::item_size(dtype));
  Value* word = f.b.CreateTrunc(f.host_numbers.at(buffer), f.b.getIntNTy(bits));
  return lanes::from_memory(f.b, f.b.CreateBitCast(word, type), dtype);
}

void store(Frame& f, Id buffer, Value* element, std::span<Value* const> values) {
  int32_t dtype = f.program.buffers[buffer].dtype;
  auto item = static_cast<unsigned>(loopir::item_size(dtype));
  auto n = static_cast<unsigned>(values.size());
  Value* all = nullptr;
  if (n > 1 && loopir::is_narrow(dtype)) {
    all = narrow_words(f, dtype, values);
  } else {
    std::vector<Value*> elements;
    for (Value* v : values) elements.push_back(to_memory(f, v, dtype));
    all = n == 1 ? elements[0] : packed_as(f, dtype, elements);
  }
  f.b.CreateAlignedStore(all, place_of(f, buffer, element, n * item, MemoryUse::write),
                         llvm::Align(uint64_t{n} * item));
}

void change(Frame& f, Id buffer, Value* element, Value* value, loopir::Store how) {
  using Op = llvm::AtomicRMWInst::BinOp;
  bool is_real = value->getType()->isFloatingPointTy();
  Op op = how == loopir::Store::minimum   ? Op::Min
          : how == loopir::Store::maximum ? Op::Max
          : is_real                       ? Op::FAdd
                                          : Op::Add;
  auto item = static_cast<unsigned>(loopir::item_size(f.program.buffers[buffer].dtype));
  f.b.CreateAtomicRMW(op, place_of(f, buffer, element, item, MemoryUse::change), value,
                      llvm::MaybeAlign(item), llvm::AtomicOrdering::Monotonic);
}

void add_to(Frame& f, Id buffer, Value* element, std::span<Value* const> values) {
  auto bytes = static_cast<unsigned>(values.size() * sizeof(float));
  f.target.add(f.b, place_of(f, buffer, element, bytes, MemoryUse::change), values);
}

Value* rounded(Frame& f, Value* value, int32_t dtype) {
  return lanes::from_memory(f.b, to_memory(f, value, dtype), dtype);
}

}  // namespace inductor_cuda
