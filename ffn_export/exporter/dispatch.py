"""Dispatch mode for the operators of a module, including those in the branches of ``torch.cond``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, TypeVar

import torch
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode

Result = TypeVar("Result")
_STANCE = Lock()  # the stance is global: two threads would restore each other's setting


class OperatorMode(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """Calls :meth:`run` for every operator instead of running it.

    The kernel of ``torch.cond``, an operator over two functions, refuses to run under a mode. So this mode runs the
    taken branch itself.
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._met_branch = False

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func is torch.ops.higher_order.cond:
            self._met_branch = True
            with self:
                return _branch(*args, **(kwargs or {}))
        if isinstance(func, HigherOrderOperator):
            raise NotImplementedError(f"{func} computes what no mode is shown: only torch.cond is known here")
        return self.run(func, args, kwargs or {})

    @abstractmethod
    def run(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run an operator."""

    def watch(self, call: Callable[[], Result]) -> Result:
        """Run a call under this mode.

        PyTorch compiles a branch before running it, and its compiler refuses to work under a mode. The stance that
        turns compilation off is global, and another thread may be timing or judging compiled code. So it is set only if
        the compiler has raised.

        What the compiler keeps of a branch under a mode makes it refuse that branch without one, so it then forgets.
        """
        try:
            with self:
                return call()
        except Exception as error:  # the compiler's errors are of many types; all others are raised to the caller
            self._met_branch = self._met_branch or _is_of_compiler(error)
            if not _is_of_compiler(error):
                raise
        finally:
            if self._met_branch:
                torch.compiler.reset()
        with _STANCE, torch.compiler.set_stance("force_eager"), self:
            return call()


def _is_of_compiler(error: Exception) -> bool:
    return type(error).__module__.startswith("torch._dynamo")


def _branch(condition: Any, yes: Callable[..., Any], no: Callable[..., Any], operands: tuple[Any, ...] = ()) -> Any:
    return (yes if condition else no)(*operands)
