"""Programs: build, keep the binary on disk unless the driver does, dump the source.

A cache file is a header line (magic, key of the program, SHA-256 of the binary) and the binary. Files are written under a temporary
name and renamed, so that concurrent jobs never read half a file; one that is damaged, or another program's, is built anew, with a
warning.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import pyopencl as cl

from femgpu import log
from femgpu.caches import cache_folder, pocl_folder, refusal
from femgpu.errors import BuildError, OptionError

if TYPE_CHECKING:
    from femgpu.runtime.device import Device

OPTIONS = ("-cl-mad-enable", "-cl-std=CL1.2")
_MAGIC = b"femgpu-program-2"


def key(source: str, device: Device) -> str:
    """Everything that decides about the binary: source, build options, device and driver."""
    text = "\0".join([source, *OPTIONS, device.platform, device.name, device.driver, device.opencl])
    return hashlib.sha256(text.encode()).hexdigest()


def build(context: cl.Context, device: Device, source: str, name: str, digest: str, dump_folder: str) -> tuple[cl.Program, bool]:
    """Builds a program, or loads its binary; where the driver keeps programs itself, none is stored.

    Args:
        context: with one device.
        device: its properties.
        source: OpenCL C.
        name: for the dump's file name and messages.
        digest: the program's `key`.
        dump_folder: where source and log go; empty: nowhere.

    Returns:
        The built program, and whether it was compiled now rather than loaded.

    Raises:
        BuildError: with log and path of the source.
        OptionError: when the dump folder cannot be written.
    """
    with log.event("FGBuild"):
        if dump_folder:
            _dump(Path(dump_folder) / f"{name}-{digest[:12]}.cl", source)
        handle = context.devices[0]
        folder = None if device.caches_programs else cache_folder()
        path = folder / f"{digest}.bin" if folder else None
        binary = _load(path, digest) if path else None
        if binary is not None:
            try:
                return cl.Program(context, [handle], [binary]).build(options=list(OPTIONS)), False
            except cl.Error:
                warnings.warn(f"the driver refuses the cached kernel {path}; it is built anew", stacklevel=2)
        with warnings.catch_warnings():
            # The compiler's remarks are in the dumped log; they are no business of the caller.
            warnings.simplefilter("ignore", cl.CompilerWarning)
            try:
                program = cl.Program(context, source).build(options=list(OPTIONS), cache_dir=False)
            except cl.RuntimeError as error:
                raise _failure(error, source, name, digest, dump_folder) from None
        if dump_folder:
            text = program.get_build_info(handle, cl.program_build_info.LOG) or ""
            _dump(Path(dump_folder) / f"{name}-{digest[:12]}.log", text)
        if path:
            _store(path, digest, program.get_info(cl.program_info.BINARIES)[0])
        return program, True


def _dump(path: Path, text: str) -> None:
    try:
        _write(path, text.encode())
    except OSError as error:
        raise OptionError(
            f"-femgpu_kernel_dump {path.parent}: cannot write {path.name} there ({error}); name another folder"
        ) from None


def _failure(error: Exception, source: str, name: str, digest: str, dump_folder: str) -> BuildError:
    path = Path(dump_folder or tempfile.gettempdir()) / f"femgpu-{name}-{digest[:12]}.cl"
    try:
        _write(path, source.encode())
        where = f"its source is in {path}"
    except OSError as full:
        where = f"its source cannot be kept ({full})"
    if why := refusal(pocl_folder()):
        where += f"; PoCL needs its cache, and cannot write there ({why}): make room, or set POCL_CACHE_DIR to another folder"
    text = str(error).strip()
    lines = [line for line in text.splitlines() if "error" in line.lower()][:8] or text.splitlines()[:12]
    return BuildError(
        f"the device's compiler refuses kernel {name}; {where}. If the form has C bodies of yours, "
        "look for them in the function `pointwise`. The compiler says:\n  " + "\n  ".join(lines)
    )


def _load(path: Path, digest: str) -> bytes | None:
    try:
        data = path.read_bytes()
    except OSError:
        return None
    header, _, payload = data.partition(b"\n")
    if header == _header(digest, payload):
        return payload
    warnings.warn(f"the cached kernel {path} is damaged, or another program's; it is built anew", stacklevel=3)
    return None


def _header(digest: str, payload: bytes) -> bytes:
    return b" ".join([_MAGIC, digest.encode(), hashlib.sha256(payload).hexdigest().encode()])


def _store(path: Path, digest: str, payload: bytes) -> None:
    try:
        _write(path, _header(digest, payload) + b"\n" + payload)
    except OSError as error:
        warnings.warn(f"the kernel cache cannot be written ({error}); set FEMGPU_CACHE_DIR, 0 disables it", stacklevel=3)


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
