"""What only a part of normkit needs: found missing, it is answered by the command to install it."""

from importlib import import_module
from types import ModuleType

from normkit.messages import current_language, translator

# the extra of pyproject.toml that installs a module
EXTRAS = {
    "equinox": "jax",
    "faker": "experiments",
    "flax": "jax",
    "IPython": "plots",
    "jax": "jax",
    "matplotlib": "plots",
    "numba": "fast",
    "sklearn": "experiments",
    "torch": "torch",
    "tqdm": "experiments",
}
CPU = "https://download.pytorch.org/whl/cpu"  # PyPI's torch for Linux brings gigabytes of CUDA


def need(module: str) -> ModuleType:
    """Import a module that an extra of normkit installs, or raise and say how to install it.

    >>> need("numpy").__name__
    'numpy'
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise missing(error) from error


def missing(error: ModuleNotFoundError) -> ModuleNotFoundError:
    """The same error with the command that mends it, where an extra does."""
    module = (error.name or "").partition(".")[0]
    if module not in EXTRAS:
        return error
    _ = translator(current_language())
    text = _("{module} is needed for this, and is not installed. In a terminal, type: {command}")
    told = text.format(module=module, command=_command(EXTRAS[module]))
    return ModuleNotFoundError(told, name=error.name, path=error.path)


def _command(extra: str) -> str:
    command = f'python -m pip install "{_package(extra)}"'
    return f"{command} --extra-index-url {CPU}" if extra == "torch" else command


def _package(extra: str) -> str:
    """normkit with an extra; where it lies in a folder and is not installed, that folder."""
    from importlib.metadata import PackageNotFoundError, version  # slow to import

    try:
        version("normkit")
    except PackageNotFoundError:
        return f".[{extra}]"
    return f"normkit[{extra}]"
