"""FfnExecutionProvider: an execution provider of ONNX Runtime that computes feed-forwards, linear layers and attention.

Register it once per process, then ask for its device where a session is made:

    import onnxruntime, onnxruntime_ep_ffn

    onnxruntime_ep_ffn.register()
    options = onnxruntime.SessionOptions()
    options.add_provider_for_devices(onnxruntime_ep_ffn.devices(), {"precision": "bf16"})
    session = onnxruntime.InferenceSession("outlined.onnx", options)
"""

from __future__ import annotations

import threading
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnxruntime

__all__ = ["devices", "get_ep_name", "get_ep_names", "get_library_path", "register"]
__version__ = version("onnxruntime-ep-ffn")

_NAME = "FfnExecutionProvider"
_OLDEST = (1, 24)
_lock = threading.Lock()


def get_library_path() -> str:
    """Return the absolute path of the library, for a program that registers it by itself."""
    return str(Path(__file__).resolve().with_name("libonnxruntime_ep_ffn.so"))


def get_ep_names() -> list[str]:
    """Return the names of the execution providers in the library."""
    return [_NAME]


def get_ep_name() -> str:
    """Return the name of the only execution provider in the library."""
    return _NAME


def register() -> str | None:
    """Register the library with onnxruntime, unless this process has it already.

    It stays registered until the process ends: a session that still runs would crash without it.

    Returns:
        None if the provider is there, else one line that says why it is not. Sessions then run without it.
    """
    import onnxruntime

    installed = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])
    if installed < _OLDEST or not hasattr(onnxruntime, "register_execution_provider_library"):
        needed = ".".join(map(str, _OLDEST))
        return (
            f"onnxruntime {onnxruntime.__version__} is too old: {_NAME} needs {needed} or newer; "
            "SessionOptions.register_custom_ops_library(get_library_path()) works from 1.17 on"
        )
    with _lock:  # two names for one library would make two devices
        if not devices():
            try:
                onnxruntime.register_execution_provider_library(_NAME, get_library_path())
            except Exception as error:  # noqa: BLE001 - onnxruntime has classes of its own, which differ by version
                if "already registered" not in str(error):  # registered before, without a device
                    return f"onnxruntime does not take {get_library_path()}: {str(error).splitlines()[0]}"
    if not devices():
        return "no kernel fits this processor: they need AVX2 and FMA"
    return None


def devices() -> list[onnxruntime.OrtEpDevice]:
    """Return the devices of the provider, one if it is registered and a kernel fits this processor.

    The metadata of a device names the kernel of each precision that runs here: ``f32``, ``bf16``, ``int8``.
    """
    import onnxruntime

    return [device for device in onnxruntime.get_ep_devices() if device.ep_name == _NAME]
