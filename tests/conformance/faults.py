"""Changes of what kernels are built from, by which tests show that they notice."""

from femgpu.runtime import Runtime


def replace_text(setattr, text, fault):
    """Replaces a text in the source of every program from now on.

    Args:
        setattr: puts an attribute of an object in place of another: `monkeypatch.setattr`.
        text: what is replaced.
        fault: by what.
    """
    build = Runtime.build
    setattr(Runtime, "build", lambda runtime, source, name: build(runtime, source.replace(text, fault), name))
