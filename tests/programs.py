"""Programs that JAX compiles: made with less work and memory than usual, as tests compile thousands of small ones."""

from jax._src.interpreters import mlir


def share_context():
    """Makes all programs share one MLIR context in this process.

    JAX creates one for each program, which takes several milliseconds and 2.5 MB as long as the program is kept. For
    one operation of Keras that is more than the program itself.
    """
    context = mlir.make_ir_context()
    mlir.make_ir_context = lambda: context
