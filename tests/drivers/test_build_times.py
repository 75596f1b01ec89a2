"""No kernel of a driver takes long to build, on a machine that has never built one."""

import json
import re
import subprocess
import sys
from pathlib import Path

from conftest import CHILD_ENVIRONMENT

LIMIT_SECONDS = 3.0
SCRIPT = """
import json, time
import driver_modules, femgpu
from femgpu.runtime import Device, program

# PoCL compiles at the first launch, or where its binaries are asked for.
Device.caches_programs = False
build, times = program.build, {}

def timed(context, device, source, name, *others):
    start = time.process_time()
    try:
        return build(context, device, source, name, *others)
    finally:
        times[f"{problem} {name}"] = time.process_time() - start

program.build = timed
for problem, make in driver_modules.PROBLEMS.items():
    make(femgpu.mesh.box((1, 1, 1), cell="hexahedron"), 2).problem.build()
print("TIMES", json.dumps(times))
"""


def test_build_times(tmp_path):
    caches = {"FEMGPU_CACHE_DIR": str(tmp_path / "femgpu"), "POCL_CACHE_DIR": str(tmp_path / "pocl")}
    (tmp_path / "pocl").mkdir()
    environment = (
        CHILD_ENVIRONMENT | caches | {"PYTHONPATH": f"{Path(__file__).parents[1]}:{CHILD_ENVIRONMENT.get('PYTHONPATH', '')}"}
    )
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    times = json.loads(re.search("^TIMES (.*)$", done.stdout, re.MULTILINE).group(1))
    assert len(times) > 30
    slow = {kernel: seconds for kernel, seconds in times.items() if seconds > LIMIT_SECONDS}
    assert not slow, slow
