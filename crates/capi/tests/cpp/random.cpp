// Random blocks and selections through views of any strides, against a plain model: cell by cell, for several element
// types.
#include "drystone.hpp"

#include "check.hpp"

#include <complex>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>

using drystone::axis;
using drystone::extents;
using drystone::view;

namespace {
std::mt19937_64 numbers(2026);
std::uint64_t any(std::uint64_t below) { return below == 0 ? 0 : numbers() % below; }

struct particle {
    double x;
    std::int32_t id, group;
    bool operator==(const particle &o) const { return x == o.x && id == o.id && group == o.group; }
};

template <class T> T some() { return static_cast<T>(any(100)); }
template <> bool some<bool>() { return any(2) != 0; }
template <> std::complex<float> some<std::complex<float>>() { return {static_cast<float>(any(100)), -1}; }
template <> particle some<particle>() { return {static_cast<double>(any(100)), static_cast<std::int32_t>(any(9)), 1}; }

/// All positions of a shape, row-major.
template <class Act> void each(const extents &shape, Act act) {
    std::uint64_t cells = 1;
    for (const auto n : shape) cells *= n;
    for (std::uint64_t n = 0; n < cells; ++n) {
        extents at(shape.size());
        std::uint64_t rest = n;
        for (std::size_t d = shape.size(); d-- > 0; rest /= shape[d]) at[d] = rest % shape[d];
        act(at);
    }
}

/// Memory with the cells of a shape in any order of dimensions, with gaps, forwards and backwards.
template <class T> struct memory {
    explicit memory(const extents &of) : shape(of), strides(of.size()), dense(any(3) == 0) {
        std::vector<std::size_t> order(of.size());
        for (std::size_t d = 0; d < order.size(); ++d) order[d] = order.size() - 1 - d;
        if (!dense) std::shuffle(order.begin(), order.end(), numbers);
        std::int64_t stride = dense ? 1 : 1 + static_cast<std::int64_t>(any(3));
        for (const auto d : order) {
            const bool backwards = !dense && any(2) != 0;
            const auto reach = stride * static_cast<std::int64_t>(shape[d] > 0 ? shape[d] - 1 : 0);
            strides[d] = backwards ? -stride : stride;
            if (backwards) first += reach;
            last += reach;
            stride *= static_cast<std::int64_t>(shape[d] > 0 ? shape[d] : 1);
            if (!dense) stride += static_cast<std::int64_t>(any(2));
        }
        kept.reset(new T[static_cast<std::size_t>(last) + 1]());
    }
    T &operator[](const extents &at) {
        auto place = first;
        for (std::size_t d = 0; d < at.size(); ++d) place += strides[d] * static_cast<std::int64_t>(at[d]);
        return kept[static_cast<std::size_t>(place)];
    }
    template <class As> view<As> seen() {
        return dense ? view<As>(kept.get() + first, shape) : view<As>(kept.get() + first, shape, strides);
    }
    extents shape;
    std::vector<std::int64_t> strides;
    bool dense;
    std::int64_t first = 0, last = 0;
    std::unique_ptr<T[]> kept;
};

template <class T> void check(drystone::container &c, const std::string &name, const extents &shape, bool steps) {
    constexpr std::uint64_t STEPS = 3;
    drystone::variable_options options{shape, {}, steps, false, any(2) ? "shuffle,zstd:1" : "", {}};
    if constexpr (std::is_same_v<T, particle>) {
        const dry_member members[3] = {{"x", DRY_FLOAT64, 0, offsetof(particle, x), nullptr, nullptr, 0, 0},
                                       {"id", DRY_INT32, 0, offsetof(particle, id), nullptr, nullptr, 0, 0},
                                       {"group", DRY_INT32, 0, offsetof(particle, group), nullptr, nullptr, 0, 0}};
        c.create_variable(name, dry_record_new(sizeof(particle), members, 3), options);
    } else {
        c.create_variable<T>(name, options);
    }
    std::map<extents, T> model; // by step and position
    const auto expected = [&](const extents &at) { return model.count(at) ? model[at] : T{}; };
    const auto key = [&](std::uint64_t step, const extents &at) {
        extents out(at);
        if (steps) out.insert(out.begin(), step);
        return out;
    };
    for (int round = 0; round < 12; ++round) {
        auto w = c.writer(0, 1);
        for (int n = 0; n < 3; ++n) {
            const auto step = any(STEPS);
            extents offset, count;
            for (const auto extent : shape) {
                offset.push_back(any(extent));
                count.push_back(any(extent - offset.back() + 1));
            }
            memory<T> block(count);
            each(count, [&](const extents &at) { block[at] = some<T>(); });
            const auto put = [&] {
                if (any(2)) w.put(name, block.template seen<T>(), offset);
                else w.put(name, block.template seen<const T>(), offset);
            };
            bool kept = true;
            if (steps) {
                auto open = w.begin_step(static_cast<std::int64_t>(step));
                put();
                kept = any(4) != 0;
                if (kept) open.end();
            } else {
                put();
            }
            if (kept) {
                each(count, [&](extents at) {
                    const T value = block[at];
                    for (std::size_t d = 0; d < at.size(); ++d) at[d] += offset[d];
                    model[key(step, at)] = value;
                });
            }
        }
        w.close();
        const auto v = c.variable(name);
        const std::uint64_t there = steps ? v.info().step_axis : 1;
        for (int n = 0; n < 6 && there > 0; ++n) {
            extents all(shape), counts;
            if (steps) all.insert(all.begin(), there);
            std::vector<axis> axes;
            for (const auto extent : all) {
                const auto start = any(extent);
                auto by = static_cast<std::int64_t>(1 + any(3));
                if (any(2)) by = -by;
                const auto most = (by < 0 ? start : extent - 1 - start) / static_cast<std::uint64_t>(by < 0 ? -by : by) + 1;
                axes.emplace_back(start, any(most + 1), by);
                counts.push_back(axes.back().count);
            }
            memory<T> out(counts);
            v.select(out.template seen<T>(), axes);
            std::vector<std::uint64_t> listed;
            std::vector<T> values;
            each(counts, [&](const extents &at) {
                extents cell(at);
                for (std::size_t d = 0; d < at.size(); ++d)
                    cell[d] = axes[d].start + at[d] * static_cast<std::uint64_t>(axes[d].step);
                REQUIRE(out[at] == expected(cell));
                listed.insert(listed.end(), cell.begin(), cell.end());
                values.push_back(expected(cell));
            });
            if (!all.empty()) REQUIRE(v.points<T>(listed) == values);
            const auto step = any(there);
            extents offset, count;
            for (const auto extent : shape) {
                offset.push_back(any(extent + 1));
                count.push_back(extent - offset.back());
            }
            const auto of = steps ? static_cast<std::int64_t>(step) : DRY_NO_STEP;
            const auto corner = v.read<T>(of, offset);
            memory<T> again(count);
            v.read(again.template seen<T>(), of, offset);
            std::size_t i = 0;
            each(count, [&](const extents &at) {
                extents cell(at);
                for (std::size_t d = 0; d < at.size(); ++d) cell[d] += offset[d];
                REQUIRE(corner[i++] == expected(key(step, cell)) && again[at] == expected(key(step, cell)));
            });
            REQUIRE(i == corner.size());
        }
    }
}
} // namespace

int main() {
    auto c = drystone::container::create("random.dry", DRY_MEMORY);
    for (int n = 0; n < 4; ++n) {
        const auto name = [&](const char *type) { return type + std::to_string(n); };
        const auto shape = [&] {
            extents out(any(4));
            for (auto &extent : out) extent = 1 + any(6);
            return out;
        };
        check<double>(c, name("double"), shape(), any(2));
        check<std::uint8_t>(c, name("byte"), shape(), any(2));
        check<std::int64_t>(c, name("long"), shape(), any(2));
        check<bool>(c, name("bool"), shape(), any(2));
        check<std::complex<float>>(c, name("complex"), shape(), any(2));
        check<particle>(c, name("particle"), shape(), any(2));
    }
    return 0;
}
