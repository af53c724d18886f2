// Runs a bundle as it was verified and timed, through ONNX Runtime's C++ API.
//
// run_bundle BUNDLE [--profile PREFIX] [--tolerance R]
//
// The library is opened at run time: its entry symbol carries the release's version, so that a program linked with
// one release does not start with another. ONNXRUNTIME_LIBRARY names the file; without it, the system's is taken.
#define ORT_API_MANUAL_INIT
#include <dlfcn.h>
#include <onnxruntime_cxx_api.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "compare.h"
#include "tensor_proto.h"

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr int kNearEnough = 0, kDiffers = 1, kCannotRun = 2, kNoRuntime = 3;

struct NoRuntime : std::runtime_error {
    using std::runtime_error::runtime_error;
};

void open_runtime() {
    const char *named = std::getenv("ONNXRUNTIME_LIBRARY");
    void *library = dlopen(named ? named : "libonnxruntime.so", RTLD_NOW | RTLD_LOCAL);
    if (!library) throw NoRuntime(std::string(dlerror()) + " (set ONNXRUNTIME_LIBRARY to its file)");
    const auto entry = reinterpret_cast<const OrtApiBase *(*)()>(dlsym(library, "OrtGetApiBase"));
    if (!entry) throw NoRuntime(dlerror());
    const OrtApi *api = entry()->GetApi(ORT_API_VERSION);
    if (!api) throw NoRuntime(std::string(entry()->GetVersionString()) + " is older than the headers");
    Ort::InitApi(api);
}

/// The processors that this process may use; ONNX Runtime's own default counts all of the machine.
int processors() {
    cpu_set_t set;
    long count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN);
    std::ifstream limit("/sys/fs/cgroup/cpu.max"); // of a container: microseconds in a period, or the word max
    if (long quota, period; limit >> quota >> period && quota > 0 && period > 0)
        count = std::min(count, (quota + period - 1) / period);
    return static_cast<int>(std::max(count, 1L));
}

/// The bundle's options, so that the nodes run that were measured.
Ort::SessionOptions session_options(const json &manifest, const std::optional<std::string> &profile) {
    static const std::map<std::string, GraphOptimizationLevel> levels = {{"disable_all", ORT_DISABLE_ALL},
                                                                         {"basic", ORT_ENABLE_BASIC},
                                                                         {"extended", ORT_ENABLE_EXTENDED},
                                                                         {"all", ORT_ENABLE_ALL}};
    const auto provider = manifest.at("provider").get<std::string>();
    const bool native = provider == "FfnExecutionProvider"; // without its library, the bodies of its nodes run
    const char *const library = native ? std::getenv("ONNXRUNTIME_EP_FFN_LIBRARY") : nullptr;
    if (!native && provider != "CPUExecutionProvider")
        throw std::runtime_error("it was verified on " + provider + ", this program has the CPU's");
    const json &settings = manifest.at("session_options");
    const auto level = settings.at("graph_optimization_level").get<std::string>();
    if (!levels.count(level)) throw std::runtime_error("unknown graph_optimization_level " + level);
    Ort::SessionOptions options;
    options.SetGraphOptimizationLevel(levels.at(level));
    for (const auto &[key, value] : settings.at("config_entries").items())
        options.AddConfigEntry(key.c_str(), value.get<std::string>().c_str());
    options.SetIntraOpNumThreads(processors());
    if (profile) options.EnableProfiling(profile->c_str());
    if (library) { // as custom operators, which all versions have; the precision is asked for before
        const auto precision = manifest.at("provider_options").at("precision").get<std::string>();
        options.AddConfigEntry("ep.ffnexecutionprovider.precision", precision.c_str());
        options.RegisterCustomOpsLibrary(library);
    }
    return options;
}

/// A test vector: its name, and an ONNX Runtime tensor over its numbers.
struct Vector {
    explicit Vector(const fs::path &path) {
        if (!tensor_proto_read(path.c_str(), &proto))
            throw std::runtime_error(path.string() + " is no tensor that is read here");
        data.reset(proto.data);
        const auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
        value = Ort::Value::CreateTensor(memory, proto.data, proto.size, proto.dims, proto.rank,
                                         static_cast<ONNXTensorElementDataType>(proto.data_type));
    }

    tensor_proto proto{};
    std::unique_ptr<unsigned char, decltype(&std::free)> data{nullptr, &std::free};
    Ort::Value value{nullptr};
};

/// The vectors of a kind, "input" or "output".
std::vector<Vector> vectors(const fs::path &bundle, const std::string &kind, std::size_t count) {
    std::vector<Vector> read;
    for (std::size_t i = 0; i < count; ++i)
        read.emplace_back(bundle / "test_data_set_0" / (kind + "_" + std::to_string(i) + ".pb"));
    return read;
}

/// The tolerance that the manifest declares for an output: closeness, else a budget, else units in the last place.
tolerance declared(const json &manifest, const std::string &output) {
    const json &tolerances = manifest.at("tolerances"), &closeness = tolerances.at("closeness");
    for (const auto &name : {output, std::string("*")})
        if (closeness.contains(name))
            return {CLASSIC, closeness[name].at("atol"), closeness[name].at("rtol")};
    for (const char *budget : {"drawn_l2", "relative_l2"})
        if (tolerances.contains(budget) && !tolerances[budget].is_null())
            return {RELATIVE_L2, tolerances[budget], 0};
    double ulps = tolerances.at("floor_ulps");
    for (const auto &runtime : manifest.at("parity").at("runtimes"))
        if (const json &allowed = runtime.at("allowed_ulps"); !allowed.is_null())
            ulps = std::max(ulps, allowed.get<double>());
    return {ULPS, ulps, 0};
}

/// Compares an output with the stored one; whether it is near enough.
bool judge(const Vector &stored, const Ort::Value &actual, tolerance allowed) {
    const auto have = actual.GetTensorTypeAndShapeInfo(), want = stored.value.GetTensorTypeAndShapeInfo();
    const std::string name = stored.proto.name;
    const int type = want.GetElementType();
    if (!number_size(type))
        throw std::runtime_error("output " + name + " has data type " + std::to_string(type) +
                                 ", which is not compared here");
    if (have.GetElementType() != want.GetElementType() || have.GetShape() != want.GetShape()) {
        std::printf("%s: another type or shape than the stored one\n", name.c_str());
        return false;
    }
    return compare(name.c_str(), actual.GetTensorRawData(), stored.proto.data, type, want.GetElementCount(), allowed);
}

/// Runs the vectors once; whether every output is near enough: within the manifest's tolerances, unless one is given.
bool run(const fs::path &bundle, const json &manifest, const std::optional<std::string> &profile,
         std::optional<double> given) {
    auto inputs = vectors(bundle, "input", manifest.at("inputs").size());
    const auto expected = vectors(bundle, "output", manifest.at("outputs").size());
    const Ort::Env env(ORT_LOGGING_LEVEL_ERROR, "run_bundle");
    Ort::Session session(env, (bundle / "model.onnx").c_str(), session_options(manifest, profile));

    std::vector<const char *> input_names, output_names;
    std::vector<Ort::Value> feeds;
    for (auto &input : inputs) {
        input_names.push_back(input.proto.name);
        feeds.push_back(std::move(input.value));
    }
    for (const auto &output : expected) output_names.push_back(output.proto.name);
    const auto results = session.Run(Ort::RunOptions{nullptr}, input_names.data(), feeds.data(), feeds.size(),
                                     output_names.data(), output_names.size());
    bool near_enough = true;
    for (std::size_t i = 0; i < results.size(); ++i)
        near_enough &= judge(expected[i], results[i], given ? tolerance{OF_LARGEST, *given, 0}
                                                            : declared(manifest, output_names[i]));
    return near_enough;  // the session ends here, and writes the profile where one was asked for
}

struct Arguments {
    fs::path bundle;
    std::optional<std::string> profile;
    std::optional<double> tolerance;
};

Arguments parse(const std::vector<std::string> &given) {
    Arguments arguments;
    bool good = true;
    for (std::size_t i = 0; i < given.size(); ++i) {
        const bool more = i + 1 < given.size();
        if (given[i] == "--profile" && more)
            arguments.profile = given[++i];
        else if (given[i] == "--tolerance" && more) {
            char *end;
            arguments.tolerance = std::strtod(given[++i].c_str(), &end);
            good &= *end == '\0';
        }
        else if (arguments.bundle.empty() && given[i].rfind("--", 0) != 0)
            arguments.bundle = given[i];
        else
            good = false;
    }
    if (!good || arguments.bundle.empty())
        throw std::runtime_error("usage: run_bundle BUNDLE [--profile PREFIX] [--tolerance R]");
    return arguments;
}

json read_manifest(const fs::path &bundle) {
    std::ifstream file(bundle / "manifest.json");
    if (!file) throw std::runtime_error(bundle.string() + " is no bundle: it has no readable manifest.json");
    return json::parse(file);
}

}  // namespace

int main(int argc, char **argv) try {
    const Arguments arguments = parse({argv + 1, argv + argc});
    const json manifest = read_manifest(arguments.bundle);
    open_runtime();
    return run(arguments.bundle, manifest, arguments.profile, arguments.tolerance) ? kNearEnough : kDiffers;
} catch (const NoRuntime &error) {
    std::cerr << "no ONNX Runtime: " << error.what() << '\n';
    return kNoRuntime;
} catch (const std::exception &error) {
    const std::string message = error.what();
    std::cerr << message.substr(0, message.find('\n')) << '\n';
    return kCannotRun;
}
