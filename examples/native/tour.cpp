// Writes two steps of a field, block by block, or reads a container of any of the tours:  tour write|read CONTAINER
#include <drystone.hpp>

#include <iostream>

using drystone::axis;
using drystone::view;

constexpr int NZ = 8, NY = 6, NX = 5, STEPS = 2;

static double value(int step, int z, int y, int x) { return 1000 * step + 100 * z + 10 * y + x; }

static void write_all(const std::string &path) {
    auto container = drystone::container::create(path);
    drystone::variable_options options;
    options.shape = {NZ, NY, NX};
    options.dims = {"z", "y", "x"};
    options.steps = true;
    options.transform = "shuffle,zstd:1";
    container.create_variable<double>("temperature", options);
    container.set_attribute("temperature", "units", "K");
    container.set_attribute("temperature", "interval", 0.5);

    auto writer = container.writer(0, 1); // the only rank: ending a step commits it
    for (int t = 0; t < STEPS; ++t) {
        auto step = writer.begin_step();
        for (int first = 0; first < NZ; first += 2) {
            std::vector<double> block;
            for (int z = first; z < first + 2; ++z)
                for (int y = 0; y < NY; ++y)
                    for (int x = 0; x < NX; ++x) block.push_back(value(t, z, y, x));
            writer.put("temperature", view<const double>(block, {2, NY, NX}), {static_cast<std::uint64_t>(first), 0, 0});
        }
        step.end();
    }
    writer.close();
}

static void expect(bool so, const char *what) {
    if (!so) throw std::runtime_error(std::string("wrong: ") + what);
}

static void read_all(const std::string &path) {
    const auto container = drystone::container::open(path);
    const auto temperature = container.variable("temperature");
    expect(container.attribute<std::string>("temperature", "units") == "K", "units");
    expect(container.attribute<double>("temperature", "interval") == 0.5, "interval");
    for (int t = 0; t < STEPS; ++t) {
        const auto all = temperature.read<double>(t);
        for (int z = 0, at = 0; z < NZ; ++z)
            for (int y = 0; y < NY; ++y)
                for (int x = 0; x < NX; ++x, ++at) expect(all[at] == value(t, z, y, x), "a cell");
    }
    const auto plane = temperature.read<double>(1, {0, 3, 0}, drystone::extents{NZ, 1, NX});
    expect(plane[2 * NX + 4] == value(1, 2, 3, 4), "a cell of the plane y = 3");
    double through_time[STEPS];
    temperature.select(view<double>(through_time, {STEPS, 1, 1, 1}), {axis(0, STEPS), 7, 5, 4});
    expect(through_time[1] - through_time[0] == 1000, "the change of the last cell");
}

int main(int argc, char **argv) {
    const std::string act = argc == 3 ? argv[1] : "";
    try {
        if (act == "write") write_all(argv[2]);
        else if (act == "read") read_all(argv[2]);
        else {
            std::cerr << "usage: " << argv[0] << " write|read CONTAINER\n";
            return 2;
        }
    } catch (const std::exception &failure) {
        std::cerr << "tour: " << failure.what() << '\n';
        return 1;
    }
    return 0;
}
