"""Changes of what kernels are built from, by which tests show that they notice."""

from femgpu.runtime import Runtime


def replace_text(setattr, text, fault):
    """Replaces a text in the source of every program from now on.

    Args:
        setattr: puts an attribute of an object in place of another: `monkeypatch.setattr`.
        text: what is replaced.
        fault: by what.

    Returns:
        A function that says in how many sources the text was found.
    """
    build, found = Runtime.build, []

    def changed(runtime, source, name):
        if text in source:
            found.append(name)
        return build(runtime, source.replace(text, fault), name)

    setattr(Runtime, "build", changed)
    return lambda: len(found)
