"""Source of a model as the caller names it: a PyTorch module or a SPEC, its inputs, and load options."""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch

from ffn_export.core.checked_numbers import check_seed
from ffn_export.core.source_options import SourceOptions
from ffn_export.core.tensor_spec import InputSpecs
from ffn_export.errors import UsageError, did_you_mean
from ffn_export.exporter.examples import Inputs, are_examples, find_inputs
from ffn_export.exporter.hugging_face.model import PREFIX as HUGGING_FACE
from ffn_export.exporter.hugging_face.texts import Texts
from ffn_export.exporter.module_state import evaluation_mode
from ffn_export.exporter.precision import convert, own_dtype
from ffn_export.exporter.samples import specs_of
from ffn_export.exporter.source import Source, from_module, knows_its_inputs, resolve, with_samples
from ffn_export.parity.cases.case import as_feeds

Subject = torch.nn.Module | str


@dataclass(frozen=True)
class SourceSpec:
    """A source as the caller names it. A bundle can supply the subject and the inputs.

    Attributes:
        subject: A ``torch.nn.Module``, a SPEC, or the path of another ``.onnx`` file; None means the bundle's source.
        inputs: Input name -> ``"float32[batch,seq,768]"``, or example tensors for a module; None means the inputs
            declared by the SPEC or the graph.
        seed: As in :class:`~ffn_export.core.source_options.SourceOptions`, like the remaining attributes.
    """

    subject: Subject | Path | None = None
    inputs: Inputs | None = None
    seed: int | None = None
    dtype: str | None = None
    keep_io: bool = False
    task: str | None = None
    trust: bool = False

    def __post_init__(self) -> None:
        if self.seed is not None:
            check_seed(self.seed)

    @property
    def declared(self) -> InputSpecs | None:
        """The inputs as specifications.

        Raises:
            UsageError: If they are example tensors.
        """
        if are_examples(self.inputs):
            raise UsageError(f"example tensors are for a module: write the inputs of {self.subject} as text")
        return cast("InputSpecs | None", self.inputs)

    def source(self, samples: Mapping[str, Any] | Texts | None = None, *, name: str | None = None) -> Source:
        """Resolve a SPEC, or wrap a module.

        Args:
            samples: Input name -> array; they declare the inputs if nothing else does. Or texts, for the tokenizer.
            name: Name of the source; None means the name of the preset, factory, directory or class.

        Raises:
            UsageError: If the SPEC does not resolve, a module has no inputs, or a task is given for a source that is
                not a model directory.
        """
        subject = self.subject
        if isinstance(subject, torch.nn.Module) and are_examples(self.inputs):
            inputs: InputSpecs | None = find_inputs(subject, self.inputs)
        else:
            inputs = self.declared
        texts = samples if isinstance(samples, Texts) else None
        arrays = None if samples is None or isinstance(samples, Texts) else as_feeds(samples)
        if inputs is None and arrays is not None and not (isinstance(subject, str) and knows_its_inputs(subject)):
            inputs = specs_of(arrays)
        if isinstance(subject, str):
            source = resolve(subject, inputs, self.seed, self.task, trust=self.trust)
            source = source if name is None else replace(source, name=name)
        elif not isinstance(subject, torch.nn.Module):
            raise UsageError(_no_source(subject))
        elif self.task is not None:
            raise UsageError("a task is for hf:DIR, a model directory, and not for a module: leave it out")
        elif inputs is None:
            raise UsageError(
                'a module needs its inputs: pass inputs={"x": "float32[batch,seq,768]"}, or example tensors'
            )
        else:
            source = from_module(subject, inputs, name)
        if texts is not None:
            is_directory = isinstance(subject, str) and subject.startswith(HUGGING_FACE)
            beside = Path(str(subject).removeprefix(HUGGING_FACE)) if is_directory else None
            arrays = texts.read({spec.name: spec.dtype for spec in source.inputs}, beside)
        if arrays is not None:
            source = with_samples(source, arrays)
        return convert(source, own_dtype(source) if self.dtype is None else self.dtype, keep_io=self.keep_io)


def _no_source(subject: object) -> str:
    if isinstance(subject, type) and issubclass(subject, torch.nn.Module):
        return f"{subject.__name__} is a class: pass a module, such as {subject.__name__}().eval()"
    what = reprlib.repr(subject)
    return f"{what} is no PyTorch source: pass a torch.nn.Module, a preset, package.module:factory or hf:DIR"


def named_source(
    verb: Callable[..., object], subject: Subject | Path | None, inputs: Inputs | None, options: SourceOptions
) -> SourceSpec:
    """Return the source that the caller of a verb names.

    Raises:
        TypeError: If a keyword is none of the verb's.
    """
    check_keywords(verb, options, SourceOptions.__annotations__)
    return SourceSpec(subject, inputs, **options)


def check_keywords(verb: Callable[..., object], given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse an unknown keyword in the words of Python, for the verb that the caller knows.

    Raises:
        TypeError: On the first unknown keyword.
    """
    known = list(known)
    unknown = next((name for name in given if name not in known), None)
    if unknown is not None:
        meant = did_you_mean(unknown, [*inspect.signature(verb).parameters, *known])
        raise TypeError(
            f"{verb.__name__}() got an unexpected keyword argument {unknown!r}{';' if meant else ''}{meant}"
        )


def evaluating(source: Source | None) -> AbstractContextManager[None]:
    """Keep the module of a source, if any, in evaluation mode."""
    return nullcontext() if source is None else evaluation_mode(source.module)
