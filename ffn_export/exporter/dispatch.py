"""Watching the operators that a module runs, those inside of its branches too."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, TypeVar

import torch
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode

Result = TypeVar("Result")
_STANCE = Lock()  # it is one of the process: two threads would each restore what the other has set


class OperatorMode(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """Is given every operator in the place of running it.

    ``torch.cond`` comes as an operator over two functions, whose own kernel refuses to run under a mode: here the one
    that is taken runs under it.
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func is torch.ops.higher_order.cond:
            with self:
                return _branch(*args, **(kwargs or {}))
        if isinstance(func, HigherOrderOperator):
            raise NotImplementedError(f"{func} computes what no mode is shown: only torch.cond is known here")
        return self.run(func, args, kwargs or {})

    @abstractmethod
    def run(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run an operator."""

    def watch(self, call: Callable[[], Result]) -> Result:
        """Run something, and be given its operators.

        PyTorch compiles a branch before it runs, which its compiler refuses under a mode. To tell it not to holds for
        all threads, of which another may be timing or judging compiled code, so only such a module is told.
        """
        try:
            with self:
                return call()
        except Exception as error:  # the compiler's own are of many kinds, and all others go on to the caller
            if not type(error).__module__.startswith("torch._dynamo"):
                raise
        with _STANCE, torch.compiler.set_stance("force_eager"), self:
            return call()


def _branch(condition: Any, yes: Callable[..., Any], no: Callable[..., Any], operands: tuple[Any, ...] = ()) -> Any:
    return (yes if condition else no)(*operands)
