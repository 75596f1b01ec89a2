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
    given, found = Runtime.text, set()

    def changed(runtime, source):
        if text in source:
            found.add(source)
        return given(runtime, source.replace(text, fault))

    setattr(Runtime, "text", changed)
    return lambda: len(found)
