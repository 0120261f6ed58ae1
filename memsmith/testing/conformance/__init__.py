"""The suite that every backend passes. A new one runs it in a file like this::

    from pathlib import Path

    from mine import MyBackend
    from memsmith.testing.conformance import BackendConformance


    class TestMyBackend(BackendConformance):
        persistent = True

        def make_backend(self, tmp_path: Path) -> MyBackend:
            return MyBackend(tmp_path / "store")

It tests behaviour, through the protocol and through MemoryStore, and needs no setting of pytest.
"""

from memsmith.errors import MissingExtraError

try:
    import pytest
    import pytest_asyncio as _  # noqa: F401 - looked for here so that the error can name the cure
except ImportError as error:
    raise MissingExtraError("testing", "The conformance suite") from error

# Before the modules load, so that their asserts say what was compared.
pytest.register_assert_rewrite(
    *(
        f"{__name__}.{part}"
        for part in (
            "as_of",
            "chaining",
            "committing",
            "governing",
            "holding",
            "listing",
            "past_lists",
            "recording",
            "remembering",
            "reopening",
            "timing",
        )
    )
)

from memsmith.testing.conformance.suite import BackendConformance  # noqa: E402

__all__ = ["BackendConformance"]
