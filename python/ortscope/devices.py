"""Devices of this machine and what can be read of each: GPUs, NPUs, energy meters, temperatures.

::

    for device in ortscope.devices.devices():
        print(device.kind, device.name)
        for reading in device.read():
            print(" ", reading)          # gpu_busy = 12 percent   or   power_w: unavailable: why

A reading is a value with its source or a reason; there is never a silent 0. On Linux the kernel's own files are read,
which needs no driver library. Elsewhere, and for devices whose values only a vendor's library has, the reason says so.
"""

import glob
import os
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Tuple

_SYS = "/sys"
#: PCI vendors that make such devices.
_VENDORS = {"0x1002": "AMD", "0x10de": "NVIDIA", "0x8086": "Intel", "0x17cb": "Qualcomm", "0x1af4": "virtio"}


@dataclass(frozen=True)
class Reading:
    """A value with its unit and source, or the reason why there is none."""

    metric: str
    value: Optional[float] = None
    unit: str = ""
    source: str = ""
    #: ``measured``, or ``counted`` between two readings.
    method: str = "measured"
    reason: Optional[str] = None

    def __str__(self) -> str:
        if self.value is None:
            return "%s: unavailable: %s" % (self.metric, self.reason)
        return "%s = %.6g %s" % (self.metric, self.value, self.unit)


@dataclass
class Device:
    """One device. ``kind`` is ``gpu``, ``npu``, ``energy`` or ``temperature``."""

    kind: str
    name: str
    id: str
    vendor: Optional[str] = None
    driver: Optional[str] = None
    _readers: List[Callable[[], Reading]] = field(default_factory=list, repr=False)

    def read(self) -> List[Reading]:
        return [reader() for reader in self._readers]

    def to_dict(self) -> Dict[str, Any]:
        given = {"kind": self.kind, "name": self.name, "id": self.id, "vendor": self.vendor, "driver": self.driver}
        return dict(given, readings=[dict(vars(reading)) for reading in self.read()])


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read().strip()


def _maybe(path: str) -> Optional[str]:
    try:
        return _text(path) or None
    except OSError:
        return None


def _why(error: OSError, path: str) -> str:
    if isinstance(error, PermissionError):
        return "%s may not be read; hint: run as root, or ask for read access to it" % path
    if isinstance(error, FileNotFoundError):
        return "the driver has no %s" % path
    return "%s cannot be read: %s" % (path, error.strerror or error)


def _number(metric: str, path: str, unit: str, factor: float = 1.0) -> Callable[[], Reading]:
    def read() -> Reading:
        try:
            return Reading(metric, float(_text(path)) * factor, unit, path)
        except OSError as error:
            return Reading(metric, unit=unit, source=path, reason=_why(error, path))
        except ValueError:
            return Reading(metric, unit=unit, source=path, reason="%s is not a number" % path)

    return read


def _per_second(metric: str, path: str, unit: str, factor: float, wraps_at: Optional[str] = None) -> Callable[[], Reading]:
    """A rate from a counter, between this reading and the one before."""
    before: List[Tuple[float, float]] = []
    lock = threading.Lock()

    def read() -> Reading:
        now = time.monotonic()
        try:
            count = float(_text(path))
        except OSError as error:
            return Reading(metric, unit=unit, source=path, method="counted", reason=_why(error, path))
        except ValueError:
            return Reading(metric, unit=unit, source=path, method="counted", reason="%s is not a number" % path)
        with lock:
            last = before[0] if before else None
            before[:] = [(now, count)]
        if last is None or now <= last[0]:
            return Reading(metric, unit=unit, source=path, method="counted", reason="needs a second reading")
        grown = count - last[1]
        if grown < 0:
            modulus = _maybe(wraps_at) if wraps_at else None
            if modulus is None:
                return Reading(metric, unit=unit, source=path, method="counted", reason="the counter went back")
            grown += float(modulus)
        return Reading(metric, grown * factor / (now - last[0]), unit, path, "counted")

    return read


def _never(metric: str, unit: str, reason: str) -> Callable[[], Reading]:
    return lambda: Reading(metric, unit=unit, reason=reason)


def _driver(device: str) -> Optional[str]:
    try:
        return os.path.basename(os.readlink(os.path.join(device, "driver")))
    except OSError:
        return None


def _gpu(card: str) -> Device:
    device = os.path.join(card, "device")
    vendor, driver = _VENDORS.get(_maybe(os.path.join(device, "vendor")) or ""), _driver(device)
    made = Device("gpu", "%s %s" % (vendor or "unknown", os.path.basename(card)), os.path.basename(card), vendor, driver)
    if driver == "amdgpu":
        made._readers = [
            _number("gpu_busy", os.path.join(device, "gpu_busy_percent"), "percent"),
            _number("gpu_memory_used", os.path.join(device, "mem_info_vram_used"), "bytes"),
            _number("gpu_memory_total", os.path.join(device, "mem_info_vram_total"), "bytes"),
        ]
    elif driver in ("i915", "xe"):
        files = glob.glob(os.path.join(card, "gt_act_freq_mhz")) + glob.glob(
            os.path.join(device, "tile*", "gt*", "freq*", "act_freq")
        )
        made._readers = [_number("gpu_frequency", path, "MHz") for path in files[:1]]
        made._readers.append(_never("gpu_busy", "percent", "Intel's busy time is in its perf counters, not in a file"))
    elif driver == "nvidia":
        made._readers = [
            _never("gpu_busy", "percent", "NVIDIA's values need its library NVML, which this package does not read yet")
        ]
    else:
        made._readers = [_never("gpu_busy", "percent", "the driver %s reports no utilization" % (driver or "(none)"))]
    for monitor in sorted(glob.glob(os.path.join(device, "hwmon", "hwmon*"))):
        for name in ("power1_average", "power1_input"):
            if os.path.exists(os.path.join(monitor, name)):
                made._readers.append(_number("power", os.path.join(monitor, name), "W", 1e-6))
        if os.path.exists(os.path.join(monitor, "temp1_input")):
            made._readers.append(_number("temperature", os.path.join(monitor, "temp1_input"), "°C", 1e-3))
    return made


def _npu(accelerator: str) -> Device:
    device = os.path.join(accelerator, "device")
    name, driver = os.path.basename(accelerator), _driver(device)
    vendor = _VENDORS.get(_maybe(os.path.join(device, "vendor")) or "")
    made = Device("npu", "%s %s" % (vendor or "unknown", name), name, vendor, driver)
    if driver == "intel_vpu":
        # Microseconds of busy time: a million in a second is 100 percent.
        made._readers = [
            _per_second("npu_busy", os.path.join(device, "npu_busy_time_us"), "percent", 1e-4),
            _number("npu_memory_used", os.path.join(device, "npu_memory_utilization"), "bytes"),
            _number("npu_frequency", os.path.join(device, "npu_current_frequency_mhz"), "MHz"),
        ]
    else:
        made._readers = [_never("npu_busy", "percent", "the driver %s reports no utilization" % (driver or "(none)"))]
    return made


def _energy(zone: str) -> Device:
    name = _maybe(os.path.join(zone, "name")) or os.path.basename(zone)
    made = Device("energy", name, os.path.basename(zone), driver="powercap")
    range_path = os.path.join(zone, "max_energy_range_uj")
    made._readers = [
        _number("energy", os.path.join(zone, "energy_uj"), "J", 1e-6),
        _per_second("power", os.path.join(zone, "energy_uj"), "W", 1e-6, range_path),
    ]
    return made


def _temperature(zone: str) -> Device:
    name = _maybe(os.path.join(zone, "type")) or os.path.basename(zone)
    made = Device("temperature", name, os.path.basename(zone), driver="thermal")
    made._readers = [_number("temperature", os.path.join(zone, "temp"), "°C", 1e-3)]
    return made


#: Kind, where its devices are, how one is made, and why there may be none.
_KINDS = (
    ("gpu", "class/drm/card[0-9]*", _gpu, "no graphics driver of the kernel has a device"),
    ("npu", "class/accel/accel[0-9]*", _npu, "no accelerator driver of the kernel has a device"),
    ("energy", "class/powercap/*:*", _energy, "the kernel has no energy counters here (RAPL); virtual machines hide them"),
    ("temperature", "class/thermal/thermal_zone*", _temperature, "the kernel has no thermal zones here"),
)


def devices(kind: Optional[str] = None, sysfs: str = _SYS) -> List[Device]:
    """The devices of this machine, of one kind or of all. An empty list has its reason in :func:`unavailable`."""
    known = [name for name, *_ in _KINDS]
    if kind is not None and kind not in known:
        raise ValueError("unknown kind %r; known kinds are %s" % (kind, ", ".join(known)))
    found: List[Device] = []
    for name, pattern, make, _ in _KINDS:
        if kind in (None, name):
            paths = sorted(glob.glob(os.path.join(sysfs, *pattern.split("/"))))
            # `card0-HDMI-A-1` is a connector, no card.
            found += [make(path) for path in paths if name != "gpu" or os.path.basename(path)[4:].isdigit()]
    return found


def unavailable(sysfs: str = _SYS) -> Dict[str, str]:
    """The kinds of devices that are not there, each with the reason."""
    if not sys.platform.startswith("linux") and sysfs == _SYS:
        return {name: "this package reads devices on Linux only so far" for name, *_ in _KINDS}
    return {name: reason for name, _, _, reason in _KINDS if not devices(name, sysfs)}


def readings(kind: Optional[str] = None, sysfs: str = _SYS) -> List[Dict[str, Any]]:
    """Every device with its readings, and the reason for every kind that has none, as plain values."""
    rows = [device.to_dict() for device in devices(kind, sysfs)]
    for name, reason in unavailable(sysfs).items():
        if kind in (None, name):
            rows.append({"kind": name, "name": None, "unavailable": reason})
    return rows


__all__ = ["Device", "Reading", "devices", "readings", "unavailable"]
