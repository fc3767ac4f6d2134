// Objects that close themselves, views of memory, element types by template, failures as exceptions.
#include "drystone.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#define REQUIRE(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                               \
            std::exit(1);                                                                                              \
        }                                                                                                              \
    } while (0)

using drystone::axis;
using drystone::container;
using drystone::extents;
using drystone::view;

template <class Act> static void fails(dry_status expected, const char *text, Act act) {
    try {
        act();
    } catch (const drystone::error &failure) {
        if (failure.status() == expected && std::strstr(failure.what(), text) != nullptr) return;
        std::fprintf(stderr, "%s: %s\n", dry_status_name(failure.status()), failure.what());
        std::exit(1);
    }
    std::fprintf(stderr, "no failure: %s\n", text);
    std::exit(1);
}

static void check_blocks(container &c) {
    c.create_variable<double>("T", {{4, 6}, {"y", "x"}, true, false, "shuffle,zstd:1", {2, 3}}, 0.5);
    auto w = c.writer(0, 1);
    double memory[6][5];
    for (int i = 0; i < 6; ++i)
        for (int j = 0; j < 5; ++j) memory[i][j] = 10 * i + j;
    {
        auto step = w.begin_step();
        // Four of five columns, transposed: row j of the block is column j of the memory.
        w.put("T", view<const double>(&memory[0][0], {4, 6}, {1, 5}));
        REQUIRE(step.number() == 0);
        REQUIRE(step.end().changed == 1);
    }
    try {
        auto step = w.begin_step();
        w.put("T", view<const double>(&memory[0][0], {1, 1}), {3, 5});
        throw std::runtime_error("in the middle of a step");
    } catch (const std::runtime_error &) {
    }
    {
        auto step = w.begin_step();
        REQUIRE(step.number() == 1);
        const std::array<double, 6> row{1, 2, 3, 4, 5, 6};
        w.put("T", view<const double>(row, {1, 6}), {2, 0});
        step.end();
    }
    w.close();
    const auto T = c.variable("T");
    REQUIRE(T.type() == "float64" && T.transform() == "shuffle,zstd:1");
    REQUIRE((T.shape() == extents{4, 6}) && T.info().step_axis == 2 && (T.steps() == std::vector<std::uint64_t>{0, 1}));
    const auto all = T.read<double>(0);
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 6; ++j) REQUIRE(all[6 * i + j] == 10 * j + i);
    const auto corner = T.read<double>(0, {2, 4});
    REQUIRE(corner.size() == 4 && corner[0] == 42 && corner[3] == 53);
    REQUIRE(T.read<double>(1, {2, 1}, extents{2, 1})[0] == 2 && T.read<double>(1, {3, 0}, extents{1, 1})[0] == 0.5);
    std::vector<double> through(4);
    const auto cost = T.select(view<double>(through, {2, 1, 2}), {axis(0, 2), 2, axis(5, 2, -5)});
    REQUIRE(through[0] == 52 && through[1] == 2 && through[2] == 6 && through[3] == 1 && cost.blocks >= 2);
    REQUIRE(T.explain({axis(0, 2), 2, axis(0, 6)}).find("T [") == 0);
    double backwards[2][3] = {};
    T.read(view<double>(&backwards[1][2], {2, 3}, {-3, -1}), 0);
    REQUIRE(backwards[1][2] == 0 && backwards[1][1] == 10 && backwards[0][0] == 21);
    const auto blocks = T.blocks(1);
    REQUIRE(blocks.size() == 1 && blocks[0].offset[0] == 2 && blocks[0].count[1] == 6);
    std::array<double, 6> row{};
    T.read_block(view<double>(row, {1, 6}), 0, 1);
    REQUIRE(row[5] == 6);
    fails(DRY_INVALID_ARGUMENT, "convert it first", [&] { T.read<float>(0); });
    fails(DRY_INVALID_ARGUMENT, "another shape", [&] { T.select(view<double>(through), {0, axis(0, 3), 0}); });
    fails(DRY_OUT_OF_RANGE, "axis 0", [&] { T.read<double>(7); });
    fails(DRY_INVALID_ARGUMENT, "another size", [&] { view<double>(through, {5}); });
    fails(DRY_NOT_FOUND, "there is no variable", [&] { c.variable("nothing"); });
}

struct particle {
    float x, y;
    std::int64_t id;
};

static void check_kinds(container &c) {
    dry_member members[3] = {};
    members[0] = {"x", DRY_FLOAT32, 0, offsetof(particle, x), nullptr, nullptr, 0, 0};
    members[1] = {"y", DRY_FLOAT32, 0, offsetof(particle, y), nullptr, nullptr, 0, 0};
    members[2] = {"id", DRY_INT64, 0, offsetof(particle, id), nullptr, nullptr, 0, 0};
    c.batch([&] {
        c.create_variable("p", dry_record_new(sizeof(particle), members, 3), {{DRY_GROWS}, {}, false, false, "", {}});
        c.create_variable<std::complex<float>>("z", {{2}, {}, false, false, "", {}});
        c.create_variable<bool>("flag", {{}, {}, false, false, "", {}});
        c.create_strings("words", {{2}, {}, false, false, "", {}});
    });
    fails(DRY_CONFLICT, "exists", [&] {
        c.batch([&] {
            c.create_group("never");
            c.create_variable<float>("z", {{2}, {}, false, false, "", {}});
        });
    });
    auto w = c.writer();
    w.put("p", std::vector<particle>{{1, 2, 3}, {4, 5, 6}});
    w.put("p", view<const float>(std::array<float, 1>{7}), {1}, "y");
    w.put("z", std::vector<std::complex<float>>{{1, 2}, {3, 4}});
    w.put("flag", true);
    w.put_strings("words", {"dry", std::string("st\0ne", 5)}, {2});
    w.close();
    const auto p = c.variable("p").read<particle>();
    REQUIRE(p.size() == 2 && p[0].id == 3 && p[1].x == 4 && p[1].y == 7);
    REQUIRE(c.variable("p", "id").read<std::int64_t>()[1] == 6);
    REQUIRE(c.variable("z").read<std::complex<float>>()[1] == std::complex<float>(3, 4));
    bool flag = false;
    c.variable("flag").read(view<bool>(&flag, {}));
    REQUIRE(flag);
    const auto words = c.variable("words").strings({axis(0, 2)});
    REQUIRE(words[0] == "dry" && words[1].size() == 5);
    c.set_attribute("p", "author", "Ada");
    c.set_attribute("", "dt", 0.25);
    c.set_attribute("", "counts", std::vector<std::int32_t>{1, 2, 3});
    REQUIRE(c.attribute<std::string>("p", "author") == "Ada" && c.attribute<double>("", "dt") == 0.25);
    const auto names = c.variables();
    REQUIRE(names.size() == 5 && names[0] == "T" && names[4] == "z");
    c.link("alias", "z");
    c.rename("z", "w");
    c.remove("flag");
    REQUIRE(c.variables().size() == 4); // the link leads nowhere now
}

static void check_handles(container &c, const std::string &path) {
    auto reader = container::open(path);
    container moved(std::move(reader));
    REQUIRE(reader.get() == nullptr && moved.get() != nullptr);
    const auto before = moved.info().snapshot;
    c.create_group("more");
    REQUIRE(moved.refresh() && !moved.refresh() && moved.info().snapshot == before + 1);
    auto earlier = moved.at(1);
    REQUIRE(earlier.info().snapshot == 1);
    moved = std::move(earlier);
    REQUIRE(moved.info().snapshot == 1 && moved.snapshots().size() == 1);
    moved.close();
    moved.close(); // closing nothing does nothing
    fails(DRY_INVALID_ARGUMENT, "NULL", [&] { moved.info(); });
    fails(DRY_NOT_FOUND, "nothing at", [] { container::open("nowhere.dry"); });
    REQUIRE(c.verify().damaged == 0);
}

static void check_fragments(container &c) {
    c.declare("param n\ndataset { var u[2*n] float32 }\nfragment half(r) { var u[i:n] = u[i + n*r] }\n", {{"n", 3}});
    auto w = c.writer();
    for (int r = 0; r < 2; ++r) {
        const std::array<float, 3> data{10.f * r, 10.f * r + 1, 10.f * r + 2};
        c.fragment("half", {{"r", r}}).write(view<const float>(data), w);
    }
    w.close();
    c.refresh();
    const auto second = c.fragment("half", {{"r", 1}});
    std::array<float, 3> out{};
    second.read(view<float>(out));
    REQUIRE(out[2] == 12 && second.coverage().missing == 0 && second.info().size == 12 && !second.explain().empty());
}

/* Commits by hand, recovery, growth, listed cells, searches and publishing. */
static void check_life() {
    auto c = container::create("life.dry");
    c.create_variable<double>("u", {{2, 3}, {}, true, false, "", {}});
    auto w = c.writer();
    {
        auto step = w.begin_step();
        const std::vector<double> row{1, 2, 3};
        w.put("u", view<const double>(row, {1, 3}));
        step.end();
    }
    w.flush();
    REQUIRE(c.commit().changed == 1 && c.commit().changed == 0);
    REQUIRE(c.flush() >= 2);
    REQUIRE(c.recover().adopted == 0);
    c.resize("u", {4, 3});
    auto u = c.variable("u");
    REQUIRE(u.shape() == drystone::extents({4, 3}));
    REQUIRE(u.points<double>({0, 0, 2, 0, 0, 0}) == std::vector<double>({3, 1}));
    REQUIRE(u.find(0, 2.0, 9.0).size() == 2);
    REQUIRE(c.publish().arrays == 1);
    fails(DRY_OUT_OF_RANGE, "not all in", [&] { u.points<double>({0, 9, 9}); });
}

static std::int32_t all_gather(void *, const void *send, std::uint64_t size, void *receive) {
    std::memcpy(receive, send, size);
    return 0;
}

static std::int32_t exchange(void *, const void *send, const std::uint64_t *sizes, void *receive, const std::uint64_t *) {
    std::memcpy(receive, send, sizes[0]);
    return 0;
}

static void check_team() {
    auto ranks = dry_communicator_new();
    ranks.size = 1;
    ranks.all_gather = all_gather;
    ranks.exchange = exchange;
    auto g = drystone::team::create("team.dry", ranks, DRY_MEMORY);
    auto c = g.container();
    g.agree([&] { c.create_variable<float>("u", {{4}, {}, true, false, "", {}}); });
    fails(DRY_NOT_FOUND, "nothing", [&] { g.agree([&] { c.remove("nothing"); }); });
    auto w = g.writer();
    auto step = w.begin_step();
    w.put("u", std::vector<float>{1, 2}, {2});
    REQUIRE(step.end().changed == 1);
    w.close();
    REQUIRE(c.variable("u").read<float>(0)[3] == 2);
    fails(DRY_NOT_FOUND, "nothing at", [&] { drystone::team::open("nowhere.dry", ranks); });
}

int main() {
    const std::string path = "objects.dry";
    {
        auto c = container::create(path, DRY_MEMORY);
        check_blocks(c);
        check_kinds(c);
        check_handles(c, path);
        check_fragments(c);
    }
    check_life();
    check_team();
    REQUIRE(container::open(path).steps().size() == 2);
    REQUIRE(!drystone::version().empty());
    return 0;
}
