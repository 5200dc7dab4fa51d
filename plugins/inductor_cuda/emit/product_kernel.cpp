// The tiled product.
#include "product_kernel.h"

#include "memory.h"

#include <lanes/lane_ops.h>

#include <array>
#include <cstddef>

namespace inductor_cuda {

using llvm::Value;

namespace {

constexpr unsigned tile = product_tile, depth = 16, per_thread = 4, side = tile / per_thread;
constexpr unsigned pitch = tile + 1;  // of a row in shared memory: columns lie in different banks
constexpr unsigned loads = tile * depth / product_threads;  // of a thread, of each operand

enum Operand : Id { left, right, result, bias, added };

/// A program of five buffers, which say their dtypes.
loopir::Program program_of(const ProductKernel& kernel) {
  loopir::Program out;
  auto add = [&](int32_t dtype) {
    out.add_buffer({loopir::Buffer::Place::input, 0, dtype, {}, {}, ""});
  };
  add(kernel.dtype), add(kernel.dtype), add(kernel.result_dtype);
  add(kernel.bias_dtype.value_or(TN_F32)), add(kernel.result_dtype);
  return out;
}

class ProductEmitter {
 public:
  ProductEmitter(Frame& frame, const ProductKernel& kernel, const BegunKernel& begun)
      : f_(frame), b_(frame.b), kernel_(kernel), shared_(begun.shared) {
    sums_ = kernel.dtype == TN_F64 ? TN_F64 : TN_F32;
    type_ = lanes::lane_type(b_.getContext(), sums_);
    for (size_t word = 0; word < product_words; ++word)
      arguments_.push_back(begun.parameters[word]);
    f_.buffers = {{left, at(offsetof(ProductArguments, left))},
                  {right, at(offsetof(ProductArguments, right))},
                  {bias, at(offsetof(ProductArguments, bias))},
                  {added, at(offsetof(ProductArguments, added))},
                  {result, at(offsetof(ProductArguments, result))}};
  }

  void run() {
    place_block();
    for (auto& row : totals_)
      for (Value*& total : row) {
        total = f_.variable(type_);
        b_.CreateStore(llvm::Constant::getNullValue(type_), total);
      }
    emit_loop(f_, number(0), at(offsetof(ProductArguments, k)), number(depth), [&](Value* first) {
      fill(first);
      f_.target.barrier(b_);
      add_up();
      f_.target.barrier(b_);
    });
    finish();
  }

 private:
  Value* at(size_t offset) { return arguments_[offset / 8]; }
  Value* number(int64_t n) { return b_.getInt64(static_cast<uint64_t>(n)); }
  Value* thread() { return b_.CreateZExt(f_.target.thread(b_), b_.getInt64Ty()); }
  Value* sum(Value* a, Value* c) { return b_.CreateAdd(a, c); }
  Value* times(Value* a, Value* c) { return b_.CreateMul(a, c); }

  void place_block();
  void fill(Value* first);
  struct Part;
  Value* element(const Part& part, Value* first, unsigned i, Value*& place);
  void add_up();
  Value* shared_at(unsigned operand, Value* place);
  void finish();
  Value* finished(Value* total, Value* column, Value* element);
  Value* function(Value* v);

  Frame& f_;
  llvm::IRBuilder<>& b_;
  const ProductKernel& kernel_;
  Value* shared_;
  int32_t sums_;
  llvm::Type* type_;
  std::vector<Value*> arguments_;
  Value *batch_ = nullptr, *row_ = nullptr, *column_ = nullptr;  // of the tile
  std::array<std::array<Value*, per_thread>, per_thread> totals_{};
};

void ProductEmitter::place_block() {
  Value* block = b_.CreateZExt(f_.target.block(b_), b_.getInt64Ty());
  auto tiles = [&](Value* n) { return b_.CreateUDiv(sum(n, number(tile - 1)), number(tile)); };
  Value* across = tiles(at(offsetof(ProductArguments, n)));
  Value* down = tiles(at(offsetof(ProductArguments, m)));
  Value* rest = b_.CreateUDiv(block, across);
  column_ = times(b_.CreateURem(block, across), number(tile));
  row_ = times(b_.CreateURem(rest, down), number(tile));
  batch_ = b_.CreateUDiv(rest, down);
}

/// One operand's tile: `tile` lines of `depth` elements.
struct ProductEmitter::Part {
  Operand operand;
  Value *line, *lines;  // its first one, and how many the matrix has
  Value *batch_stride, *line_stride, *depth_stride;
};

// The i-th element that this thread brings, and its place in shared memory. Neighbouring threads
// take neighbouring elements in memory.
Value* ProductEmitter::element(const Part& part, Value* first, unsigned i, Value*& place) {
  Value* e = sum(thread(), number(int64_t{i} * product_threads));
  Value* is_deep = b_.CreateICmpEQ(part.depth_stride, number(1));
  Value* line =
      b_.CreateSelect(is_deep, b_.CreateUDiv(e, number(depth)), b_.CreateURem(e, number(tile)));
  Value* deep =
      b_.CreateSelect(is_deep, b_.CreateURem(e, number(depth)), b_.CreateUDiv(e, number(tile)));
  place = sum(times(deep, number(pitch)), line);
  Value* of_line = sum(part.line, line);
  Value* of_depth = sum(first, deep);
  Value* is_there = b_.CreateAnd(b_.CreateICmpSLT(of_line, part.lines),
                                 b_.CreateICmpSLT(of_depth, at(offsetof(ProductArguments, k))));
  Value* index = sum(times(batch_, part.batch_stride),
                     sum(times(of_line, part.line_stride), times(of_depth, part.depth_stride)));
  return load(f_, part.operand, index, 1, is_there)[0];
}

void ProductEmitter::fill(Value* first) {
  const Part parts[] = {
      {left, row_, at(offsetof(ProductArguments, m)), at(offsetof(ProductArguments, left_batch)),
       at(offsetof(ProductArguments, left_row)), at(offsetof(ProductArguments, left_column))},
      {right, column_, at(offsetof(ProductArguments, n)),
       at(offsetof(ProductArguments, right_batch)), at(offsetof(ProductArguments, right_column)),
       at(offsetof(ProductArguments, right_row))}};
  // All reads of memory before the first store.
  std::vector<std::pair<Value*, Value*>> brought;
  for (const Part& part : parts)
    for (unsigned i = 0; i < loads; ++i) {
      Value* place = nullptr;
      Value* value = element(part, first, i, place);
      brought.emplace_back(shared_at(part.operand, place), value);
    }
  for (auto& [place, value] : brought) b_.CreateStore(value, place);
}

Value* ProductEmitter::shared_at(unsigned operand, Value* place) {
  return b_.CreateGEP(type_, shared_, sum(place, number(int64_t{operand} * depth * pitch)));
}

void ProductEmitter::add_up() {
  Value *x = b_.CreateURem(thread(), number(side)), *y = b_.CreateUDiv(thread(), number(side));
  for (unsigned k = 0; k < depth; ++k) {
    std::array<Value*, per_thread> of_left{}, of_right{};
    for (unsigned i = 0; i < per_thread; ++i) {
      Value* at_k = number(int64_t{k} * pitch + i * side);
      of_left[i] = b_.CreateLoad(type_, shared_at(left, sum(y, at_k)));
      of_right[i] = b_.CreateLoad(type_, shared_at(right, sum(x, at_k)));
    }
    for (unsigned i = 0; i < per_thread; ++i)
      for (unsigned j = 0; j < per_thread; ++j) {
        Value* more = b_.CreateFMul(of_left[i], of_right[j]);
        b_.CreateStore(b_.CreateFAdd(b_.CreateLoad(type_, totals_[i][j]), more), totals_[i][j]);
      }
  }
}

Value* ProductEmitter::function(Value* v) {
  auto apply = [&](uint16_t code, Value* x, Value* y = nullptr) {
    return lanes::emit_primitive(b_, code, sums_, sums_, x, y, nullptr);
  };
  auto constant = [&](double c) { return lanes::constant_of(type_, c); };
  if (kernel_.function == Function::relu) {
    Value* is_low = b_.CreateFCmpOLE(v, constant(0));  // NaN stays
    return b_.CreateSelect(is_low, constant(0), v);
  }
  if (kernel_.function == Function::identity) return v;
  Value* cube = apply(TN_F_MUL, apply(TN_F_MUL, apply(TN_F_MUL, constant(0.044715), v), v), v);
  Value* inner = apply(TN_F_MUL, constant(0.79788456080286535588), apply(TN_F_ADD, v, cube));
  return apply(TN_F_MUL, apply(TN_F_MUL, v, constant(0.5)),
               apply(TN_F_ADD, constant(1), apply(TN_F_TANH, inner)));
}

Value* ProductEmitter::finished(Value* total, Value* column, Value* element) {
  Value* alpha = b_.CreateBitCast(at(offsetof(ProductArguments, alpha)), b_.getDoubleTy());
  Value* v = b_.CreateFMul(total, b_.CreateFPCast(alpha, type_));
  auto plus = [&](Operand operand, int32_t dtype, Value* index) {
    Value* more = load(f_, operand, index, 1, nullptr)[0];
    int32_t from = dtype == TN_F64 ? TN_F64 : TN_F32;
    v = b_.CreateFAdd(v, lanes::emit_cast(b_, more, from, sums_));
  };
  if (kernel_.bias_dtype)
    plus(bias, *kernel_.bias_dtype, times(column, at(offsetof(ProductArguments, bias_column))));
  if (kernel_.adds) plus(added, kernel_.result_dtype, element);
  return function(v);
}

void ProductEmitter::finish() {
  Value *x = b_.CreateURem(thread(), number(side)), *y = b_.CreateUDiv(thread(), number(side));
  for (unsigned i = 0; i < per_thread; ++i)
    for (unsigned j = 0; j < per_thread; ++j) {
      Value* row = sum(row_, sum(y, number(int64_t{i} * side)));
      Value* column = sum(column_, sum(x, number(int64_t{j} * side)));
      Value* is_there = b_.CreateAnd(b_.CreateICmpSLT(row, at(offsetof(ProductArguments, m))),
                                     b_.CreateICmpSLT(column, at(offsetof(ProductArguments, n))));
      emit_if(f_, is_there, [&] {
        Value* element = sum(times(batch_, at(offsetof(ProductArguments, result_batch))),
                             sum(times(row, at(offsetof(ProductArguments, result_row))),
                                 times(column, at(offsetof(ProductArguments, result_column)))));
        Value* v = finished(b_.CreateLoad(type_, totals_[i][j]), column, element);
        Value* out =
            lanes::emit_cast(b_, v, sums_, kernel_.result_dtype == TN_F64 ? TN_F64 : TN_F32);
        store(f_, result, element, std::array{out});
      });
    }
}

}  // namespace

std::string ProductKernel::text() const {
  return tenon::plugin::text("product {} {} bias {} adds {} function {} contracts {}", dtype,
                             result_dtype, bias_dtype.value_or(-1), adds,
                             static_cast<int>(function), contracts);
}

void emit_product(llvm::Module& module, const ProductKernel& kernel, const std::string& symbol,
                  ThreadTarget& target) {
  llvm::IRBuilder<> b(module.getContext());
  loopir::Program program = program_of(kernel);
  KernelPlan plan;
  plan.form.threads = product_threads;
  Frame frame{.b = b, .target = target, .program = program, .plan = plan, .numerics = {}};
  using Parameter = KernelShape::Parameter;
  KernelShape shape{.name = symbol, .threads = product_threads, .cooperates = true};
  size_t pointers = offsetof(ProductArguments, m) / 8;
  shape.parameters.assign(pointers, Parameter::pointer);
  shape.parameters.resize(product_words, Parameter::number);
  shape.shared_bytes = uint64_t{2} * depth * pitch * (kernel.dtype == TN_F64 ? 8 : 4);
  BegunKernel begun = target.begin(module, b, shape);
  frame.function = begun.function;
  llvm::FastMathFlags contract;
  contract.setAllowContract(kernel.contracts);
  b.setFastMathFlags(contract);
  ProductEmitter(frame, kernel, begun).run();
  b.CreateRetVoid();
}

}  // namespace inductor_cuda
