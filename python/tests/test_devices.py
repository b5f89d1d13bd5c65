"""Devices: a value or a reason, from a made-up /sys that has every kind."""

import os
import time

import ortscope
import pytest
from ortscope import devices


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def driver(device, name):
    place = device.parent / ("driver-" + name) / name
    place.mkdir(parents=True, exist_ok=True)
    device.mkdir(parents=True, exist_ok=True)
    os.symlink(str(place), str(device / "driver"))


@pytest.fixture
def sysfs(tmp_path):
    root = tmp_path / "sys"
    amd = root / "class/drm/card0/device"
    driver(amd, "amdgpu")
    write(amd / "vendor", "0x1002\n")
    write(amd / "gpu_busy_percent", "42\n")
    write(amd / "mem_info_vram_used", "1000\n")
    write(amd / "hwmon/hwmon3/power1_average", "45200000\n")
    (root / "class/drm/card0-HDMI-A-1").mkdir()
    npu = root / "class/accel/accel0/device"
    driver(npu, "intel_vpu")
    write(npu / "npu_busy_time_us", "1000000\n")
    zone = root / "class/powercap/intel-rapl:0"
    write(zone / "name", "package-0\n")
    write(zone / "energy_uj", "5000000\n")
    write(zone / "max_energy_range_uj", "10000000\n")
    return root


def by_name(device):
    return {reading.metric: reading for reading in device.read()}


def test_every_kind_is_found_and_read(sysfs):
    gpu, npu, energy = devices.devices(sysfs=str(sysfs))
    assert (gpu.kind, gpu.vendor, gpu.driver, gpu.id) == ("gpu", "AMD", "amdgpu", "card0")
    of = by_name(gpu)
    assert of["gpu_busy"].value == 42 and of["gpu_busy"].unit == "percent"
    assert of["power"].value == pytest.approx(45.2)
    # A file that is not there is a reason, never a 0.
    assert of["gpu_memory_total"].value is None and "mem_info_vram_total" in of["gpu_memory_total"].reason
    assert (npu.kind, energy.name) == ("npu", "package-0")
    assert set(devices.unavailable(str(sysfs))) == {"temperature"}


def test_rates_need_two_readings_and_survive_the_counters_end(sysfs):
    (npu,) = devices.devices("npu", str(sysfs))
    assert "second reading" in by_name(npu)["npu_busy"].reason
    write(sysfs / "class/accel/accel0/device/npu_busy_time_us", "1001000\n")
    time.sleep(0.02)
    busy = by_name(npu)["npu_busy"]
    assert 0 < busy.value <= 5.1 and busy.method == "counted"
    (energy,) = devices.devices("energy", str(sysfs))
    assert by_name(energy)["energy"].value == 5.0
    write(sysfs / "class/powercap/intel-rapl:0/energy_uj", "1000000\n")
    time.sleep(0.02)
    assert by_name(energy)["power"].value > 0


def test_a_file_that_may_not_be_read_says_so(sysfs):
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    (sysfs / "class/powercap/intel-rapl:0/energy_uj").chmod(0)
    (energy,) = devices.devices("energy", str(sysfs))
    assert "may not be read" in by_name(energy)["energy"].reason


def test_this_machine_has_devices_or_reasons():
    rows = devices.readings()
    kinds = {row["kind"] for row in rows}
    assert kinds == {"gpu", "npu", "energy", "temperature"}
    for row in rows:
        if row["name"] is None:
            assert row["unavailable"]
        else:
            assert all((reading["value"] is None) == bool(reading["reason"]) for reading in row["readings"])


def test_an_unknown_kind_is_named():
    with pytest.raises(ValueError, match="toaster"):
        devices.devices("toaster")


def test_a_monitor_records_the_devices_as_every_command_does(sysfs, monkeypatch):
    monkeypatch.setenv("ORTSCOPE_TEST_DEVICES", str(sysfs.parent))
    monitor = ortscope.Monitor().start()
    time.sleep(0.5)
    result = monitor.stop()
    assert result["errors"] == []
    samples = ortscope.Recording(result["directory"])["device_samples"].to_dict()
    seen = set(zip(samples["device"], samples["metric"]))
    assert {("gpu0", "utilization_ratio"), ("gpu0", "power_watts")} <= seen
