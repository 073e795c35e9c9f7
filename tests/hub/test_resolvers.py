"""Resolvers that a user registered with tensorflow_hub also resolve handles here."""

import sys

import pytest

from keras_transfer.hub import HubLayer, resolve
from keras_transfer.hub.handles import registered_resolvers
from tests.hub.fetching import assert_error, pack_folder

hub = pytest.importorskip("tensorflow_hub", reason="needs tensorflow-hub: pip install tensorflow-hub")


class Resolver:
    """Resolves handles that start with `prefix` to folders in `root`, and records the handles."""

    def __init__(self, root, prefix="models:"):
        self.root, self.prefix, self.asked = root, prefix, []

    def is_supported(self, handle):
        return handle.startswith(self.prefix)

    def __call__(self, handle):
        self.asked.append(handle)
        return f"{self.root}/{handle.removeprefix(self.prefix)}"


@pytest.fixture
def register(monkeypatch):
    """A function that registers a resolver for one test, in addition to tensorflow_hub's own, and returns it."""
    registered = hub.registry.resolver._impls
    own = [each for each in registered if type(each).__module__.startswith("tensorflow_hub.")]
    monkeypatch.setattr(hub.registry.resolver, "_impls", own)

    def add(resolver):
        hub.registry.resolver.add_implementation(resolver)
        return resolver

    return add


def test_a_registered_resolver_resolves_the_handles_that_it_supports(register, stub):
    resolver = register(Resolver(stub.parent))
    assert resolve("models:stub") == stub == resolve(str(stub))
    assert resolver.asked == ["models:stub"]


def test_tensorflow_hub_returns_the_same_folder(register, stub):
    register(Resolver(stub.parent))
    assert hub.resolve("models:stub") == str(resolve("models:stub"))


@pytest.mark.parametrize("handle", ["https://tfhub.dev/google/stub", "gs://bucket/stub", "file:///stub"])
def test_a_registered_resolver_takes_precedence(handle, register, stub):
    register(Resolver(stub.parent, prefix=handle.removesuffix("stub")))
    assert resolve(handle) == stub


def test_the_last_registered_resolver_comes_first(register, stub, tmp_path):
    first, last = register(Resolver(tmp_path / "nowhere")), register(Resolver(stub.parent))
    assert resolve("models:stub") == stub
    assert (first.asked, last.asked) == ([], ["models:stub"])


def test_a_folder_that_only_tensorflow_reads_is_returned_as_a_string(register):
    import tensorflow as tf

    with tf.io.gfile.GFile("ram://resolved/module/saved_model.pb", "w") as file:
        file.write("graph")
    register(Resolver("ram://resolved"))
    assert resolve("models:module") == "ram://resolved/module"


def test_a_layer_keeps_the_handle_of_a_registered_resolver(register, linear_module):
    register(Resolver(linear_module.parent))
    layer = HubLayer(f"models:{linear_module.name}")
    assert layer([[1.0]]) == 1.5
    assert layer.get_config()["handle"] == f"models:{linear_module.name}"


def test_a_checksum_with_a_registered_resolver_is_an_error(register, stub):
    register(Resolver(stub.parent))
    assert_error(
        "models:stub", "`sha256` cannot be used with a handle of a registered resolver. Received: ", sha256="0" * 64
    )


def test_an_exception_in_a_resolver_becomes_an_error_that_names_it(register):
    class Failing(Resolver):
        def __call__(self, handle):
            raise PermissionError("not yours")

    register(Failing(""))
    assert_error("models:a", "resolver Failing, .* failed for 'models:a'. Received: PermissionError: not yours")


@pytest.mark.parametrize("path", [None, "", 3])
def test_a_resolver_that_does_not_return_a_path_is_an_error(path, register):
    class Other(Resolver):
        def __call__(self, handle):
            return path

    register(Other(""))
    assert_error("models:a", f"Other, .* must return the path of a folder. Received: {path!r} for 'models:a'")


def test_the_folder_must_exist_and_be_complete(register, stub, tmp_path):
    register(Resolver(tmp_path))
    assert_error("models:nowhere", "must return the path of a folder. Received: '.*nowhere' for")
    (tmp_path / "module.tar.gz").write_bytes(pack_folder(stub))
    assert_error("models:module.tar.gz", "must return the path of a folder. Received: '.*module.tar.gz' for")
    (stub / "saved_model.pb").unlink()
    assert_error("models:stub", "a folder with a complete SavedModel. Received: .*stub with no saved_model.pb")


def test_the_resolvers_of_tensorflow_hub_are_skipped(register, stub):
    # If this fails, `registered_resolvers` must look for the resolvers elsewhere.
    assert len(hub.registry.resolver._impls) == 4
    assert registered_resolvers() == []
    resolver = register(Resolver(stub.parent))
    assert registered_resolvers() == [resolver]


def test_without_tensorflow_hub_there_are_no_resolvers(register, stub, monkeypatch):
    register(Resolver(stub.parent))
    monkeypatch.setitem(sys.modules, "tensorflow_hub", None)
    assert resolve(stub) == stub
    assert_error("models:stub", "The module does not exist")


def test_a_process_without_tensorflow_hub_does_not_import_it(stub, monkeypatch):
    monkeypatch.delitem(sys.modules, "tensorflow_hub")
    assert resolve(stub) == stub
    assert "tensorflow_hub" not in sys.modules
