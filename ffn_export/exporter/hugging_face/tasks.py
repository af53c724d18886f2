"""Tasks that a model is exported for: Optimum's names, and transformers' classes for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ffn_export.errors import UsageError, did_you_mean
from ffn_export.exporter.hugging_face.directory import ModelDirectory
from ffn_export.exporter.hugging_face.library import class_names, model_types

_WITH_PAST = "-with-past"
_CAUSAL = (("AutoModelForCausalLM", "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES"),)


@dataclass(frozen=True)
class Task:
    """A task.

    Attributes:
        name: Optimum's name of the task.
        makers: transformers' Auto classes for the task, each with the name of its table of classes. The first
            that has the model type is used, unless ``config.json`` names a class of another.
        outputs: Outputs of the graph; those that the model lacks are omitted.
        decodes: Whether an encoder-decoder runs its decoder for the task, which takes decoder tokens as input.
        caches: Whether the cache of keys and values is among the inputs and outputs.
    """

    name: str
    makers: tuple[tuple[str, str], ...]
    outputs: tuple[str, ...] = ("logits",)
    decodes: bool = False
    caches: bool = False


TASKS = {
    task.name: task
    for task in (
        Task(
            "feature-extraction",
            (
                ("AutoModel", "MODEL_MAPPING_NAMES"),
                ("AutoModelForTextEncoding", "MODEL_FOR_TEXT_ENCODING_MAPPING_NAMES"),
            ),
            ("last_hidden_state", "pooler_output"),
            decodes=True,
        ),
        Task("text-generation", _CAUSAL),
        Task("text-generation-with-past", _CAUSAL, caches=True),
        Task(
            "text2text-generation",
            (("AutoModelForSeq2SeqLM", "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES"),),
            decodes=True,
        ),
        # After the text-generation tasks: this table also has BART's class.
        Task("fill-mask", (("AutoModelForMaskedLM", "MODEL_FOR_MASKED_LM_MAPPING_NAMES"),)),
        Task(
            "text-classification",
            (("AutoModelForSequenceClassification", "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES"),),
        ),
        Task(
            "token-classification",
            (("AutoModelForTokenClassification", "MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES"),),
        ),
        Task(
            "question-answering",
            (("AutoModelForQuestionAnswering", "MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES"),),
            ("start_logits", "end_logits"),
        ),
        Task(
            "image-classification",
            (("AutoModelForImageClassification", "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES"),),
        ),
        Task(
            "audio-classification",
            (("AutoModelForAudioClassification", "MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING_NAMES"),),
        ),
        Task(
            "automatic-speech-recognition",
            (
                ("AutoModelForCTC", "MODEL_FOR_CTC_MAPPING_NAMES"),
                ("AutoModelForSpeechSeq2Seq", "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES"),
            ),
            decodes=True,
        ),
    )
}

# Other names of these tasks in Optimum and transformers.
SYNONYMS = {
    "default": "feature-extraction",
    "sentence-similarity": "feature-extraction",
    "masked-lm": "fill-mask",
    "causal-lm": "text-generation",
    "causal-lm-with-past": "text-generation-with-past",
    "seq2seq-lm": "text2text-generation",
    "summarization": "text2text-generation",
    "translation": "text2text-generation",
    "sequence-classification": "text-classification",
    "sentiment-analysis": "text-classification",
    "ner": "token-classification",
    "ctc": "automatic-speech-recognition",
    "speech2seq-lm": "automatic-speech-recognition",
}


def choose(directory: ModelDirectory, name: str | None) -> tuple[Task, str]:
    """Return the task, and the Auto class that makes the model for it.

    Args:
        directory: The model directory.
        name: Name of the requested task; None means the task of the class that ``config.json`` names, else
            ``feature-extraction``.

    Raises:
        UsageError: If the model type or the task is unknown, or the model type does not support the task.
    """
    model_type = directory.model_type
    if model_type not in model_types():
        raise UsageError(
            f"{directory.path} is of model_type {model_type!r}, which this version of transformers does not know;"
            f"{did_you_mean(model_type, model_types())} a newer version may, else name package.module:factory"
        )
    possible = supported(directory)
    if not possible:
        raise UsageError(
            f"models of model_type {model_type!r} do none of the tasks that can be exported ({', '.join(TASKS)}): "
            "build the module yourself and name package.module:factory"
        )
    task = _asked_for(name) if name is not None else _inferred(directory, possible)
    if task not in possible:
        raise UsageError(
            f"a {model_type} model does not do {task.name}: it can be exported for "
            f"{', '.join(other.name for other in possible)}"
        )
    return task, _maker(task, directory)


def supported(directory: ModelDirectory) -> list[Task]:
    """Return the tasks that the model type supports."""
    return [task for task in TASKS.values() if _does(directory, task)]


def is_decoder_only(directory: ModelDirectory) -> bool:
    """Whether attention is causal in the whole model, as in GPT."""
    config, model_type = directory.config, directory.model_type
    if config.get("is_encoder_decoder") or not _classes(TASKS["text-generation"], model_type):
        return False
    # BERT and similar models have a class for it, but are bidirectional unless the config says is_decoder.
    both_ways = bool(_classes(TASKS["fill-mask"], model_type) or _classes(TASKS["text2text-generation"], model_type))
    return bool(config.get("is_decoder")) or not both_ways


def _does(directory: ModelDirectory, task: Task) -> bool:
    if task.makers == _CAUSAL:
        return is_decoder_only(directory)
    return bool(_classes(task, directory.model_type))


def _classes(task: Task, model_type: str) -> tuple[str, ...]:
    return tuple(name for _, table in task.makers for name in class_names(table, model_type))


def _asked_for(name: str) -> Task:
    known: dict[str, Any] = {**TASKS, **SYNONYMS}
    if name.endswith(_WITH_PAST) and name not in known:
        raise UsageError(
            f"task {name!r} asks for a cache, which only text-generation-with-past has: use "
            f"{name.removesuffix(_WITH_PAST)}, which computes every token anew"
        )
    if name not in known:
        raise UsageError(f"unknown task {name!r};{did_you_mean(name, known)} known are {', '.join(TASKS)}")
    return TASKS[SYNONYMS.get(name, name)]


def _inferred(directory: ModelDirectory, possible: list[Task]) -> Task:
    for architecture in directory.architectures:
        for task in possible:
            if architecture in _classes(task, directory.model_type):
                return task
    default = TASKS["feature-extraction"]
    return default if default in possible else possible[0]


def _maker(task: Task, directory: ModelDirectory) -> str:
    makers = {maker: class_names(table, directory.model_type) for maker, table in task.makers}
    named = [m for m, classes in makers.items() if set(classes) & set(directory.architectures)]
    return (named or [maker for maker, classes in makers.items() if classes])[0]
