// Boxed calls: any operator of the dispatcher by its name.
#include "guard.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <deque>
#include <mutex>
#include <sstream>

namespace ct {

void free_tensors(const ct_tensor *items, int64_t count); // memory.cc

ct_code find_operator(const char *name, int64_t name_length, const char *overload, int64_t overload_length, int64_t *handle) {
  return guard([&] {
    static std::mutex mutex;
    static auto *handles = new std::deque<c10::OperatorHandle>; // addresses stay valid
    std::string n(name, name_length), o(overload, overload_length);
    auto found = c10::Dispatcher::singleton().findSchema({n, o});
    TORCH_CHECK(found, "libtorch has no operator \"", n, o.empty() ? "" : ".", o, "\"");
    std::lock_guard<std::mutex> lock(mutex);
    handles->push_back(*found);
    *handle = reinterpret_cast<int64_t>(&handles->back());
  });
}

static const c10::OperatorHandle &of(int64_t handle) { return *reinterpret_cast<c10::OperatorHandle *>(handle); }

ct_code schema_of(int64_t handle, char **text) {
  return guard([&] {
    std::ostringstream s;
    s << of(handle).schema();
    *text = strdup(s.str().c_str());
    if (!*text) throw std::bad_alloc();
  });
}

// scalars is a list of numbers as the operators with Scalar[] want it.
template <class T> static c10::List<at::Scalar> scalars(const void *items, size_t n) {
  c10::List<at::Scalar> list;
  list.reserve(n);
  for (size_t i = 0; i < n; i++) list.push_back(static_cast<const T *>(items)[i]);
  return list;
}

// element is what a list of the schema holds; AnyType where it wants no list.
static c10::TypeKind element(const c10::TypePtr &type) {
  auto list = type->cast<c10::ListType>();
  return list ? list->getElementType()->kind() : c10::TypeKind::AnyType;
}

// The schema decides what an ambiguous Go value becomes: an int where a float is asked for, a list of optional tensors.
static c10::IValue box(const ct_value &v, const c10::Argument &arg) {
  auto type = arg.type();
  if (auto optional = type->cast<c10::OptionalType>()) {
    if (v.kind == CT_NONE) return {};
    type = optional->getElementType();
  }
  const auto *ints = static_cast<const int64_t *>(v.pointer);
  const auto n = static_cast<size_t>(v.count);
  switch (v.kind) {
  case CT_NONE: return type->isSubtypeOf(*c10::TensorType::get()) ? c10::IValue(at::Tensor()) : c10::IValue();
  case CT_TENSOR: return get(v.pointer);
  case CT_INT: return type->kind() == c10::TypeKind::FloatType ? c10::IValue(static_cast<double>(v.number)) : c10::IValue(v.number);
  case CT_DOUBLE: return as_double(v.number);
  case CT_BOOL: return v.number != 0;
  case CT_STRING: return std::string(static_cast<const char *>(v.pointer), n);
  case CT_DTYPE:
    if (v.number < 0) return {}; // the operator's choice
    return v.number;
  case CT_DEVICE: return device_of(static_cast<int32_t>(v.number));
  case CT_GENERATOR: return *static_cast<at::Generator *>(v.pointer);
  case CT_INTS: {
    const auto kind = element(type);
    if (kind == c10::TypeKind::FloatType) return c10::List<double>(std::vector<double>(ints, ints + n));
    if (kind == c10::TypeKind::NumberType) return scalars<int64_t>(ints, n);
    return c10::List<int64_t>(at::IntArrayRef(ints, n));
  }
  case CT_DOUBLES:
    if (element(type) == c10::TypeKind::NumberType) return scalars<double>(v.pointer, n);
    return c10::List<double>(at::ArrayRef<double>(static_cast<const double *>(v.pointer), n));
  case CT_BOOLS: {
    c10::List<bool> list;
    for (size_t i = 0; i < n; i++) list.push_back(static_cast<const int8_t *>(v.pointer)[i] != 0);
    return list;
  }
  case CT_TENSORS: {
    auto *items = static_cast<const ct_tensor *>(v.pointer);
    if (element(type) == c10::TypeKind::OptionalType) return get_optional_list(items, v.count);
    for (size_t i = 0; i < n; i++) TORCH_CHECK_VALUE(items[i], "argument \"", arg.name(), "\": tensor ", i, " of the list is undefined");
    return c10::List<at::Tensor>(get_list(items, v.count));
  }
  }
  TORCH_CHECK(false, "argument \"", arg.name(), "\" has an unknown kind of value");
}

static const char *kind_of(const c10::IValue &v) {
  if (v.isNone()) return "None";
  if (v.isTensor()) return v.toTensor().defined() ? "a tensor" : "None";
  if (v.isInt()) return "an int";
  if (v.isDouble()) return "a float";
  if (v.isBool()) return "a bool";
  if (v.isString()) return "a string";
  if (v.isDevice()) return "a device";
  if (v.isGenerator()) return "a generator";
  if (v.isIntList()) return "a list of ints";
  if (v.isDoubleList()) return "a list of floats";
  if (v.isBoolList()) return "a list of bools";
  if (v.isTensorList()) return "a list of tensors";
  return "a list of optional tensors";
}

// fits tells whether v is what the schema asks for: the dispatcher itself does not check, it asserts or reads what is not there.
static bool fits(const c10::IValue &v, const c10::Type &type) {
  switch (type.kind()) {
  case c10::TypeKind::OptionalType:
    return v.isNone() || (v.isTensor() && !v.toTensor().defined()) || fits(v, *type.castRaw<c10::OptionalType>()->getElementType());
  case c10::TypeKind::TensorType: return v.isTensor();
  case c10::TypeKind::NumberType: return v.isInt() || v.isDouble() || v.isBool();
  case c10::TypeKind::IntType:
  case c10::TypeKind::SymIntType:
  case c10::TypeKind::ScalarTypeType:
  case c10::TypeKind::LayoutType:
  case c10::TypeKind::MemoryFormatType: return v.isInt();
  case c10::TypeKind::FloatType: return v.isDouble();
  case c10::TypeKind::BoolType: return v.isBool();
  case c10::TypeKind::StringType: return v.isString();
  case c10::TypeKind::DeviceObjType: return v.isDevice();
  case c10::TypeKind::GeneratorType: return v.isGenerator();
  case c10::TypeKind::ListType: {
    const auto &element = *type.castRaw<c10::ListType>()->getElementType();
    switch (element.kind()) {
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType: return v.isIntList();
    case c10::TypeKind::FloatType: return v.isDoubleList();
    case c10::TypeKind::BoolType: return v.isBoolList();
    case c10::TypeKind::TensorType: return v.isTensorList();
    case c10::TypeKind::OptionalType: return v.isList() && !v.isIntList() && !v.isDoubleList() && !v.isBoolList() && !v.isTensorList();
    default: return v.isList() && v.type()->isSubtypeOf(type);
    }
  }
  default: return v.type()->isSubtypeOf(type);
  }
}

static ct_value unbox(c10::IValue &&v) {
  if (v.isNone()) return {CT_NONE, 0, 0, nullptr};
  if (v.isTensor()) return {CT_TENSOR, 0, 0, give(std::move(v).toTensor())};
  if (v.isInt()) return {CT_INT, 0, v.toInt(), nullptr};
  if (v.isDouble()) return {CT_DOUBLE, 0, as_bits(v.toDouble()), nullptr};
  if (v.isBool()) return {CT_BOOL, 0, v.toBool(), nullptr};
  if (v.isTensorList()) {
    ct_tensor_list list;
    give_list(v.toTensorVector(), &list);
    return {CT_TENSORS, list.count, 0, list.items};
  }
  if (v.isIntList()) {
    auto ints = v.toIntVector();
    auto *copy = static_cast<int64_t *>(malloc(sizeof(int64_t) * (ints.size() + 1)));
    if (!copy) throw std::bad_alloc();
    memcpy(copy, ints.data(), sizeof(int64_t) * ints.size());
    return {CT_INTS, static_cast<int64_t>(ints.size()), 0, copy};
  }
  if (v.isScalar()) {
    auto s = give(v.toScalar());
    return {s.kind == CT_SCALAR_DOUBLE ? CT_DOUBLE : s.kind == CT_SCALAR_BOOL ? CT_BOOL : CT_INT, 0, s.bits, nullptr};
  }
  TORCH_CHECK(false, "a result of type ", v.tagKind(), " cannot be handed to Go");
}

static void drop(const ct_value &v) {
  if (v.kind == CT_TENSOR) free_tensors(&v.pointer, 1);
  if (v.kind == CT_TENSORS) free_tensors(static_cast<const ct_tensor *>(v.pointer), v.count);
  if (v.kind == CT_TENSORS || v.kind == CT_INTS) free(v.pointer);
}

ct_code call(int64_t handle, const ct_value *args, int64_t count, ct_value *results, int64_t capacity, int64_t *result_count) {
  return guard([&] {
    const auto &op = of(handle);
    const auto &formal = op.schema().arguments();
    TORCH_CHECK(count <= static_cast<int64_t>(formal.size()), "takes at most ", formal.size(), " arguments, but ", count,
                " were given: ", op.schema());
    torch::jit::Stack stack;
    stack.reserve(formal.size());
    for (int64_t i = 0; i < static_cast<int64_t>(formal.size()); i++) {
      if (i < count) {
        stack.push_back(box(args[i], formal[i]));
      } else {
        TORCH_CHECK(formal[i].default_value(), "argument \"", formal[i].name(), "\" is missing: ", op.schema());
        stack.push_back(*formal[i].default_value());
      }
      TORCH_CHECK(i >= count || fits(stack.back(), *formal[i].type()), "argument \"", formal[i].name(), "\" must be ",
                  formal[i].type()->str(), ", but is ", kind_of(stack.back()), ": ", op.schema());
    }
    op.callBoxed(&stack);
    TORCH_CHECK(static_cast<int64_t>(stack.size()) <= capacity, "returns ", stack.size(), " results, more than ", capacity);
    size_t done = 0;
    try {
      for (; done < stack.size(); done++) results[done] = unbox(std::move(stack[done]));
    } catch (...) { // Go takes all results or none
      while (done--) drop(results[done]);
      throw;
    }
    *result_count = static_cast<int64_t>(stack.size());
  });
}

} // namespace ct
