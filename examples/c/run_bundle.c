/* Runs a bundle as it was verified and timed, through ONNX Runtime's C API.
 *
 * run_bundle BUNDLE [--profile PREFIX] [--tolerance R]
 *
 * The library is opened at run time: its entry symbol carries the release's version, so that a program linked with
 * one release does not start with another. ONNXRUNTIME_LIBRARY names the file; without it, the system's is taken. */
#define _GNU_SOURCE /* sched_getaffinity */
#include <cjson/cJSON.h>
#include <dlfcn.h>
#include <getopt.h>
#include <onnxruntime_c_api.h>
#include <sched.h>
#include <stdarg.h>
#include <unistd.h>

#include "compare.h"
#include "tensor_proto.h"

enum { NEAR_ENOUGH = 0, DIFFERS = 1, CANNOT_RUN = 2, NO_RUNTIME = 3 };
enum { MAX_TENSORS = 64, MAX_PATH_LENGTH = 4096 };

static const OrtApi *ort;

static void stop(int status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(status);
}

/* Stops at an error of ONNX Runtime, with the first line of what it says. */
static void check(OrtStatus *status) {
    if (status == NULL) return;
    const char *const message = ort->GetErrorMessage(status);
    stop(CANNOT_RUN, "onnxruntime: %.*s", (int)strcspn(message, "\n"), message);
}

static void open_runtime(void) {
    const char *const named = getenv("ONNXRUNTIME_LIBRARY");
    void *const library = dlopen(named ? named : "libonnxruntime.so", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) stop(NO_RUNTIME, "no ONNX Runtime: %s (set ONNXRUNTIME_LIBRARY to its file)", dlerror());
    const OrtApiBase *(*entry)(void) = NULL;
    *(void **)&entry = dlsym(library, "OrtGetApiBase");
    if (entry == NULL) stop(NO_RUNTIME, "no ONNX Runtime: %s", dlerror());
    ort = entry()->GetApi(ORT_API_VERSION);
    if (ort == NULL) {
        const char *const version = entry()->GetVersionString();
        stop(NO_RUNTIME, "ONNX Runtime %s is older than the header, of API %d", version, ORT_API_VERSION);
    }
}

static cJSON *read_manifest(const char *bundle) {
    char path[MAX_PATH_LENGTH];
    snprintf(path, sizeof path, "%s/manifest.json", bundle);
    FILE *const file = fopen(path, "rb");
    if (file == NULL) stop(CANNOT_RUN, "%s is no bundle: it has no readable manifest.json", bundle);
    char *text = NULL;
    size_t size = 0;
    const ssize_t length = getdelim(&text, &size, '\0', file); /* JSON holds no NUL: the whole file */
    fclose(file);
    cJSON *const manifest = length < 0 ? NULL : cJSON_ParseWithLength(text, (size_t)length);
    free(text);
    if (manifest == NULL) stop(CANNOT_RUN, "%s is no JSON", path);
    return manifest;
}

static const char *text_of(const cJSON *object, const char *key) {
    const char *const text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
    if (text == NULL) stop(CANNOT_RUN, "the manifest has no text %s", key);
    return text;
}

static double number_of(const cJSON *object, const char *key) {
    const cJSON *const number = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!cJSON_IsNumber(number)) stop(CANNOT_RUN, "the manifest has no number %s", key);
    return cJSON_GetNumberValue(number);
}

static GraphOptimizationLevel level_of(const char *name) {
    if (!strcmp(name, "disable_all")) return ORT_DISABLE_ALL;
    if (!strcmp(name, "basic")) return ORT_ENABLE_BASIC;
    if (!strcmp(name, "extended")) return ORT_ENABLE_EXTENDED;
    if (strcmp(name, "all")) stop(CANNOT_RUN, "unknown graph_optimization_level %s", name);
    return ORT_ENABLE_ALL;
}

/* The processors that this process may use; ONNX Runtime's own default counts all of the machine. */
static int processors(void) {
    cpu_set_t set;
    long count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN);
    long quota, period; /* of a container: microseconds of processor time in a period, or the word max */
    FILE *const file = fopen("/sys/fs/cgroup/cpu.max", "r");
    if (file != NULL) {
        const int limited = fscanf(file, "%ld %ld", &quota, &period) == 2 && quota > 0 && period > 0;
        if (limited && (quota + period - 1) / period < count) count = (quota + period - 1) / period;
        fclose(file);
    }
    return count < 1 ? 1 : (int)count;
}

/* Lets native kernels compute the nodes of ai.ffn_export: as custom operators, which all versions have. The precision
 * is asked for before. */
static void add_native_kernels(OrtSessionOptions *options, const cJSON *manifest, const char *library) {
    const cJSON *const asked = cJSON_GetObjectItemCaseSensitive(manifest, "provider_options");
    const char *const key = "ep.ffnexecutionprovider.precision";
    check(ort->AddSessionConfigEntry(options, key, text_of(asked, "precision")));
    check(ort->RegisterCustomOpsLibrary_V2(options, library));
}

/* The bundle's options, so that the nodes run that were measured. */
static OrtSessionOptions *session_options(const cJSON *manifest, const char *profile) {
    const char *const provider = text_of(manifest, "provider");
    const int native = !strcmp(provider, "FfnExecutionProvider"); /* without its library, the bodies of its nodes run */
    const char *const library = native ? getenv("ONNXRUNTIME_EP_FFN_LIBRARY") : NULL;
    if (!native && strcmp(provider, "CPUExecutionProvider"))
        stop(CANNOT_RUN, "it was verified on %s, this program has the CPU's", provider);
    const cJSON *const settings = cJSON_GetObjectItemCaseSensitive(manifest, "session_options");
    const cJSON *const entries = cJSON_GetObjectItemCaseSensitive(settings, "config_entries");
    if (!cJSON_IsObject(entries)) stop(CANNOT_RUN, "the manifest has no config_entries");
    OrtSessionOptions *options;
    check(ort->CreateSessionOptions(&options));
    const GraphOptimizationLevel level = level_of(text_of(settings, "graph_optimization_level"));
    check(ort->SetSessionGraphOptimizationLevel(options, level));
    const cJSON *entry;
    cJSON_ArrayForEach(entry, entries)
        check(ort->AddSessionConfigEntry(options, entry->string, text_of(entries, entry->string)));
    check(ort->SetIntraOpNumThreads(options, processors()));
    if (profile != NULL) check(ort->EnableProfiling(options, profile));
    if (library != NULL) add_native_kernels(options, manifest, library);
    return options;
}

/* Reads the vectors of a kind, "input" or "output", of which the manifest lists as many. */
static size_t read_vectors(const char *bundle, const cJSON *manifest, const char *kind, tensor_proto *vectors) {
    char path[MAX_PATH_LENGTH];
    snprintf(path, sizeof path, "%ss", kind);
    const cJSON *const tensors = cJSON_GetObjectItemCaseSensitive(manifest, path);
    if (!cJSON_IsArray(tensors)) stop(CANNOT_RUN, "the manifest has no %s", path);
    const int count = cJSON_GetArraySize(tensors);
    if (count > MAX_TENSORS) stop(CANNOT_RUN, "more than %d %ss", MAX_TENSORS, kind);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/test_data_set_0/%s_%d.pb", bundle, kind, i);
        if (!tensor_proto_read(path, &vectors[i])) stop(CANNOT_RUN, "%s is no tensor that is read here", path);
    }
    return (size_t)count;
}

static OrtValue *value_of(tensor_proto *tensor) {
    OrtMemoryInfo *memory;
    check(ort->CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &memory));
    OrtValue *value; /* refers to the tensor's data and does not copy them */
    check(ort->CreateTensorWithDataAsOrtValue(memory, tensor->data, tensor->size, tensor->dims, tensor->rank,
                                              (ONNXTensorElementDataType)tensor->data_type, &value));
    ort->ReleaseMemoryInfo(memory);
    return value;
}

/* The tolerance that the manifest declares for an output: closeness, else a budget, else units in the last place. */
static tolerance declared(const cJSON *manifest, const char *output) {
    const cJSON *const tolerances = cJSON_GetObjectItemCaseSensitive(manifest, "tolerances");
    const cJSON *const closeness = cJSON_GetObjectItemCaseSensitive(tolerances, "closeness");
    const cJSON *classic = cJSON_GetObjectItemCaseSensitive(closeness, output);
    if (classic == NULL) classic = cJSON_GetObjectItemCaseSensitive(closeness, "*");
    if (classic != NULL) return (tolerance){CLASSIC, number_of(classic, "atol"), number_of(classic, "rtol")};

    const char *const budget = cJSON_IsNumber(cJSON_GetObjectItemCaseSensitive(tolerances, "drawn_l2"))
                                   ? "drawn_l2"
                                   : "relative_l2";
    if (cJSON_IsNumber(cJSON_GetObjectItemCaseSensitive(tolerances, budget)))
        return (tolerance){RELATIVE_L2, number_of(tolerances, budget), 0};

    double ulps = number_of(tolerances, "floor_ulps");
    const cJSON *const parity = cJSON_GetObjectItemCaseSensitive(manifest, "parity");
    const cJSON *runtime;
    cJSON_ArrayForEach(runtime, cJSON_GetObjectItemCaseSensitive(parity, "runtimes")) {
        const cJSON *const allowed = cJSON_GetObjectItemCaseSensitive(runtime, "allowed_ulps"); /* or null */
        if (cJSON_IsNumber(allowed)) ulps = fmax(ulps, cJSON_GetNumberValue(allowed));
    }
    return (tolerance){ULPS, ulps, 0};
}

/* Whether an output has the type and the shape of the stored one, of which there are *count numbers. */
static int alike(const OrtValue *actual, const tensor_proto *expected, size_t *count) {
    OrtTensorTypeAndShapeInfo *info;
    ONNXTensorElementDataType type;
    size_t rank;
    int64_t dims[TENSOR_MAX_RANK];
    check(ort->GetTensorTypeAndShape(actual, &info));
    check(ort->GetTensorElementType(info, &type));
    check(ort->GetTensorShapeElementCount(info, count));
    check(ort->GetDimensionsCount(info, &rank));
    int same = (int)type == expected->data_type && rank == expected->rank;
    if (same) {
        check(ort->GetDimensions(info, dims, rank));
        same = !memcmp(dims, expected->dims, rank * sizeof *dims) && expected->size == *count * number_size((int)type);
    }
    ort->ReleaseTensorTypeAndShapeInfo(info);
    return same;
}

/* Compares an output with the stored one, and returns whether it is near enough. */
static int judge(OrtValue *actual, const tensor_proto *expected, tolerance allowed) {
    if (!number_size(expected->data_type))
        stop(CANNOT_RUN, "output %s has data type %d, which is not compared here", expected->name, expected->data_type);
    size_t count;
    if (!alike(actual, expected, &count)) {
        printf("%s: another type or shape than the stored one\n", expected->name);
        return 0;
    }
    void *have;
    check(ort->GetTensorMutableData(actual, &have));
    return compare(expected->name, have, expected->data, expected->data_type, count, allowed);
}

/* Runs the vectors once, and returns whether every output is near enough: within the manifest's tolerances, unless one
 * is given. */
static int run(const char *bundle, const cJSON *manifest, const char *profile, const double *given) {
    static tensor_proto inputs[MAX_TENSORS], expected[MAX_TENSORS];
    const char *input_names[MAX_TENSORS], *output_names[MAX_TENSORS];
    OrtValue *feeds[MAX_TENSORS], *results[MAX_TENSORS] = {NULL};
    const size_t input_count = read_vectors(bundle, manifest, "input", inputs);
    const size_t output_count = read_vectors(bundle, manifest, "output", expected);

    char model[MAX_PATH_LENGTH];
    snprintf(model, sizeof model, "%s/model.onnx", bundle);
    OrtEnv *env;
    OrtSession *session;
    check(ort->CreateEnv(ORT_LOGGING_LEVEL_ERROR, "run_bundle", &env));
    OrtSessionOptions *const options = session_options(manifest, profile);
    check(ort->CreateSession(env, model, options, &session));
    ort->ReleaseSessionOptions(options);

    for (size_t i = 0; i < input_count; i++) {
        input_names[i] = inputs[i].name;
        feeds[i] = value_of(&inputs[i]);
    }
    for (size_t i = 0; i < output_count; i++) output_names[i] = expected[i].name;
    check(ort->Run(session, NULL, input_names, (const OrtValue *const *)feeds, input_count, output_names,
                   output_count, results));

    int near_enough = 1;
    for (size_t i = 0; i < output_count; i++) {
        const tolerance allowed = given ? (tolerance){OF_LARGEST, *given, 0} : declared(manifest, output_names[i]);
        near_enough &= judge(results[i], &expected[i], allowed);
        ort->ReleaseValue(results[i]);
        free(expected[i].data);
    }
    for (size_t i = 0; i < input_count; i++) {
        ort->ReleaseValue(feeds[i]);
        free(inputs[i].data);
    }
    ort->ReleaseSession(session); /* which writes the profile, where one was asked for */
    ort->ReleaseEnv(env);
    return near_enough;
}

int main(int argc, char **argv) {
    const struct option known[] = {
        {"profile", required_argument, NULL, 'p'}, {"tolerance", required_argument, NULL, 't'}, {0}};
    const char *profile = NULL;
    char *end = "";
    double given, *tolerance = NULL;
    int name, good = 1;
    opterr = 0; /* one line says it all */
    while ((name = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (name == 'p')
            profile = optarg;
        else if (name == 't') {
            given = strtod(optarg, &end);
            tolerance = &given;
        } else
            good = 0;
    }
    if (!good || *end || optind + 1 != argc)
        stop(CANNOT_RUN, "usage: run_bundle BUNDLE [--profile PREFIX] [--tolerance R]");
    const char *const bundle = argv[optind];
    cJSON *const manifest = read_manifest(bundle);
    open_runtime();
    const int near_enough = run(bundle, manifest, profile, tolerance);
    cJSON_Delete(manifest);
    return near_enough ? NEAR_ENOUGH : DIFFERS;
}
