// Drystone in C++17: drystone.h as classes that close themselves. drystone_memory.hpp has views of memory.
//
// What holds everywhere
// - A failure throws drystone::error, whose status() is the C code. Destructors do not throw: call close(), which
//   throws, for objects whose content must not be lost.
// - Objects can be moved, not copied. get() returns the C handle, for functions that only C has.
// - A view is memory of the caller: a pointer, a shape, and strides in elements. No call keeps it.
// - Threads may use everything as in C.
#ifndef DRYSTONE_HPP
#define DRYSTONE_HPP

#include "drystone.h"
#include "drystone_memory.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace drystone {

namespace detail {
inline void check(dry_status status) {
    if (status != DRY_OK) throw error(status, dry_last_error());
}

/// A text from a function that takes (buffer, capacity, pointer to the length).
template <class Ask> std::string text(Ask ask) {
    std::size_t length = 0;
    check(ask(nullptr, std::size_t{0}, &length));
    for (;;) {
        std::string out(length + 1, '\0');
        const dry_status status = ask(out.data(), out.size(), &length);
        if (status == DRY_BUFFER_TOO_SMALL) continue; // it grew since
        check(status);
        out.resize(length);
        return out;
    }
}

/// A list from a function that takes (buffer, capacity, pointer to the count).
template <class T, class Ask> std::vector<T> list(Ask ask) {
    std::size_t count = 0;
    check(ask(nullptr, std::size_t{0}, &count));
    for (;;) {
        std::vector<T> out(count);
        const dry_status status = ask(out.empty() ? nullptr : out.data(), out.size(), &count);
        if (status == DRY_BUFFER_TOO_SMALL) continue;
        check(status);
        out.resize(count);
        return out;
    }
}

/// A text for C, which ends at the first NUL.
inline const char *text_of(const std::string &given) {
    if (given.find('\0') != std::string::npos)
        refuse("\"" + std::string(given.c_str()) + "\" goes on behind a NUL, where C's texts end");
    return given.c_str();
}

template <class T> struct is_vector : std::false_type {};
template <class T> struct is_vector<std::vector<T>> : std::true_type {};

/// Concatenated names, each with its NUL.
inline std::vector<std::string> split(const std::vector<char> &joined) {
    std::vector<std::string> out;
    for (std::size_t at = 0; at < joined.size(); at += out.back().size() + 1) out.emplace_back(joined.data() + at);
    return out;
}
} // namespace detail

/// The version of the library.
inline std::string version() { return dry_version(); }

namespace detail {
/// A handle that closes itself.
template <class H, dry_status (*Close)(H *)> class handle {
  public:
    explicit handle(H *raw) noexcept : raw_(raw) {}
    handle(handle &&other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
    handle &operator=(handle &&other) noexcept {
        if (this != &other) {
            (void)Close(raw_);
            raw_ = std::exchange(other.raw_, nullptr);
        }
        return *this;
    }
    ~handle() { (void)Close(raw_); }
    H *get() const noexcept { return raw_; }
    void close() { check(Close(std::exchange(raw_, nullptr))); }

  private:
    H *raw_;
};

inline const std::uint64_t *pointer(const extents &values) { return values.empty() ? nullptr : values.data(); }

inline std::uint32_t ndim(const extents &values) { return static_cast<std::uint32_t>(values.size()); }

/// The offset of a block with this number of dimensions; an empty one means the origin.
inline const std::uint64_t *offset_of(const extents &offset, std::size_t dimensions) {
    if (!offset.empty() && offset.size() != dimensions)
        refuse("the offset has another number of dimensions than the memory");
    return pointer(offset);
}
} // namespace detail

/// One axis of a selection: `count` cells start, start + step, ...
struct axis {
    axis(std::uint64_t cell) : start(cell), count(1) {}
    axis(std::uint64_t first, std::uint64_t n, std::int64_t by = 1) : start(first), count(n), step(by) {}
    std::uint64_t start;
    std::uint64_t count;
    std::int64_t step = 1;
};

/// A variable of a snapshot, or one member of its records.
class variable : public detail::handle<dry_variable, dry_variable_close> {
  public:
    using handle::handle;

    dry_variable_info info() const {
        auto out = dry_variable_info_new();
        detail::check(dry_variable_describe(get(), &out));
        return out;
    }

    /// The shape, without the step axis.
    extents shape() const {
        const auto found = info();
        return extents(found.shape, found.shape + found.ndim);
    }

    std::string type() const {
        return detail::text([&](auto... a) { return dry_variable_text(get(), DRY_TEXT_TYPE, a...); });
    }

    std::string transform() const {
        return detail::text([&](auto... a) { return dry_variable_text(get(), DRY_TEXT_TRANSFORM, a...); });
    }

    /// The expected mix of reads; empty if none was declared.
    std::string access() const {
        return detail::text([&](auto... a) { return dry_variable_text(get(), DRY_TEXT_ACCESS, a...); });
    }

    std::vector<std::uint64_t> steps() const {
        return detail::list<std::uint64_t>([&](auto... a) { return dry_variable_steps(get(), a...); });
    }

    /// Reads the box at `offset` that has the shape of `out`, of one step.
    template <class T>
    dry_read_report read(const view<T> &out, std::int64_t step = DRY_NO_STEP, const extents &offset = {}) const {
        auto report = dry_read_report_new();
        const auto given = options(out, report);
        const auto *at = detail::offset_of(offset, out.shape().size());
        detail::check(dry_read_box(get(), step, type_of<T>(), out.data(), out.size(), detail::ndim(out.shape()), at,
                                   out.shape().data(), &given));
        return report;
    }

    /// A box as a dense row-major array: `count` cells from `offset` on, or everything from there.
    template <class T>
    std::vector<T> read(std::int64_t step = DRY_NO_STEP, const extents &offset = {}, std::optional<extents> count = {}) const {
        const auto all = shape();
        if (!count) {
            count = all;
            for (std::size_t d = 0; d < offset.size() && d < count->size(); ++d)
                (*count)[d] -= offset[d] < (*count)[d] ? offset[d] : (*count)[d];
        }
        // No memory is allocated for a box that lies outside the variable.
        if (count->size() != all.size())
            detail::refuse("the box " + detail::listed(*count) + " has another number of dimensions than the variable, " +
                           detail::listed(all));
        for (std::size_t d = 0; d < all.size(); ++d)
            if ((*count)[d] > all[d])
                detail::refuse("the box " + detail::listed(*count) + " is larger than the variable, " + detail::listed(all),
                               DRY_OUT_OF_RANGE);
        detail::elements<T> out(detail::product(*count));
        read(view<T>(out.data(), *count), step, offset);
        return out.take();
    }

    /// Reads one cell, slice or strided slice per axis, step axis first; `out` has the counts as its shape.
    template <class T> dry_read_report select(const view<T> &out, const std::vector<axis> &axes) const {
        auto report = dry_read_report_new();
        const auto given = options(out, report);
        const auto wanted = convert(axes);
        bool same = wanted.size() == out.shape().size();
        for (std::size_t d = 0; same && d < wanted.size(); ++d) same = wanted[d].count == out.shape()[d];
        if (!same) detail::refuse("the memory has another shape than the selection");
        detail::check(dry_read(get(), type_of<T>(), out.data(), out.size(), static_cast<std::uint32_t>(wanted.size()),
                               wanted.data(), &given));
        return report;
    }

    /// Reads listed cells. Each has as many coordinates as there are axes, the step first.
    template <class T> std::vector<T> points(const std::vector<std::uint64_t> &cells) const {
        const auto found = info();
        const std::uint32_t axes = found.ndim + (found.has_steps ? 1 : 0);
        if (axes == 0) detail::refuse("a variable of one value has no cells to list: read() gives it");
        if (cells.size() % axes != 0)
            detail::refuse(std::to_string(cells.size()) + " coordinates are not a list of cells with " + std::to_string(axes) +
                           " each");
        const std::size_t count = cells.size() / axes;
        detail::elements<T> out(count);
        auto given = dry_read_options_new();
        given.item_size = sizeof(T);
        detail::check(dry_read_points(get(), type_of<T>(), out.data(), count * sizeof(T), axes, cells.data(), count, &given));
        return out.take();
    }

    /// Coordinates (without the step) of the cells of a step whose values lie between two limits, inclusive.
    template <class L> std::vector<extents> find(std::int64_t step, L low, L high) const {
        static_assert(type_of<L>() == DRY_INT64 || type_of<L>() == DRY_UINT64 || type_of<L>() == DRY_FLOAT64,
                      "limits are int64_t, uint64_t or double");
        std::size_t count = 0;
        detail::check(dry_find(get(), step, type_of<L>(), &low, &high, nullptr, nullptr, 0, &count, nullptr));
        const std::size_t ndim = info().ndim;
        std::vector<std::uint64_t> cells(count * ndim + 1);
        detail::check(dry_find(get(), step, type_of<L>(), &low, &high, cells.data(), nullptr, count, &count, nullptr));
        std::vector<extents> out;
        for (std::size_t i = 0; i < count; ++i)
            out.emplace_back(cells.begin() + static_cast<std::ptrdiff_t>(i * ndim),
                             cells.begin() + static_cast<std::ptrdiff_t>((i + 1) * ndim));
        return out;
    }

    /// The plan of `select`.
    std::string explain(const std::vector<axis> &axes) const {
        const auto wanted = convert(axes);
        return detail::text([&](auto... a) {
            return dry_explain(get(), static_cast<std::uint32_t>(wanted.size()), wanted.data(), a...);
        });
    }

    /// The blocks written in a step, oldest first.
    std::vector<dry_block> blocks(std::int64_t step = DRY_NO_STEP) const {
        return detail::list<dry_block>([&](dry_block *out, std::size_t capacity, std::size_t *count) {
            return dry_blocks(get(), step, out, sizeof(dry_block), capacity, count);
        });
    }

    /// Reads one of `blocks` as written.
    template <class T>
    dry_read_report read_block(const view<T> &out, std::size_t number, std::int64_t step = DRY_NO_STEP) const {
        auto report = dry_read_report_new();
        const auto given = options(out, report);
        detail::check(dry_read_block(get(), step, number, type_of<T>(), out.data(), out.size(), detail::ndim(out.shape()),
                                     detail::pointer(out.shape()), &given));
        return report;
    }

    /// Texts of a selection of strings, row-major.
    std::vector<std::string> strings(const std::vector<axis> &axes) const {
        const auto wanted = convert(axes);
        std::size_t cells = 1;
        for (const auto &one : wanted) cells *= one.count;
        std::vector<std::uint64_t> ends; // existing cells: the library was asked first
        const auto joined = detail::list<char>([&](char *text, std::size_t capacity, std::size_t *length) {
            auto *const places = ends.empty() ? nullptr : ends.data();
            const dry_status status = dry_read_strings(get(), static_cast<std::uint32_t>(wanted.size()), wanted.data(), text,
                                                       capacity, length, places, ends.size());
            if (status == DRY_OK && ends.empty()) ends.resize(cells);
            return status;
        });
        std::vector<std::string> out;
        std::uint64_t from = 0;
        for (const auto end : ends) {
            out.emplace_back(joined.data() + from, joined.data() + end);
            from = end;
        }
        return out;
    }

    /// Lists of numbers of a selection, row-major.
    template <class T> std::vector<std::vector<T>> lists(const std::vector<axis> &axes) const {
        static_assert(!std::is_same_v<T, bool>, "std::vector<bool> has no memory of its own: use dry_read_lists");
        const auto wanted = convert(axes);
        std::size_t cells = 1;
        for (const auto &one : wanted) cells *= one.count;
        std::vector<std::uint64_t> lengths; // existing cells: the library was asked first
        const auto numbers = detail::list<T>([&](T *out, std::size_t capacity, std::size_t *length) {
            auto *const places = lengths.empty() ? nullptr : lengths.data();
            const dry_status status = dry_read_lists(get(), type_of<T>(), static_cast<std::uint32_t>(wanted.size()),
                                                     wanted.data(), out, capacity, length, places, lengths.size());
            if (status == DRY_OK && lengths.empty()) lengths.resize(cells);
            return status;
        });
        std::vector<std::vector<T>> out;
        auto from = numbers.begin();
        for (const auto length : lengths) {
            out.emplace_back(from, from + static_cast<std::ptrdiff_t>(length));
            from += static_cast<std::ptrdiff_t>(length);
        }
        return out;
    }

  private:
    template <class T> static dry_read_options options(const view<T> &out, dry_read_report &report) {
        static_assert(!std::is_const_v<T>, "memory to read into cannot be const");
        auto given = dry_read_options_new();
        given.item_size = sizeof(T);
        given.strides = out.strides();
        given.report = &report;
        return given;
    }

    static std::vector<dry_axis> convert(const std::vector<axis> &axes) {
        std::vector<dry_axis> out;
        for (const auto &one : axes) {
            if (one.step == 0) detail::refuse("the step of an axis is 0: it leads from one cell to the next");
            out.push_back({one.start, one.count, one.step});
        }
        return out;
    }
};

/// A writer: a separate log, for one thread or process.
class writer : public detail::handle<dry_writer, dry_writer_close> {
  public:
    using handle::handle;

    /// An open step. If it goes out of scope without end(), for example by an exception, it is dropped.
    class step {
      public:
        step(writer &owner, std::int64_t wanted, bool replace) : writer_(owner.get()) {
            detail::check(dry_begin_step(writer_, wanted, replace, &number_));
        }
        step(step &&other) noexcept : writer_(std::exchange(other.writer_, nullptr)), number_(other.number_) {}
        step &operator=(step &&) = delete;
        ~step() {
            if (writer_ != nullptr) (void)dry_abort_step(writer_);
        }
        std::uint64_t number() const noexcept { return number_; }
        /// Ends the step. If it throws, end() may be called again; else the step is aborted with this object.
        dry_commit_report end() {
            auto report = dry_commit_report_new();
            detail::check(dry_end_step(writer_, &report));
            writer_ = nullptr;
            return report;
        }

      private:
        dry_writer *writer_;
        std::uint64_t number_ = 0;
    };

    /// Begins a step: the given one, or the next.
    step begin_step(std::int64_t wanted = DRY_NO_STEP, bool replace = false) { return step(*this, wanted, replace); }

    /// Writes a block at `offset`, of whole elements or of one member of a record.
    template <class T>
    void put(const std::string &path, const view<T> &block, const extents &offset = {}, const char *member = nullptr) {
        auto given = dry_put_options_new();
        given.item_size = sizeof(T);
        given.strides = block.strides();
        given.member = member;
        const auto *at = detail::offset_of(offset, block.shape().size());
        detail::check(dry_put(get(), detail::text_of(path), type_of<T>(), block.data(), block.size(),
                              detail::ndim(block.shape()), at, detail::pointer(block.shape()), &given));
    }

    /// Writes one value; or an array, std::vector, std::array or std::span as one dimension.
    template <class C> void put(const std::string &path, const C &block, const extents &offset = {}) {
        static_assert(!std::is_same_v<C, std::vector<bool>>, "std::vector<bool> keeps bits: put an array of bool");
        if constexpr (std::is_array_v<C>) {
            put(path, view<const std::remove_extent_t<C>>(block), offset);
        } else if constexpr (detail::is_memory<C>::value) {
            put(path, view<const std::remove_pointer_t<decltype(block.data())>>(block), offset);
        } else {
            put(path, view<const C>(&block, {}), offset);
        }
    }

    /// A block of strings, row-major in `shape`. With `member`, of this member of records: if it is an array, the texts
    /// of the first cell come first, then those of the next one.
    void put_strings(const std::string &path, const std::vector<std::string> &texts, const extents &shape,
                     const extents &offset = {}, const std::string &member = {}) {
        std::vector<const char *> values;
        std::vector<std::uint64_t> lengths;
        if (member.empty() && detail::product(shape) != texts.size())
            detail::refuse("there are " + std::to_string(texts.size()) + " strings, the shape " + detail::listed(shape) +
                           " has another number");
        for (const auto &text : texts) {
            values.push_back(text.data());
            lengths.push_back(text.size());
        }
        const auto *place = detail::offset_of(offset, shape.size());
        if (member.empty())
            detail::check(dry_put_strings(get(), detail::text_of(path), values.data(), lengths.data(), detail::ndim(shape),
                                          place, detail::pointer(shape)));
        else
            detail::check(dry_put_member_strings(get(), detail::text_of(path), detail::text_of(member), values.data(),
                                                 lengths.data(), texts.size(), detail::ndim(shape), place,
                                                 detail::pointer(shape)));
    }

    /// A block of lists of numbers, row-major in `shape`. `member` as in put_strings.
    template <class T>
    void put_lists(const std::string &path, const std::vector<std::vector<T>> &lists, const extents &shape,
                   const extents &offset = {}, const std::string &member = {}) {
        static_assert(!std::is_same_v<T, bool>, "std::vector<bool> has no memory of its own: use dry_put_lists");
        if (member.empty() && detail::product(shape) != lists.size())
            detail::refuse("there are " + std::to_string(lists.size()) + " lists, the shape " + detail::listed(shape) +
                           " has another number");
        std::vector<T> numbers;
        std::vector<std::uint64_t> lengths;
        for (const auto &one : lists) {
            numbers.insert(numbers.end(), one.begin(), one.end());
            lengths.push_back(one.size());
        }
        const auto *place = detail::offset_of(offset, shape.size());
        if (member.empty())
            detail::check(dry_put_lists(get(), detail::text_of(path), type_of<T>(), numbers.data(), lengths.data(),
                                        detail::ndim(shape), place, detail::pointer(shape)));
        else
            detail::check(dry_put_member_lists(get(), detail::text_of(path), detail::text_of(member), type_of<T>(),
                                               numbers.data(), lengths.data(), lists.size(), detail::ndim(shape), place,
                                               detail::pointer(shape)));
    }

    void flush() { detail::check(dry_writer_flush(get())); }
};

/// Values of parameters.
using parameters = std::vector<std::pair<std::string, std::int64_t>>;

namespace detail {
inline std::vector<dry_parameter> convert(const parameters &values) {
    std::vector<dry_parameter> out;
    for (const auto &[name, value] : values) out.push_back({text_of(name), value});
    return out;
}
} // namespace detail

/// An instance of a declared fragment.
class fragment : public detail::handle<dry_fragment, dry_fragment_close> {
  public:
    using handle::handle;

    dry_fragment_info info() const {
        auto out = dry_fragment_info_new();
        detail::check(dry_fragment_describe(get(), &out));
        return out;
    }

    /// Fills memory of the fragment's size.
    template <class T> dry_read_report read(const view<T> &out, std::int64_t step = DRY_NO_STEP) const {
        auto report = dry_read_report_new();
        dense(out);
        detail::check(dry_fragment_read(get(), step, out.data(), out.size(), &report));
        return report;
    }

    /// Writes memory of the fragment's size through a writer.
    template <class T> void write(const view<T> &data, const writer &through) const {
        dense(data);
        detail::check(dry_fragment_write(get(), through.get(), data.data(), data.size()));
    }

    dry_coverage coverage(std::int64_t step = DRY_NO_STEP) const {
        auto out = dry_coverage_new();
        detail::check(dry_fragment_coverage(get(), step, &out));
        return out;
    }

    std::string explain(std::int64_t step = DRY_NO_STEP) const {
        return detail::text([&](auto... a) { return dry_fragment_explain(get(), step, a...); });
    }

  private:
    template <class T> static void dense(const view<T> &memory) {
        if (memory.strides() != nullptr) detail::refuse("a fragment's memory is dense");
    }
};

/// The properties of a new variable; the type is given separately.
struct variable_options {
    extents shape;                 ///< DRY_GROWS for an extent that grows
    std::vector<std::string> dims; ///< names, or none
    bool steps = false;
    bool local = false;
    std::string transform;
    extents chunks;
    std::string access = {}; ///< the expected mix of reads, such as "plane:z 60%, box:64"
};

/// An open container.
class container : public detail::handle<dry_container, dry_container_close> {
  public:
    using handle::handle;

    static container create(const std::string &path, std::int32_t durability = DRY_ASYNC) {
        auto options = dry_create_options_new();
        options.durability = durability;
        dry_container *raw = nullptr;
        detail::check(dry_create(detail::text_of(path), &options, &raw));
        return container(raw);
    }

    static container open(const std::string &path, std::int32_t mode = DRY_READ) {
        dry_container *raw = nullptr;
        detail::check(dry_open(detail::text_of(path), mode, &raw));
        return container(raw);
    }

    /// An earlier snapshot, to be read.
    container at(std::uint64_t snapshot) const {
        dry_container *raw = nullptr;
        detail::check(dry_open_snapshot(get(), snapshot, &raw));
        return container(raw);
    }

    dry_container_info info() const {
        auto out = dry_container_info_new();
        detail::check(dry_container_describe(get(), &out));
        return out;
    }

    /// Moves to the newest snapshot; true if it changed.
    bool refresh() {
        std::int32_t changed = 0;
        detail::check(dry_refresh(get(), &changed));
        return changed != 0;
    }

    std::vector<std::uint64_t> steps() const {
        return detail::list<std::uint64_t>([&](auto... a) { return dry_steps(get(), a...); });
    }

    std::vector<std::uint64_t> snapshots() const {
        return detail::list<std::uint64_t>([&](auto... a) { return dry_snapshots(get(), a...); });
    }

    std::vector<std::string> variables() const {
        std::size_t count = 0;
        return detail::split(detail::list<char>([&](char *names, std::size_t capacity, std::size_t *length) {
            return dry_names(get(), DRY_VARIABLE, names, capacity, length, &count);
        }));
    }

    dry_commit_report commit() {
        auto report = dry_commit_report_new();
        detail::check(dry_commit(get(), &report));
        return report;
    }

    /// Makes everything committed survive a power cut; returns the snapshot's number.
    std::uint64_t flush() {
        std::uint64_t snapshot = 0;
        detail::check(dry_flush(get(), &snapshot));
        return snapshot;
    }

    dry_recover_report recover(std::int32_t decision = DRY_ADOPT_ALL, const std::vector<std::uint64_t> &steps = {}) {
        auto report = dry_recover_report_new();
        detail::check(dry_recover(get(), decision, steps.data(), steps.size(), &report));
        return report;
    }

    dry_verify_report verify() const {
        auto report = dry_verify_report_new();
        detail::check(dry_verify(get(), nullptr, nullptr, &report));
        return report;
    }

    /// Creates a variable of a C++ type; a fill value is zero if not given.
    template <class T>
    void create_variable(const std::string &path, const variable_options &wanted, std::optional<T> fill = std::nullopt) {
        static_assert(type_of<T>() != DRY_RECORD,
                      "create a variable of records with its dry_record; other_type says what a type of your own is");
        auto options = convert(wanted);
        options.type = type_of<T>();
        options.fill = fill ? &*fill : nullptr;
        options.fill_size = fill ? sizeof(T) : 0;
        create(path, wanted, options);
    }

    /// Creates a variable of records.
    void create_variable(const std::string &path, const dry_record &record, const variable_options &wanted) {
        auto options = convert(wanted);
        options.type = DRY_RECORD;
        options.record = &record;
        create(path, wanted, options);
    }

    /// Creates a variable of strings.
    void create_strings(const std::string &path, const variable_options &wanted) {
        auto options = convert(wanted);
        options.type = DRY_STRING;
        create(path, wanted, options);
    }

    /// Creates a variable of lists of numbers of a C++ type.
    template <class T> void create_lists(const std::string &path, const variable_options &wanted) {
        auto options = convert(wanted);
        options.type = DRY_RAGGED;
        options.length = static_cast<std::uint32_t>(type_of<T>());
        create(path, wanted, options);
    }

    void create_group(const std::string &path) { detail::check(dry_create_group(get(), detail::text_of(path))); }
    void rename(const std::string &from, const std::string &to) {
        detail::check(dry_rename(get(), detail::text_of(from), detail::text_of(to)));
    }
    void remove(const std::string &path) { detail::check(dry_delete(get(), detail::text_of(path))); }
    void link(const std::string &path, const std::string &target) {
        detail::check(dry_link(get(), detail::text_of(path), detail::text_of(target)));
    }
    void resize(const std::string &path, const extents &shape) {
        detail::check(dry_resize(get(), detail::text_of(path), detail::ndim(shape), detail::pointer(shape)));
    }

    /// Runs a function and commits its schema changes together; an exception drops them all.
    template <class Act> void batch(Act act) {
        detail::check(dry_begin_batch(get()));
        try {
            act();
        } catch (...) {
            (void)dry_end_batch(get(), 0);
            throw;
        }
        detail::check(dry_end_batch(get(), 1));
    }

    /// Sets an attribute of the variable or group at `owner`, or with "" of the container.
    void set_attribute(const std::string &owner, const std::string &name, const std::string &value) {
        detail::check(dry_set_text_attribute(get(), detail::text_of(owner), detail::text_of(name), detail::text_of(value)));
    }
    void set_attribute(const std::string &owner, const std::string &name, const char *value) {
        set_attribute(owner, name, std::string(value));
    }
    template <class T, class = std::enable_if_t<type_of<T>() != DRY_RECORD>>
    void set_attribute(const std::string &owner, const std::string &name, T value) {
        detail::check(dry_set_attribute(get(), detail::text_of(owner), detail::text_of(name), type_of<T>(), 0, nullptr, &value,
                                        sizeof value));
    }
    /// A list of numbers, or of texts.
    template <class T> void set_attribute(const std::string &owner, const std::string &name, const std::vector<T> &values) {
        if constexpr (std::is_same_v<T, std::string>) {
            std::vector<const char *> texts;
            for (const auto &value : values) texts.push_back(detail::text_of(value));
            detail::check(dry_set_texts_attribute(get(), detail::text_of(owner), detail::text_of(name), texts.data(),
                                                  texts.size()));
        } else {
            static_assert(type_of<T>() != DRY_RECORD, "attributes are numbers and texts");
            const std::uint64_t count = values.size();
            detail::elements<T> dense(values.size());
            std::copy(values.begin(), values.end(), dense.data());
            detail::check(dry_set_attribute(get(), detail::text_of(owner), detail::text_of(name), type_of<T>(), 1, &count,
                                            dense.data(), count * sizeof(T)));
        }
    }

    /// A number, a std::string, or a std::vector of either. An array of more dimensions is returned as all its numbers,
    /// in row-major order.
    template <class T> T attribute(const std::string &owner, const std::string &name) const {
        const char *const of = detail::text_of(owner);
        const char *const called = detail::text_of(name);
        if constexpr (std::is_same_v<T, std::string>) {
            return detail::text([&](auto... a) { return dry_get_text_attribute(get(), of, called, a...); });
        } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
            return detail::split(
                detail::list<char>([&](auto... a) { return dry_get_text_attribute(get(), of, called, a...); }));
        } else if constexpr (detail::is_vector<T>::value) {
            using E = typename T::value_type;
            static_assert(type_of<E>() != DRY_RECORD, "attributes are numbers and texts");
            auto info = dry_attribute_info_new();
            detail::check(dry_attribute_describe(get(), of, called, &info));
            detail::elements<E> out(info.size / sizeof(E));
            detail::check(dry_get_attribute(get(), of, called, type_of<E>(), out.data(), info.size));
            return out.take();
        } else {
            static_assert(type_of<T>() != DRY_RECORD, "attributes are numbers and texts");
            T value{};
            detail::check(dry_get_attribute(get(), of, called, type_of<T>(), &value, sizeof value));
            return value;
        }
    }

    /// A variable of the current snapshot, or one member of its records.
    drystone::variable variable(const std::string &path, const char *member = nullptr) const {
        dry_variable *raw = nullptr;
        detail::check(dry_variable_open(get(), detail::text_of(path), member, &raw));
        return drystone::variable(raw);
    }

    /// A writer without ranks, whose steps wait for no other rank.
    drystone::writer writer() {
        dry_writer *raw = nullptr;
        detail::check(dry_writer_open(get(), nullptr, &raw));
        return drystone::writer(raw);
    }

    /// The writer of one of `nranks` processes.
    drystone::writer writer(std::uint32_t rank, std::uint32_t nranks) {
        auto options = dry_writer_options_new();
        options.rank = rank;
        options.nranks = nranks;
        dry_writer *raw = nullptr;
        detail::check(dry_writer_open(get(), &options, &raw));
        return drystone::writer(raw);
    }

    /// Publishes the committed steps as Zarr arrays in the container's folder.
    dry_publish_report publish() {
        auto report = dry_publish_report_new();
        detail::check(dry_publish(get(), nullptr, nullptr, nullptr, &report));
        return report;
    }

    /// Declares a text in the dataset language.
    void declare(const std::string &text, const parameters &values = {}) {
        const auto given = detail::convert(values);
        detail::check(dry_declare(get(), detail::text_of(text), given.data(), given.size()));
    }

    /// An instance of a declared fragment.
    drystone::fragment fragment(const std::string &name, const parameters &values = {}) const {
        const auto given = detail::convert(values);
        dry_fragment *raw = nullptr;
        detail::check(dry_fragment_open(get(), detail::text_of(name), given.data(), given.size(), &raw));
        return drystone::fragment(raw);
    }

  private:
    static dry_variable_options convert(const variable_options &wanted) {
        auto out = dry_variable_options_new();
        out.ndim = detail::ndim(wanted.shape);
        out.shape = detail::pointer(wanted.shape);
        out.transform = wanted.transform.empty() ? nullptr : detail::text_of(wanted.transform);
        out.access = wanted.access.empty() ? nullptr : detail::text_of(wanted.access);
        out.chunk_ndim = detail::ndim(wanted.chunks);
        out.chunks = detail::pointer(wanted.chunks);
        out.has_steps = wanted.steps;
        out.local = wanted.local;
        return out;
    }

    void create(const std::string &path, const variable_options &wanted, dry_variable_options &options) {
        std::vector<const char *> names;
        for (const auto &name : wanted.dims) names.push_back(detail::text_of(name));
        options.dims = names.empty() ? nullptr : names.data();
        options.dims_count = static_cast<std::uint32_t>(names.size());
        detail::check(dry_create_variable(get(), detail::text_of(path), &options));
    }
};

/// A container that the ranks of a program have opened together. All functions except get() and container() are
/// collective.
class team : public detail::handle<dry_team, dry_team_close> {
  public:
    using handle::handle;

    static team create(const std::string &path, const dry_communicator &ranks, std::int32_t durability = DRY_ASYNC) {
        auto options = dry_create_options_new();
        options.durability = durability;
        dry_team *raw = nullptr;
        detail::check(dry_team_create(detail::text_of(path), &options, &ranks, &raw));
        return team(raw);
    }

    static team open(const std::string &path, const dry_communicator &ranks, std::int32_t mode = DRY_READ) {
        dry_team *raw = nullptr;
        detail::check(dry_team_open(detail::text_of(path), mode, &ranks, &raw));
        return team(raw);
    }

    /// This rank's container.
    drystone::container container() const {
        dry_container *raw = nullptr;
        detail::check(dry_team_container(get(), &raw));
        return drystone::container(raw);
    }

    /// Runs a function on this rank; if it throws on any rank, an error is thrown on all. Then all ranks see its
    /// effects. An exception other than drystone::error is rethrown on its rank, after the others were notified.
    template <class Act> void agree(Act act) {
        dry_status mine = DRY_OK;
        try {
            act();
        } catch (const error &failure) {
            mine = failure.status();
        } catch (...) {
            (void)dry_team_agree(get(), dry_set_error(DRY_CANCELLED, "an exception of this rank's program"));
            throw;
        }
        detail::check(dry_team_agree(get(), mine));
    }

    /// As variable::read, on all ranks: each reads a box of its own.
    template <class T>
    dry_read_report read(const drystone::variable &of, const view<T> &out, std::int64_t step = DRY_NO_STEP,
                         const extents &offset = {}) {
        static_assert(!std::is_const_v<T>, "memory to read into cannot be const");
        auto report = dry_read_report_new();
        auto given = dry_read_options_new();
        given.item_size = sizeof(T);
        given.strides = out.strides();
        given.report = &report;
        const auto *at = detail::pointer(offset);
        // An offset with another number of dimensions must fail on all ranks: pass a box that no variable has.
        const auto ndim = offset.empty() || offset.size() == out.shape().size() ? detail::ndim(out.shape()) : 99u;
        detail::check(dry_team_read_box(get(), of.get(), step, type_of<T>(), out.data(), out.size(), ndim, at,
                                        out.shape().data(), &given));
        return report;
    }

    /// The writer of all ranks together. `writers` ranks write; 0: the cheapest number.
    drystone::writer writer(std::uint32_t writers = 0) {
        auto options = dry_team_writer_options_new();
        options.writers = writers;
        dry_writer *raw = nullptr;
        detail::check(dry_team_writer_open(get(), &options, &raw));
        return drystone::writer(raw);
    }
};

} // namespace drystone
#endif
