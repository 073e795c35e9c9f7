"""The fixture of the tests of `TrainingCheckpoint`: a run that ended early, from which many of them resume."""

import shutil

import pytest


@pytest.fixture(scope="session")
def _crashed(tmp_path_factory):
    from tests.training.resume.checkpoint_runs import crash

    folder = tmp_path_factory.mktemp("crashed")
    crash(folder, 18)
    return folder


@pytest.fixture
def crashed(_crashed, tmp_path):
    """A copy of the folder of a run of `build()` that crashed after batch 8 of the second epoch.

    Its training checkpoints were written after batches 5 and 8.
    """
    return shutil.copytree(_crashed, tmp_path / "crashed", ignore=shutil.ignore_patterns(".lock"))
