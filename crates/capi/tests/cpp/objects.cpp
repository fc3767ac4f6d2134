// Objects that close themselves, views of memory, element types by template, failures as exceptions.
#include "drystone.hpp"

#include "check.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

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
    fails(DRY_INVALID_ARGUMENT, "axis is 0", [&] { T.select(view<double>(through), {0, axis(0, 4, 0), 0}); });
    fails(DRY_OUT_OF_RANGE, "axis 0", [&] { T.read<double>(7); });
    fails(DRY_INVALID_ARGUMENT, "another number", [&] { view<double>(through, {5}); });
    fails(DRY_NOT_FOUND, "there is no variable", [&] { c.variable("nothing"); });
}

struct particle {
    float x, y;
    std::int64_t id;
};

static void check_kinds(container &c) {
    dry_member members[3] = {}, any[2] = {};
    any[0] = {"name", DRY_STRING, 0, 0, nullptr, nullptr, 0, 0};
    any[1] = {"hits", DRY_RAGGED, DRY_FLOAT64, 16, nullptr, nullptr, 0, 0};
    members[0] = {"x", DRY_FLOAT32, 0, offsetof(particle, x), nullptr, nullptr, 0, 0};
    members[1] = {"y", DRY_FLOAT32, 0, offsetof(particle, y), nullptr, nullptr, 0, 0};
    members[2] = {"id", DRY_INT64, 0, offsetof(particle, id), nullptr, nullptr, 0, 0};
    c.batch([&] {
        c.create_variable("p", dry_record_new(sizeof(particle), members, 3), {{DRY_GROWS}, {}, false, false, "", {}});
        c.create_variable<std::complex<float>>("z", {{2}, {}, false, false, "", {}});
        c.create_variable<bool>("flag", {{}, {}, false, false, "", {}});
        c.create_strings("words", {{2}, {}, false, false, "", {}});
        c.create_lists<double>("lists", {{2, 2}, {}, false, false, "", {}});
        c.create_variable("any", dry_record_new(32, any, 2), {{2}, {}, false, false, "", {}});
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
    w.put_lists<double>("lists", {{1, 2, 3}, {}}, {1, 2}, {1, 0});
    w.put_strings("any", {"one", "two"}, {2}, {}, "name");
    w.put_lists<double>("any", {{1.5, 2.5}}, {1}, {1}, "hits");
    fails(DRY_INVALID_ARGUMENT, "", [&] { w.put_strings("any", {"one"}, {2}, {}, "name"); });
    fails(DRY_INVALID_ARGUMENT, "has lists of float64", [&] { w.put_lists<float>("lists", {{1}}, {1, 1}); });
    fails(DRY_INVALID_ARGUMENT, "1 lists, the shape [2, 2]", [&] { w.put_lists<double>("lists", {{1}}, {2, 2}); });
    w.close();
    REQUIRE(c.variable("any", "name").strings({axis(0, 2)}) == std::vector<std::string>({"one", "two"}));
    REQUIRE(c.variable("any", "hits").lists<double>({axis(0, 2)}) == std::vector<std::vector<double>>({{}, {1.5, 2.5}}));
    const auto p = c.variable("p").read<particle>();
    REQUIRE(p.size() == 2 && p[0].id == 3 && p[1].x == 4 && p[1].y == 7);
    REQUIRE(c.variable("p", "id").read<std::int64_t>()[1] == 6);
    REQUIRE(c.variable("z").read<std::complex<float>>()[1] == std::complex<float>(3, 4));
    bool flag = false;
    c.variable("flag").read(view<bool>(&flag, {}));
    REQUIRE(flag);
    c.create_strings("none", {{2, 3}, {}, false, false, "", {}});
    const auto none = c.variable("none");
    REQUIRE(none.strings({axis(0, 2), axis(0, 3)}) == std::vector<std::string>(6) && none.strings({axis(0, 2), axis(3, 0)}).empty());
    fails(DRY_OUT_OF_RANGE, "axis 1", [&] { none.strings({axis(0, 2), axis(0, std::uint64_t{1} << 60)}); });
    fails(DRY_INVALID_ARGUMENT, "not strings", [&] { c.variable("z").strings({axis(0, 2)}); });
    const auto words = c.variable("words").strings({axis(0, 2)});
    REQUIRE(words[0] == "dry" && words[1].size() == 5);
    const auto lists = c.variable("lists").lists<double>({axis(0, 2), axis(0, 2)});
    REQUIRE(lists == std::vector<std::vector<double>>({{}, {}, {1, 2, 3}, {}}));
    fails(DRY_INVALID_ARGUMENT, "has lists of float64", [&] { c.variable("lists").lists<float>({axis(0, 2), axis(0, 2)}); });
    fails(DRY_INVALID_ARGUMENT, "not lists", [&] { c.variable("words").lists<double>({axis(0, 2)}); });
    c.remove("lists");
    c.set_attribute("p", "author", "Ada");
    c.set_attribute("", "dt", 0.25);
    c.set_attribute("", "counts", std::vector<std::int32_t>{1, 2, 3});
    REQUIRE(c.attribute<std::string>("p", "author") == "Ada" && c.attribute<double>("", "dt") == 0.25);
    const auto names = c.variables();
    REQUIRE(names.size() == 7 && names[0] == "T" && names[6] == "z");
    c.link("alias", "z");
    c.rename("z", "w");
    c.remove("flag");
    REQUIRE(c.variables().size() == 6); // the link leads nowhere now
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
    fails(DRY_OUT_OF_RANGE, "are not in", [&] { u.points<double>({0, 9, 9}); });
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
    try {
        g.agree([] { throw std::runtime_error("of the program"); });
        REQUIRE(false);
    } catch (const drystone::error &) {
        REQUIRE(false); // rethrown, after the other ranks were notified
    } catch (const std::runtime_error &) {
        REQUIRE(std::strstr(dry_last_error(), "an exception of this rank") != nullptr);
    }
    c.close(); // a separate handle: the team stays open
    c = g.container();
    auto w = g.writer();
    auto step = w.begin_step();
    w.put("u", std::vector<float>{1, 2}, {2});
    REQUIRE(step.end().changed == 1);
    w.close();
    REQUIRE(c.variable("u").read<float>(0)[3] == 2);
    fails(DRY_NOT_FOUND, "nothing at", [&] { drystone::team::open("nowhere.dry", ranks); });
}

/* A number of 16 bits for which C++17 has no name. */
struct half {
    std::uint16_t bits;
};
template <> inline constexpr dry_type drystone::other_type<half> = DRY_FLOAT16;

/* What the header decides for itself: element types, sizes that overflow, texts that go on behind a NUL. */
static void check_elements() {
    auto c = container::create("elements.dry", DRY_MEMORY);
    const drystone::variable_options three{{3}, {}, false, false, "", {}}, one{};
    c.create_variable<bool>("flags", three);
    c.create_variable<half>("halves", three);
    c.create_variable<std::complex<double>>("z", one);
    c.create_variable<float>("f", {{2, 3}, {}, false, false, "", {}});
    dry_member member = {"x", DRY_FLOAT32, 0, 0, nullptr, nullptr, 0, 0};
    struct point {
        float x;
    };
    c.create_variable("p", dry_record_new(sizeof(point), &member, 1), one);
    auto w = c.writer();
    const bool flags[3] = {true, false, true};
    w.put("flags", flags);
    w.put("halves", std::array<half, 3>{{{0x3c00}, {0x4000}, {0}}});
    w.put("z", std::complex<double>(1, -1));
    w.put("p", point{7});
    float memory[6] = {1, 2, 3, 4, 5, 6};
    const std::vector<float> six(memory, memory + 6);
    w.put("f", view<float>(memory, {2, 3}));
    const std::string odd("f\0g", 3);
    const std::int64_t most = INT64_MAX, least = INT64_MIN;
    // Symptom: strides that overflow to 0 bytes were accepted.
    fails(DRY_INVALID_ARGUMENT, "address space", [&] { w.put("f", view<float>(memory, {2, 3}, {least, 1})); });
    fails(DRY_INVALID_ARGUMENT, "address space", [&] { w.put("f", view<float>(memory, {2, 3}, {std::int64_t{1} << 62, 1})); });
    fails(DRY_INVALID_ARGUMENT, "address space", [&] { w.put("f", view<float>(memory, {2, 3}, {most / 4, 1})); });
    fails(DRY_INVALID_ARGUMENT, "2 dimensions has 1", [&] { view<float>(memory, {2, 3}, {1}); });
    fails(DRY_INVALID_ARGUMENT, "6 elements, the shape [2, 2]", [&] { view<const float>(six, {2, 2}); });
    fails(DRY_INVALID_ARGUMENT, "another number", [&] { view<const float>(std::vector<float>{}, {1ull << 33, 1ull << 31}); });
    fails(DRY_INVALID_ARGUMENT, "too large", [&] { w.put("f", view<float>(memory, {1ull << 33, 1ull << 31})); });
    // Symptom: the text after a NUL was dropped, and "f" written.
    fails(DRY_INVALID_ARGUMENT, "NUL", [&] { w.put(odd, view<float>(memory, {2, 3})); });
    fails(DRY_INVALID_ARGUMENT, "NUL", [&] { c.create_group(odd); });
    fails(DRY_INVALID_ARGUMENT, "NUL", [&] { c.set_attribute("f", "name", odd); });
    fails(DRY_INVALID_ARGUMENT, "2 strings, the shape [3]", [&] { w.put_strings("f", {"a", "b"}, {3}); });
    w.close();
    REQUIRE(c.variable("flags").read<bool>() == std::vector<bool>({true, false, true}));
    REQUIRE(c.variable("flags").points<bool>({2, 1}) == std::vector<bool>({true, false}));
    REQUIRE(c.variable("halves").type() == "float16" && c.variable("halves").read<half>()[1].bits == 0x4000);
    REQUIRE(c.variable("z").read<std::complex<double>>()[0] == std::complex<double>(1, -1));
    REQUIRE(c.variable("p").read<point>()[0].x == 7);
    const auto f = c.variable("f");
    fails(DRY_INVALID_ARGUMENT, "3 coordinates", [&] { f.points<float>({0, 0, 1}); });
    fails(DRY_INVALID_ARGUMENT, "one value", [&] { c.variable("z").points<std::complex<double>>({0}); });
    fails(DRY_OUT_OF_RANGE, "larger than the variable, [2, 3]", [&] { f.read<float>(DRY_NO_STEP, {0, 0}, extents{1ull << 40, 1}); });
    fails(DRY_INVALID_ARGUMENT, "another number of dimensions", [&] { f.read<float>(DRY_NO_STEP, {0, 0}, extents{1}); });
    fails(DRY_INVALID_ARGUMENT, "63-bit", [&] { f.strings({axis(0, UINT64_MAX), 0}); });
    c.set_attribute("f", "axes", std::vector<std::string>{"y", "x"});
    c.set_attribute("f", "range", std::vector<double>{1, 6});
    c.set_attribute("f", "known", std::vector<bool>{true, false});
    REQUIRE(c.attribute<std::vector<std::string>>("f", "axes") == std::vector<std::string>({"y", "x"}));
    REQUIRE(c.attribute<std::vector<double>>("f", "range") == std::vector<double>({1, 6}));
    REQUIRE(c.attribute<std::vector<bool>>("f", "known") == std::vector<bool>({true, false}));
    fails(DRY_INVALID_ARGUMENT, "not float32", [&] { c.attribute<std::vector<float>>("f", "range"); });
}

/* The copy of a view that is not const was one dimension of as many elements as the view has bytes. */
static void check_views(container &c) {
    c.create_variable<float>("views", {{2, 3}, {}, false, false, "", {}});
    float memory[2][4] = {{1, 2, 3, 0}, {4, 5, 6, 0}};
    view<float> rows(&memory[0][0], {2, 3}, {4, 1});
    auto copy = rows;
    const view<const float> fixed(rows);
    REQUIRE((copy.shape() == extents{2, 3}) && copy.strides()[0] == 16 && copy.size() == 28 && copy.data() == rows.data());
    REQUIRE((fixed.shape() == extents{2, 3}) && fixed.strides()[0] == 16 && fixed.size() == 28);
    copy = rows;
    auto w = c.writer();
    w.put("views", copy);
    w.put("views", fixed);
    w.close();
    REQUIRE(c.variable("views").read<float>() == std::vector<float>({1, 2, 3, 4, 5, 6}));
    auto back = view<float>(memory[1], {1, 3});
    auto again = back;
    c.variable("views").read(again);
    REQUIRE(memory[1][0] == 1 && memory[1][2] == 3);
    static_assert(!std::is_convertible_v<view<const float>, view<float>>);
    static_assert(!std::is_constructible_v<view<float>, view<double>>);
}

/* A writer and a variable outlive their container: it was said to be closed to them too. */
static void check_survivors() {
    auto c = std::make_unique<container>(container::create("survivors.dry", DRY_MEMORY));
    c->create_variable<float>("f", {{2}, {}, false, false, "", {}});
    auto w = c->writer();
    const auto f = c->variable("f");
    c.reset();
    w.put("f", std::vector<float>{1, 2});
    REQUIRE(f.read<float>()[1] == 0);
    w.close();
    REQUIRE(container::open("survivors.dry").variable("f").read<float>()[1] == 2);
}

/// A step whose end fails stays with its object: end() says again why it fails, and the writer closes.
static void check_refused_end() {
    const std::filesystem::path path = "refused.dry", away = "refused.away";
    auto c = container::create(path.string());
    c.create_variable<double>("u", {{2}, {}, true, false, "", {}});
    auto w = c.writer();
    const std::array<double, 2> values{1, 2};
    {
        auto step = w.begin_step();
        w.put("u", view<const double>(values, {2}));
        std::filesystem::rename(path, away);
        for (int attempt = 0; attempt < 2; ++attempt) {
            std::string why;
            try {
                step.end();
            } catch (const drystone::error &refused) {
                why = refused.what();
            }
            REQUIRE(why.find("removed or renamed") != std::string::npos);
        }
        std::filesystem::rename(away, path);
    }
    w.close();
    REQUIRE(c.variable("u").steps().empty());
}

int main() {
    check_refused_end();
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
    check_elements();
    {
        auto c = container::create("views.dry", DRY_MEMORY);
        check_views(c);
    }
    check_survivors();
    REQUIRE(container::open(path).steps().size() == 2);
    REQUIRE(!drystone::version().empty());
    return 0;
}
