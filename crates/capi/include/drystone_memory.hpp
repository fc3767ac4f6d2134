// Memory for drystone.hpp, which includes this: the element types of C++, and views, which describe the memory
// of an array.
//
// Invariants
// - a view owns nothing: a pointer, a shape, and strides in elements;
// - impossible memory, such as strides beyond the address space, throws before the library is called.
#ifndef DRYSTONE_MEMORY_HPP
#define DRYSTONE_MEMORY_HPP

#include "drystone.h"

#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace drystone {

/// A failure: what() returns its message.
class error : public std::runtime_error {
  public:
    error(dry_status status, const char *message) : std::runtime_error(message), status_(status) {}
    dry_status status() const noexcept { return status_; }

  private:
    dry_status status_;
};

template <class T> class view;

namespace detail {
[[noreturn]] inline void refuse(const std::string &why, dry_status status = DRY_INVALID_ARGUMENT) {
    throw error(status, why.c_str());
}

/// A product of lengths, or the largest number if it overflows; no memory is that large.
inline std::uint64_t times(std::uint64_t a, std::uint64_t b) {
    return b != 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

inline std::uint64_t product(const std::vector<std::uint64_t> &shape) {
    std::uint64_t cells = 1;
    bool none = false;
    for (const auto extent : shape) {
        none = none || extent == 0;
        cells = times(cells, extent == 0 ? 1 : extent);
    }
    return none ? 0 : cells;
}

/// Formats a list, such as [2, 3].
inline std::string listed(const std::vector<std::uint64_t> &shape) {
    std::string out = "[";
    for (const auto extent : shape) out += (out.size() > 1 ? ", " : "") + std::to_string(extent);
    return out + "]";
}

template <class T> struct is_view : std::false_type {};
template <class T> struct is_view<view<T>> : std::true_type {};

/// Whether it has data() and size(), as std::vector, std::array and std::span. A view has them, too, but its
/// size is in bytes.
template <class C, class = void> struct is_memory : std::false_type {};
template <class C>
struct is_memory<C, std::void_t<decltype(std::declval<C &>().data() + std::declval<C &>().size())>>
    : std::bool_constant<!is_view<std::remove_cv_t<std::remove_reference_t<C>>>::value> {};

/// Memory for elements of T, and a vector of them. std::vector<bool> stores bits, which cannot be read into.
template <class T> struct elements {
    explicit elements(std::size_t count) : kept(count) {}
    T *data() { return kept.data(); }
    std::vector<T> take() { return std::move(kept); }
    std::vector<T> kept;
};
template <> struct elements<bool> {
    explicit elements(std::size_t count) : kept(new bool[count]()), size(count) {}
    bool *data() { return kept.get(); }
    std::vector<bool> take() { return std::vector<bool>(kept.get(), kept.get() + size); }
    std::unique_ptr<bool[]> kept;
    std::size_t size;
};
} // namespace detail

/// The dry_type of types without a name in the language. A program with such a type defines it:
/// `template <> inline constexpr dry_type drystone::other_type<half> = DRY_FLOAT16;`
template <class T> inline constexpr dry_type other_type = DRY_RECORD;

/// The dry_type of a C++ type; DRY_RECORD for a struct.
template <class T> constexpr dry_type type_of() {
    using V = std::remove_cv_t<T>;
    if constexpr (std::is_same_v<V, bool>) return DRY_BOOL;
    else if constexpr (std::is_integral_v<V>) {
        constexpr bool s = std::is_signed_v<V>;
        if constexpr (sizeof(V) == 1) return s ? DRY_INT8 : DRY_UINT8;
        else if constexpr (sizeof(V) == 2) return s ? DRY_INT16 : DRY_UINT16;
        else if constexpr (sizeof(V) == 4) return s ? DRY_INT32 : DRY_UINT32;
        else if constexpr (sizeof(V) == 8) return s ? DRY_INT64 : DRY_UINT64;
        else return other_type<V>;
    } else if constexpr (std::is_same_v<V, float>) return DRY_FLOAT32;
    else if constexpr (std::is_same_v<V, double>) return DRY_FLOAT64;
    else if constexpr (std::is_same_v<V, std::complex<float>>) return DRY_COMPLEX64;
    else if constexpr (std::is_same_v<V, std::complex<double>>) return DRY_COMPLEX128;
    else return other_type<V>;
}

/// Extents, offsets or counts.
using extents = std::vector<std::uint64_t>;

/// An n-dimensional array in memory, dense and row-major unless strides (in elements) are given.
///
/// A struct T stands for a record of its size.
template <class T> class view {
    static_assert(std::is_trivially_copyable_v<T>, "elements are moved as bytes");
    static_assert(!std::is_pointer_v<T>, "a pointer is no element");
    static_assert(type_of<T>() != DRY_RECORD || !std::is_arithmetic_v<T>, "numbers have at most 64 bits");
    static_assert(!std::is_same_v<std::remove_cv_t<T>, std::complex<long double>>, "numbers have at most 64 bits");

  public:
    view(T *first, extents shape)
        : first_(first), shape_(std::move(shape)), size_(detail::times(detail::product(shape_), sizeof(T))) {}

    view(T *first, extents shape, const std::vector<std::int64_t> &strides) : first_(first), shape_(std::move(shape)) {
        if (strides.size() != shape_.size()) {
            detail::refuse("a view of " + std::to_string(shape_.size()) + " dimensions has " + std::to_string(strides.size()) +
                           " strides; it needs one per dimension");
        }
        constexpr auto most = std::numeric_limits<std::int64_t>::max();
        constexpr auto item = static_cast<std::int64_t>(sizeof(T));
        const bool any = detail::product(shape_) > 0;
        std::uint64_t size = any ? sizeof(T) : 0;
        for (std::size_t d = 0; d < shape_.size(); ++d) {
            if (strides[d] > most / item || strides[d] < -(most / item))
                detail::refuse("a stride of " + std::to_string(strides[d]) + " elements leaves the address space");
            strides_.push_back(strides[d] * item);
            const auto reach = detail::times(static_cast<std::uint64_t>(strides_[d] < 0 ? -strides_[d] : strides_[d]),
                                             any ? shape_[d] - 1 : 0);
            size = reach > UINT64_MAX - size ? UINT64_MAX : size + reach;
        }
        size_ = size;
    }

    /// The same memory, read-only.
    template <class U, class = std::enable_if_t<std::is_same_v<const U, T>>>
    view(const view<U> &other)
        : first_(other.first_), shape_(other.shape_), strides_(other.strides_), size_(other.size_) {}

    /// A whole array, as one dimension.
    template <std::size_t N> view(T (&memory)[N]) : view(memory, {N}) {}

    /// A whole std::vector, std::array, std::span or the like, as one dimension or in a shape with as many cells.
    template <class C, class = std::enable_if_t<detail::is_memory<C>::value>>
    view(C &&memory) : view(memory.data(), {memory.size()}) {}
    template <class C, class = std::enable_if_t<detail::is_memory<C>::value>>
    view(C &&memory, extents shape) : view(memory.data(), std::move(shape)) {
        if (detail::product(shape_) != memory.size()) {
            detail::refuse("the memory has " + std::to_string(memory.size()) + " elements, the shape " +
                           detail::listed(shape_) + " another number");
        }
    }

    T *data() const noexcept { return first_; }
    const extents &shape() const noexcept { return shape_; }
    /// Bytes per dimension, or nullptr if dense.
    const std::int64_t *strides() const noexcept { return strides_.empty() ? nullptr : strides_.data(); }
    /// Bytes from the lowest to the highest element.
    std::uint64_t size() const noexcept { return size_; }

  private:
    template <class U> friend class view;

    T *first_;
    extents shape_;
    std::vector<std::int64_t> strides_;
    std::uint64_t size_ = 0;
};

} // namespace drystone
#endif
