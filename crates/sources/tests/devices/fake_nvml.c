// Stands in for NVIDIA's management library: the functions that ortscope calls, with the signatures of nvml.h.
// FAKE_MODE, given to the compiler: "lost" (after ten rounds the card is gone), "hang" (the eleventh call of power never
// returns), "wddm" (power and energy are not supported, as for some cards), "init" (it does not start).
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

enum { DONE = 0, INVALID = 2, NOT_SUPPORTED = 3, DRIVER_NOT_LOADED = 9, GPU_IS_LOST = 15 };

static int rounds;
static unsigned long long millijoules = 5000000;

static int is(const char *mode) {
  return strcmp(FAKE_MODE, mode) == 0;
}

EXPORT int nvmlInit_v2(void) { return is("init") ? DRIVER_NOT_LOADED : DONE; }
EXPORT int nvmlInitWithFlags(unsigned flags) { (void)flags; return nvmlInit_v2(); }
EXPORT int nvmlShutdown(void) { return DONE; }
EXPORT int nvmlDeviceGetCount_v2(unsigned *count) { *count = 1; return DONE; }
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
  if (++rounds > 10 && is("lost")) return GPU_IS_LOST;
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
  if (rounds > 10 && is("hang")) WAIT();
  *milliwatts = 123500;
  return DONE;
}
EXPORT int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *energy) {
  (void)device;
  if (is("wddm")) return NOT_SUPPORTED;
  millijoules += 2500;
  // The driver was loaded again: it counts from the beginning.
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
// No throttle reasons: a symbol that is missing.
