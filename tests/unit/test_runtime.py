"""The OpenCL layer by itself: launches and their counts, bindings, queues with and without times, errors of the driver."""

import gc
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyopencl as cl
import pytest

from femgpu import runtime as package
from femgpu.errors import DeviceError, KernelError
from femgpu.runtime import Device, Kernel, Runtime, Scalars, calls, current, rates
from femgpu.runtime.host_copies import HostCopies
from femgpu.runtime.rates import launch_seconds
from femgpu.runtime.watch import Watch

SOURCE = """
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
// y += a x on count entries from the first
__kernel void axpy(const int first, const int count, const double a, __global const double *x, __global double *y) {
  const int i = (int)get_global_id(0);
  if (i < count) y[first + i] += a * x[first + i];
}
__kernel void scale(const int count, __global const double *a, __global double *x) {
  const int i = (int)get_global_id(0);
  if (i < count) x[i] *= a[0];
}
"""
N = 1000
X, Y = 3, 4


@pytest.fixture(params=["driver", "pyopencl"])
def runtime(request, monkeypatch):
    """A runtime of its own on this process's device, whose launches go to the driver or through pyopencl."""
    if request.param == "pyopencl":
        monkeypatch.setattr(calls, "library", lambda: None)
    made = Runtime(current().device, current().context)
    assert made.calls.raw == (request.param == "driver")
    return made


@pytest.fixture
def adopted():
    """A runtime on a queue of another library, which records no times."""
    return Runtime(current().device, current().context, cl.CommandQueue(current().context))


def axpy(runtime, a=1.0, count=N):
    """The kernel with x = 1, 2, ... and y = 0."""
    x, y = runtime.upload(np.arange(1.0, N + 1)), runtime.upload(np.zeros(N))
    return Kernel(runtime, SOURCE, "axpy", [np.int32(0), np.int32(count), np.float64(a), x, y], count, 64), x, y


def values(runtime, buffer):
    return runtime.read(buffer, np.empty(N))


def test_the_functions_of_the_driver_are_found_where_pyopencl_has_its_own():
    assert current().calls.raw


def test_launches_copies_and_fills_are_counted(runtime):
    kernel, x, y = axpy(runtime)
    assert (runtime.num_launches, runtime.num_copies, runtime.num_fills) == (0, 2, 0)
    for _ in range(3):
        kernel()
    kernel.bound({X: y, Y: x})()
    assert (kernel.launches, runtime.num_launches) == (4, 4)
    runtime.zero(y, 8 * N)
    runtime.copy(x, y, 8 * N)
    values(runtime, y)
    runtime.write(y, np.zeros(N))
    assert (runtime.num_copies, runtime.num_fills) == (5, 1)
    # What moves nothing is no command, and what is measured is no launch.
    runtime.copy(x, y, 0)
    runtime.zero(y, 0)
    kernel.least_seconds(3)
    launch_seconds(runtime, runtime.zeroing(y, 8 * N) + [kernel.build()], 0)
    assert (runtime.num_launches, runtime.num_copies, runtime.num_fills) == (4, 5, 1)


def test_zeros_by_the_kernel_of_gpus(runtime, monkeypatch):
    """So many bytes and none more, whatever their number."""
    monkeypatch.setattr(runtime._fills, "_size", 512)
    for count in (1, 3, 4, 1023, 100_003):
        given = np.random.default_rng().integers(1, 2**31, count + 5).astype(np.uint32)
        buffer = runtime.upload(given)
        runtime.zero(buffer, 4 * count)
        found = runtime.read(buffer, np.empty_like(given))
        assert not found[:count].any() and np.array_equal(found[count:], given[count:])
        assert np.all(launch_seconds(runtime, runtime.zeroing(buffer, 4 * count), 0) > 0)


def test_copies_by_threads(runtime, monkeypatch, rng):
    """Every byte, whatever the number of parts; what a thread raises reaches the caller."""
    monkeypatch.setattr("femgpu.runtime.host_copies._PART", 4096)
    copies = HostCopies(runtime.device, lambda: runtime.queue, runtime.pinned)
    copies._threads = 3
    for count in (1, 4096, 3 * 4096, 5 * 4096 + 12, 100_004):
        given, found = rng.integers(0, 256, count, np.uint8), np.zeros(count, np.uint8)
        buffer = runtime.upload(np.zeros(count + 8, np.uint8))
        copies.write(buffer, given)
        copies.read(buffer, found)
        np.testing.assert_array_equal(found, given)
        assert not runtime.read(buffer, np.ones(count + 8, np.uint8))[count:].any()
    with pytest.raises(cl.Error):
        copies.read(buffer, np.empty(200_000, np.uint8))


def test_large_arrays_are_copied_by_threads(runtime, monkeypatch, rng):
    monkeypatch.setattr(runtime._host_copies, "least", 800)
    for shape in ((10, 10), (99,)):
        given = rng.standard_normal(shape)
        before = runtime.num_copies
        np.testing.assert_array_equal(runtime.read(runtime.upload(given), np.full(shape, np.nan)), given)
        assert runtime.num_copies == before + 2
        assert (runtime._host_copies._pool is not None) == (given.size == 100)
        runtime._host_copies._pool = None


def test_arguments_replaced_one_by_one(runtime):
    kernel, x, y = axpy(runtime, a=2.0)
    kernel()
    kernel.set(2, np.float64(0.5))
    kernel.set(1, np.int32(10))
    kernel()
    expected = 2.0 * np.arange(1.0, N + 1)
    expected[:10] *= 1.25
    np.testing.assert_array_equal(values(runtime, y), expected)
    kernel.set(Y, x)
    kernel.set(X, y)
    kernel()
    assert values(runtime, x)[0] == 1.0 + 0.5 * 2.5


def test_empty_index_space_is_no_launch(runtime):
    kernel, x, y = axpy(runtime, count=0)
    kernel()
    kernel.set(2, np.float64(3.0))
    kernel()
    kernel.bound({X: x})()
    assert kernel.launches == runtime.num_launches == 0
    assert kernel.least_seconds(3) == 0.0
    # A binding may have an index space where the kernel has none, and the other way round.
    kernel.bound({1: np.int32(N)}, global_size=N)()
    assert kernel.launches == 1 and values(runtime, y)[-1] == 3.0 * N
    axpy(runtime)[0].bound({1: np.int32(0)}, global_size=0)()
    assert runtime.num_launches == 1


def test_parts_of_the_index_space(runtime):
    kernel, _, y = axpy(runtime)
    for first, count in ((0, 300), (300, 1), (301, N - 301)):
        kernel.bound({0: np.int32(first), 1: np.int32(count)}, global_size=count)()
    np.testing.assert_array_equal(values(runtime, y), np.arange(1.0, N + 1))
    sizes = [kernel.bound({1: np.int32(count)}, global_size=count).global_size for count in (1, 64, 65)]
    assert sizes == [64, 64, 128]
    assert kernel.global_size == 1024


def test_bindings_are_found_again(runtime):
    kernel, x, y = axpy(runtime)
    launch = kernel.bound({X: x, Y: y})
    assert kernel.bound({X: x, Y: y}) is launch
    wrapped = runtime.wrap(x.int_ptr), runtime.wrap(y.int_ptr)
    assert kernel.bound(dict(zip((X, Y), wrapped, strict=True))) is launch
    others = [
        kernel.bound({X: y, Y: x}),
        kernel.bound({X: x}),
        kernel.bound({X: x, Y: y}, global_size=64),
        kernel.bound({2: np.float64(0.0)}),
        kernel.bound({2: np.float64(-0.0)}),
    ]
    assert len({launch, *others}) == 6
    # A changed argument is not missed by launches that are bound afterwards.
    kernel.set(2, np.float64(7.0))
    kernel.bound({X: x, Y: y})()
    assert values(runtime, y)[0] == 7.0
    launch()
    assert values(runtime, y)[0] == 8.0


def test_setting_what_is_set_keeps_the_bindings(runtime):
    kernel, x, y = axpy(runtime)
    launch = kernel.bound({X: x, Y: y})
    kernel.set(2, np.float64(1.0))
    kernel.set(X, runtime.wrap(x.int_ptr))
    assert kernel.bound({X: x, Y: y}) is launch


def test_the_oldest_binding_is_dropped(runtime, monkeypatch):
    monkeypatch.setattr("femgpu.runtime.launch.BINDINGS", 3)
    kernel, x, _ = axpy(runtime)
    outputs = [runtime.upload(np.zeros(N)) for _ in range(4)]
    launches = [kernel.bound({Y: out}) for out in outputs[:3]]
    assert kernel.bound({Y: outputs[0]}) is launches[0]
    kernel.bound({Y: outputs[3]})
    assert [kernel.bound({Y: outputs[i]}) is launches[i] for i in (0, 2)] == [True, True]
    assert kernel.bound({Y: outputs[1]}) is not launches[1]
    # Launches that were dropped still work.
    for launch in launches:
        launch()
    for out in outputs[:3]:
        np.testing.assert_array_equal(values(runtime, out), values(runtime, x))


def test_a_launch_keeps_its_buffers(runtime):
    kernel, x, y = axpy(runtime)
    handle = x.int_ptr
    expected = values(runtime, x)
    launch = kernel.bound({X: runtime.upload(expected), Y: y})
    del kernel
    gc.collect()
    for number in range(1, 51):
        launch()
        # Memory that was given back would be taken here.
        scratch = runtime.upload(np.full(N, np.nan))
        np.testing.assert_array_equal(values(runtime, y), number * expected)
    assert x.int_ptr == handle and scratch is not None


def references(handle):
    return cl.Buffer.from_int_ptr(handle, retain=True).reference_count - 1


def test_memory_of_buffers_that_nobody_else_holds_is_given_back(runtime):
    kernel, x, y = axpy(runtime)
    second = Kernel(runtime, SOURCE, "scale", [np.int32(N), x, y], N, 64)
    mine = cl.Buffer(runtime.context, cl.mem_flags.READ_WRITE, 8 * N)  # a buffer of another library
    before = runtime.allocated_bytes
    first, own = runtime.upload(np.ones(N)), runtime.upload(np.zeros(N))
    kernel.bound({X: first, Y: runtime.wrap(mine.int_ptr)})()
    kernel.bound({X: first, Y: y})()
    kernel.bound({X: own, Y: y})()
    second.bound({2: own})()
    runtime.finish()  # launches under way hold buffers, too
    assert references(own.int_ptr) == 2 and references(mine.int_ptr) == 2
    launch = kernel.bound({X: first, Y: y})
    del own, mine
    assert runtime.allocated_bytes == before + 8 * N
    assert [len(k._bindings) for k in (kernel, second)] == [3, 1]
    # A new buffer is when memory is wanted.
    runtime.empty(8)
    assert [len(k._bindings) for k in (kernel, second)] == [1, 0]
    assert kernel.bound({X: first, Y: y}) is launch
    # So is a pair of vectors that is not known.
    del first, launch
    kernel.bound({X: y, Y: x})
    assert len(kernel._bindings) == 1
    np.testing.assert_array_equal(values(runtime, y), 1.0)


def test_a_handle_that_comes_again_is_another_buffer(runtime):
    """Buffers of equal size come and go: the driver gives new ones the handles of those that are gone."""
    kernel, x, _ = axpy(runtime)
    expected = values(runtime, x)
    for number in range(200):
        y = runtime.upload(np.full(N, float(number)))
        kernel.bound({Y: y})()
        np.testing.assert_array_equal(values(runtime, y), number + expected)
    assert len(kernel._bindings) == 1


def test_a_dropped_kernel_gives_its_buffers_back(runtime):
    gc.collect()
    gc.disable()
    try:
        before = runtime.allocated_bytes
        kernel, x, y = axpy(runtime)
        kernel.bound({X: y, Y: x})()
        kernel()
        del kernel, x, y
        assert runtime.allocated_bytes == before
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "measure", [lambda kernel: launch_seconds(kernel.runtime, [kernel.build()], seconds=0), lambda kernel: kernel.least_seconds(3)]
)
def test_measuring_asks_for_times_and_leaves_the_queue_as_it_was(runtime, adopted, measure):
    for device in (runtime, adopted):
        kernel, _, _ = axpy(device)
        queue = device.queue
        assert not device.profiling
        assert np.all(measure(kernel) > 0)
        assert device.queue is queue and not device.profiling
        assert np.all(launch_seconds(device, device.zeroing(kernel.arguments[Y], 8 * N), 0) > 0)
        assert device.queue is queue and kernel.launches == 0
    runtime.profile(True)
    measure(axpy(runtime)[0])
    assert runtime.profiling


class Timed:
    """A launch that does nothing: what is asked of it, and the events it gives, done when they are looked at so often."""

    def __init__(self, calls, name, end, looks=()):
        self.calls, self.name, self.looks = calls, name, iter(looks)
        self.profile = SimpleNamespace(start=end - 500_000, end=end)

    def enqueue(self):
        self.calls.append(self.name)

    def event(self):
        self.calls.append(f"event of {self.name}")
        return self

    def wait(self):
        self.calls.append("wait")

    @property
    def command_execution_status(self):
        return cl.command_execution_status.COMPLETE if next(self.looks) else cl.command_execution_status.RUNNING


def test_times_of_launches_that_follow_each_other(runtime):
    """From the end of what holds the queue to that of the last launch, which alone has an event, over the groups."""
    calls = []
    batches = rates._Batches(runtime, [Timed(calls, "zeros", 0), Timed(calls, "action", 5_000_000)], one=2e-3)
    assert batches.groups == 2
    batches._hold = Timed(calls, "hold", 1_000_000, [False, False])
    assert batches.seconds() == pytest.approx(2e-3) and batches.holds == 1
    assert calls == ["event of hold", "zeros", "action", "zeros", "event of action", "wait"]
    # Where the hold was over before the last launch came, once more, held for longer; not where it was over at once.
    for looks, holds in (([False, True, False, False], 2), ([True], 2), ([False, True] * 6, 0)):
        batches._hold = Timed(calls, "hold", 1_000_000, looks)
        calls.clear()
        if holds:
            assert batches.seconds() > 0 and batches.holds == holds
        else:
            with pytest.raises(DeviceError, match="the host takes longer to hand over 4 launches"):
                batches.seconds()
            assert calls.count("event of hold") == 2 + 4 + 8 + 16 + 32 + 64
    assert [rates._Batches(runtime, [], one).groups for one in (1.0, 1e-9)] == [1, 20]


@pytest.mark.parametrize("is_gpu", [False, True])
def test_what_is_measured_computes_and_does_not_count(runtime, monkeypatch, is_gpu):
    kernel, _, y = axpy(runtime)
    made = []
    monkeypatch.setattr(runtime, "device", replace(runtime.device, is_gpu=is_gpu))
    monkeypatch.setattr(rates._Batches, "seconds", lambda batches, plain=rates._Batches.seconds: made.append(0) or plain(batches))
    assert np.all(launch_seconds(runtime, [*runtime.zeroing(y, 8 * N), kernel.build()], 0) > 0)
    # Each group begins with zeros.
    assert kernel.launches == runtime.num_fills == 0 and np.array_equal(values(runtime, y), np.arange(1.0, N + 1))
    assert len(made) == is_gpu * (rates.WARMUPS + rates.REPETITIONS)
    empty = axpy(runtime, count=0)[0].build()
    assert launch_seconds(runtime, []) == 0 and len(launch_seconds(runtime, [empty], 0)) == rates.REPETITIONS


def test_switching_queues_keeps_the_order(runtime):
    kernel, x, y = axpy(runtime)
    back = kernel.bound({X: y, Y: x})
    expected = [values(runtime, x), values(runtime, y)]
    for number in range(20):
        runtime.profile(number % 3 == 0)
        assert runtime.profiling == (number % 3 == 0)
        kernel()
        expected[1] = expected[1] + expected[0]
        runtime.profile(number % 2 == 0)
        back()
        expected[0] = expected[0] + expected[1]
        with runtime.profiled():
            runtime.copy(x, y, 8)
        expected[1][0] = expected[0][0]
    for buffer, wanted in zip((x, y), expected, strict=True):
        np.testing.assert_allclose(values(runtime, buffer), wanted, rtol=1e-12)


def test_times_of_launches_are_taken_on_request(runtime, adopted):
    kernel, x, y = axpy(runtime)
    launch = kernel.bound({X: y, Y: x})
    kernel()
    assert np.isnan(kernel.mean_seconds) and not kernel.timed and not runtime.profiling
    kernel.timed = True
    assert runtime.profiling
    for _ in range(100):
        launch()
    assert 0 < kernel.mean_seconds < 1 and kernel.launches == 101
    runtime.profile(False)
    mean = kernel.mean_seconds
    kernel()
    assert kernel.mean_seconds == mean and kernel.launches == 102
    # The queue of another library stays what it is.
    kernel, _, _ = axpy(adopted)
    kernel.timed = True
    kernel()
    assert not adopted.profiling and np.isnan(kernel.mean_seconds) and kernel.launches == 1


def test_queue_of_another_library_that_records_times():
    queue = cl.CommandQueue(current().context, properties=cl.command_queue_properties.PROFILING_ENABLE)
    made = Runtime(current().device, current().context, queue)
    made.profile(False)
    assert made.profiling and made.queue is queue
    kernel, _, _ = axpy(made)
    kernel.timed = True
    kernel()
    assert kernel.mean_seconds > 0


def test_errors_of_the_driver_name_kernel_and_remedy(runtime):
    x, y = runtime.upload(np.zeros(N)), runtime.upload(np.zeros(N))
    arguments = [np.int32(0), np.int32(N), np.float64(1.0), x, y]
    group = 2 * runtime.device.max_group
    large = Kernel(runtime, SOURCE, "axpy", arguments, N, group, label="too large")
    for profiling in (False, True):
        large.timed = profiling
        remedy = "-femgpu_schedule cell:group_size="
        with pytest.raises(DeviceError, match=f"kernel too large .* groups of {group}: INVALID_WORK_GROUP_SIZE; .*{remedy}"):
            large()
    assert large.launches == runtime.num_launches == 0
    with pytest.raises(DeviceError, match=r"kernel axpy with 1024 work-items .*: INVALID_KERNEL_ARGS; .*femgpu doctor"):
        Kernel(runtime, SOURCE, "axpy", arguments[:-1], N, 64)()
    with pytest.raises(DeviceError, match="argument 5 of kernel axpy: INVALID_ARG_INDEX"):
        Kernel(runtime, SOURCE, "axpy", [*arguments, np.int32(1)], N, 64)
    kernel = Kernel(runtime, SOURCE, "axpy", arguments, N, 64)
    with pytest.raises(DeviceError, match="argument 2 of kernel axpy: INVALID_ARG_SIZE"):
        kernel.bound({2: np.float32(1.0)})
    with pytest.raises(IndexError):
        kernel.bound({5: x})
    assert not len(kernel._bindings)
    kernel()
    with pytest.raises(DeviceError, match="something: error -9999; "):
        calls.check(-9999, "something")


def test_a_kernel_that_fails_on_the_device_is_told(runtime, monkeypatch):
    """As a GPU does, at the next command that waits; a kernel that watches itself is named."""

    def refuse(*_, **__):
        raise cl.RuntimeError("clEnqueueReadBuffer failed: OUT_OF_RESOURCES")

    runtime.debug(True)
    watched, _, y = axpy(runtime)
    begin = Watch.begin
    monkeypatch.setattr(Watch, "begin", lambda *given: (begin(*given), monkeypatch.setattr(cl, "enqueue_copy", refuse)))
    with pytest.raises(KernelError, match="kernel axpy has failed on the device .*OUT_OF_RESOURCES"):
        watched()
    for wait in (runtime.read, runtime.write):
        with pytest.raises(DeviceError, match="a kernel .* has failed .*OUT_OF_RESOURCES.* -femgpu_debug"):
            wait(y, np.zeros(N))


def test_scalars_in_a_buffer(runtime):
    scalars, x = Scalars(runtime, 2), runtime.upload(np.ones(N))
    kernel = Kernel(runtime, SOURCE, "scale", [np.int32(N), scalars.buffer, x], N, 64)
    launch, copies = kernel.bound({2: x}), runtime.num_copies
    expected = 1.0
    for number in range(1, 30):
        scalars.set(1.0 + 1.0 / number, 5.0)
        scalars.set(1.0 + 1.0 / number, 5.0)
        launch()
        expected *= 1.0 + 1.0 / number
    assert runtime.num_copies == copies + 29
    np.testing.assert_allclose(values(runtime, x), expected, rtol=1e-14)
    assert Scalars(runtime, 1, np.float32).buffer.size == 8
    with pytest.raises(ValueError, match="1 numbers given, expected 2"):
        scalars.set(1.0)


def test_binaries_are_stored_where_the_driver_keeps_none(monkeypatch, tmp_path):
    monkeypatch.setenv("FEMGPU_CACHE_DIR", str(tmp_path))
    for keeps in (True, False):
        monkeypatch.setattr(Device, "caches_programs", keeps)
        made = Runtime(current().device, current().context)
        axpy(made)[0]()
        assert len(list(tmp_path.iterdir())) == (0 if keeps else 1)
        assert made.programs.num_compiled == 1
    made = Runtime(current().device, current().context)
    kernel, x, y = axpy(made)
    kernel()
    np.testing.assert_array_equal(values(made, y), values(made, x))
    assert (made.programs.num_compiled, made.programs.num_programs) == (0, 1)


def test_pocl_keeps_programs_itself():
    device, _ = package.devices()[0]
    assert device.caches_programs == ("Portable Computing Language" in device.platform)
