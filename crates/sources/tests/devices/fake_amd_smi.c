// A substitute for AMD's management libraries: the functions that ortscope calls, with the signatures of amdsmi.h, or of
// rocm_smi.h with FAKE_ROCM. Compile-time FAKE_MODE: "normal", "lost" (the card disappears after FAKE_ROUNDS), "returns"
// (it disappears for two queries), "busy" (the energy query then fails once), "busy-start" (it fails when the card is
// opened), "hang" (the energy query then never returns), "init" (initialization fails), "start-hangs", "foreign" (its
// card has another address), "wrong" (values of another version: watts instead of microwatts, no resolution), "reset"
// (the driver is reloaded), "jumps" (the counter jumps once), "still" (it stops after FAKE_ROUNDS), "namespace" (process
// ids differ from the driver's). With FAKE_PARTLY a function is missing.
#include <string.h>
#include <stdint.h>
#include <unistd.h>

#ifndef FAKE_ROUNDS
#define FAKE_ROUNDS 6
#endif

#ifdef FAKE_ROCM
enum { DONE = 0, NOT_SUPPORTED = 2, FILE_ERROR = 3, INIT_ERROR = 8, NOT_FOUND = 10, BUSY = 16 };
#else
enum { DONE = 0, NOT_SUPPORTED = 2, IO = 12, DRIVER_NOT_LOADED = 34, BUSY = 30, NOT_FOUND = 31 };
#define FILE_ERROR IO
#define INIT_ERROR DRIVER_NOT_LOADED
#endif

static int rounds;
static uint64_t count = 1000000;

static int is(const char *mode) { return strcmp(FAKE_MODE, mode) == 0; }

static int is_gone(void) {
  if (rounds > FAKE_ROUNDS && rounds <= FAKE_ROUNDS + 2 && is("returns")) return 1;
  return rounds > FAKE_ROUNDS && is("lost");
}

static int start(void) {
  if (is("start-hangs")) sleep(3600);
  return is("init") ? INIT_ERROR : DONE;
}

// 15.3 microjoules per step, like real cards; 2 J per query.
static int energy(uint64_t *value, float *resolution, uint64_t *at) {
  rounds++;
  if (is_gone()) return FILE_ERROR;
  if (rounds == FAKE_ROUNDS + 1 && is("busy")) return BUSY;
  if (rounds == 1 && is("busy-start")) return BUSY;
  if (rounds > FAKE_ROUNDS && is("hang")) sleep(3600);
  if (rounds == 4 && is("reset")) count = 5;
  if (rounds == 4 && is("jumps")) count += 10000000000000;
  if (!(rounds > FAKE_ROUNDS && is("still"))) count += 200000;
  *value = count;
  *resolution = is("wrong") ? 0.0f : 10.0f;
  *at = 1;
  return DONE;
}

typedef struct { uint32_t pid, pasid; uint64_t bytes, sdma; uint32_t occupancy; } process;

// Like both libraries: lists the processes without their use.
static int processes(process *list, uint32_t *items) {
  if (is_gone()) return FILE_ERROR;
  if (!list || *items < 2) { *items = 2; return 11; }
  *items = 2;
  list[0].pid = 4242;
  list[1].pid = 4243;
  list[0].pasid = list[1].pasid = 1;
  return DONE;
}

// The second process does not use the card: the driver has no file for it, which is not an error and leaves 0.
static int one_process(uint32_t pid, process *one) {
  if (pid != 4242 && pid != 4243) return NOT_FOUND;
  if (is("namespace")) *one = (process){pid, 0, ~0ull, ~0ull, ~0u};
  else if (pid == 4242) *one = (process){pid, 1, 512ull << 20, 0, 40};
  else *one = (process){pid, 1, 0, 0, 0};
  return DONE;
}

#ifdef FAKE_ROCM
int rsmi_init(uint64_t flags) { (void)flags; return start(); }
int rsmi_num_monitor_devices(uint32_t *devices) { *devices = 1; return DONE; }
int rsmi_dev_pci_id_get(uint32_t card, uint64_t *address) {
  // The partition number is in bits 28 to 31.
  *address = is("foreign") ? 0x9900 : 0x10000000 | 0x0300;
  return card ? NOT_FOUND : DONE;
}
int rsmi_dev_energy_count_get(uint32_t card, uint64_t *value, float *resolution, uint64_t *at) {
  (void)card;
  return energy(value, resolution, at);
}
int rsmi_dev_power_cap_get(uint32_t card, uint32_t sensor, uint64_t *cap) {
  (void)card; (void)sensor;
  if (is_gone()) return FILE_ERROR;
  *cap = 300000000;
  return DONE;
}
int rsmi_compute_process_info_get(process *list, uint32_t *items) { return processes(list, items); }
#ifndef FAKE_PARTLY
int rsmi_compute_process_info_by_device_get(uint32_t pid, uint32_t card, process *one) {
  (void)card;
  return one_process(pid, one);
}
#endif
#else
int amdsmi_init(uint64_t flags) { return flags == 2 ? start() : 1; }
int amdsmi_get_socket_handles(uint32_t *sockets, void **handles) {
  if (handles) handles[0] = (void *)0x10;
  *sockets = 1;
  return DONE;
}
int amdsmi_get_processor_handles(void *socket, uint32_t *processors, void **handles) {
  if (socket != (void *)0x10) return 1;
  if (handles) handles[0] = (void *)0x20;
  *processors = 1;
  return DONE;
}
int amdsmi_get_gpu_device_bdf(void *card, uint64_t *address) {
  *address = is("foreign") ? 0x9900 : 0x0300;
  return card == (void *)0x20 ? DONE : 1;
}
int amdsmi_get_energy_count(void *card, uint64_t *value, float *resolution, uint64_t *at) {
  return card == (void *)0x20 ? energy(value, resolution, at) : 1;
}
typedef struct { uint64_t cap, normal, dpm, least, most, reserved[3]; } caps;
int amdsmi_get_power_cap_info(void *card, uint32_t sensor, caps *info) {
  (void)sensor;
  if (card != (void *)0x20) return 1;
  if (is_gone()) return FILE_ERROR;
  memset(info, 0, sizeof *info);
  info->cap = is("wrong") ? 300 : 300000000;
  return DONE;
}
#ifndef FAKE_PARTLY
int amdsmi_get_gpu_compute_process_info(process *list, uint32_t *items) {
  return is("wrong") ? NOT_SUPPORTED : processes(list, items);
}
int amdsmi_get_gpu_compute_process_info_by_pid(uint32_t pid, process *one) { return one_process(pid, one); }
#endif
#endif
