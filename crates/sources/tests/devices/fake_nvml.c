// A substitute for NVIDIA's management library: the functions that ortscope calls, with the signatures of nvml.h.
// Compile-time FAKE_MODE: "lost" (the card disappears after FAKE_ROUNDS), "returns" (it disappears for two queries),
// "hang" (the power query then never returns), "wddm" (power and energy are not supported and memory per process is not
// available), "init" (initialization fails), "gpm" (every figure, except one GPM metric that the card lacks), "gpm-fails"
// (GPM samples fail), "empty" (a driver without a card). The functions behind FAKE_FULL are missing in older libraries.
#include <string.h>
#ifdef _WIN32
#include <windows.h>
#define EXPORT __declspec(dllexport)
#define WAIT() Sleep(3600 * 1000)
#else
#include <unistd.h>
#define EXPORT
#define WAIT() sleep(3600)
#endif

// Number of successful polls.
#ifndef FAKE_ROUNDS
#define FAKE_ROUNDS 10
#endif

enum { DONE = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, DRIVER_NOT_LOADED = 9, GPU_IS_LOST = 15, UNKNOWN = 999 };

static int rounds;
static unsigned long long millijoules = 5000000;

static int is(const char *mode) {
  return strcmp(FAKE_MODE, mode) == 0;
}

EXPORT int nvmlInit_v2(void) { return is("init") ? DRIVER_NOT_LOADED : DONE; }
EXPORT int nvmlInitWithFlags(unsigned flags) { (void)flags; return nvmlInit_v2(); }
EXPORT int nvmlShutdown(void) { return DONE; }
EXPORT int nvmlDeviceGetCount_v2(unsigned *count) { *count = is("empty") ? 0 : 1; return DONE; }
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
  if (index) return INVALID;
  *device = (void *)0x1234;
  return DONE;
}
EXPORT int nvmlDeviceGetName(void *device, char *name, unsigned bytes) {
  (void)device;
  strncpy(name, "Fake RTX", bytes);
  return DONE;
}
EXPORT int nvmlDeviceGetUtilizationRates(void *device, unsigned *rates) {
  (void)device;
  if (++rounds > FAKE_ROUNDS && is("lost")) return GPU_IS_LOST;
  if (rounds > FAKE_ROUNDS && rounds <= FAKE_ROUNDS + 2 && is("returns")) return GPU_IS_LOST;
  rates[0] = 73;
  rates[1] = 41;
  return DONE;
}
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory;
EXPORT int nvmlDeviceGetMemoryInfo_v2(void *device, memory *info) {
  (void)device;
  info->total = 8ULL << 30;
  info->reserved = 0;
  info->free = 6ULL << 30;
  info->used = 2ULL << 30;
  return DONE;
}
EXPORT int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) {
  (void)device;
  if (is("wddm")) return NOT_SUPPORTED;
  if (rounds > FAKE_ROUNDS && is("hang")) WAIT();
  *milliwatts = 123500;
  return DONE;
}
EXPORT int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *energy) {
  (void)device;
  if (is("wddm")) return NOT_SUPPORTED;
  millijoules += 2500;
  // The driver was reloaded: its counter restarts.
  if (rounds == 5) millijoules = 100;
  *energy = millijoules;
  return DONE;
}
EXPORT int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius) {
  (void)device; (void)sensor;
  *celsius = 64;
  return DONE;
}
EXPORT int nvmlDeviceGetClockInfo(void *device, int clock, unsigned *megahertz) {
  (void)device; (void)clock;
  *megahertz = 1410;
  return DONE;
}

#ifdef FAKE_FULL
EXPORT int nvmlSystemGetDriverVersion(char *version, unsigned bytes) {
  strncpy(version, "570.86", bytes);
  return DONE;
}
EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 12080; return DONE; }
EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons) {
  (void)device;
  *reasons = rounds > 3 ? 0x4 : 0x1;
  return DONE;
}
typedef struct { unsigned long long reference, violation; } violation;
EXPORT int nvmlDeviceGetViolationStatus(void *device, int policy, violation *time) {
  (void)device;
  time->reference = 1;
  // Power throttling (0) adds 5 ms per poll; thermal throttling (1) never occurs.
  time->violation = 7000000000ULL + (policy == 0 ? rounds * 5000000ULL : 0);
  return DONE;
}
EXPORT int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *milliwatts) {
  (void)device;
  *milliwatts = 300000;
  return DONE;
}
EXPORT int nvmlDeviceGetPcieThroughput(void *device, int way, unsigned *kilobytes) {
  (void)device;
  *kilobytes = way == 0 ? 1500 : 2500;
  return DONE;
}
typedef struct { unsigned pid; unsigned long long bytes; unsigned gpu_instance, compute_instance; } process;
static int one_process(unsigned *count, process *list) {
  unsigned room = *count;
  *count = 1;
  if (!list || room < 1) return TOO_SMALL;
  list->pid = 4242;
  list->bytes = is("wddm") ? ~0ULL : 256ULL << 20;
  list->gpu_instance = list->compute_instance = ~0U;
  return DONE;
}
EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, process *list) {
  (void)device;
  return one_process(count, list);
}
EXPORT int nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, unsigned *count, process *list) {
  (void)device;
  return one_process(count, list);
}
typedef struct { unsigned pid; unsigned long long time; unsigned sm, memory, encoder, decoder; } sample;
EXPORT int nvmlDeviceGetProcessUtilization(void *device, sample *list, unsigned *count, unsigned long long since) {
  (void)device;
  // Two new samples of one process per poll; nothing new since the last timestamp.
  unsigned long long now = rounds * 1000ULL;
  if (since >= now) return NOT_FOUND;
  unsigned room = *count;
  *count = 2;
  if (!list || room < 2) return TOO_SMALL;
  list[0] = (sample){4242, now, 62, 10, 0, 0};
  list[1] = (sample){4242, now - 500, 5, 10, 0, 0};
  return DONE;
}
typedef struct { unsigned version, is_supported; } support;
EXPORT int nvmlGpmQueryDeviceSupport(void *device, support *answer) {
  (void)device;
  answer->is_supported = !is("wddm");
  return DONE;
}
EXPORT int nvmlGpmSampleAlloc(void **place) { *place = (void *)0x5678; return DONE; }
EXPORT int nvmlGpmSampleFree(void *place) { (void)place; return DONE; }
EXPORT int nvmlGpmSampleGet(void *device, void *place) { (void)device; (void)place; return is("gpm-fails") ? UNKNOWN : DONE; }
typedef struct { unsigned id; int answer; double value; char *short_name, *long_name, *unit; } figure;
typedef struct { unsigned version, count; void *first, *second; figure figures[1]; } request;
EXPORT int nvmlGpmMetricsGet(request *asked) {
  for (unsigned at = 0; at < asked->count; at++) {
    figure *one = &asked->figures[at];
    one->short_name = one->long_name = one->unit = "%";
    one->answer = one->id == 10 ? NOT_SUPPORTED : DONE;
    one->value = one->id == 3 ? 37.5 : one->id == 5 ? 81.0 : 50.0;
  }
  return DONE;
}
#endif
// Without FAKE_FULL, throttle reasons and other symbols are missing.
