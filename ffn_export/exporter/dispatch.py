"""Watching the operators that a module runs, those inside of its branches too."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


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
        return self.run(func, args, kwargs or {})

    @abstractmethod
    def run(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run an operator."""

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Be given the operators of a module that runs meanwhile.

        A branch would be compiled before it runs, which the compiler refuses under a mode.
        """
        with torch.compiler.set_stance("force_eager"), self:
            yield


def _branch(condition: Any, yes: Callable[..., Any], no: Callable[..., Any], operands: tuple[Any, ...] = ()) -> Any:
    return (yes if condition else no)(*operands)
