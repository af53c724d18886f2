"""Commands that read foreign files run in a process of their own: how it ends is one line and an exit status."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ffn_export.cli import supervised
from tests.fuzz.hostile import RECIPES, chain

pytestmark = pytest.mark.skipif(not supervised.is_possible(), reason="processes are supervised on Linux")

_COMMAND = """
import os, signal, sys, time
from ffn_export.cli import supervised
ended = supervised.wait_for_command()
if ended is None:
    {work}
    sys.exit(3)
print(supervised.words(-ended) if ended < 0 else ended)
"""


# The command sleeps in its clean-up, in which the signal comes once more.
_ENDED = """
import sys, time
from ffn_export.cli import main

def works(*arguments, **options):
    print("ready", file=sys.stderr, flush=True)
    try:
        time.sleep(60)
    finally:
        time.sleep(0.3)

main.commands.main = works
main.main(["verify", "m.onnx"])
"""


def supervising(work: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", _COMMAND.format(work=work)], stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    ("work", "told"),
    [
        ("pass", "3"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "a library crashed (SIGSEGV) on what it was given"),
        ("os.abort()", "a library crashed (SIGABRT) on what it was given"),
        ("os.kill(os.getpid(), signal.SIGXCPU)", "it took more CPU time than a file of its size may"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "the process was ended by SIGKILL, probably"),
        ("os.kill(os.getpid(), signal.SIGTERM)", "interrupted by SIGTERM; what was there before is unchanged"),
    ],
)
def test_however_it_ends_there_is_a_line(work: str, told: str) -> None:
    assert supervising(work).communicate(timeout=60)[0].startswith(told)


def test_a_signal_to_the_command_reaches_the_process_that_works() -> None:
    process = supervising("print('ready', flush=True); time.sleep(60)")
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    assert "SIGTERM" in process.communicate(timeout=30)[0]


@pytest.mark.parametrize(("between", "times"), [(0.0, 1), (1.2, 2)])
def test_a_signal_to_all_processes_of_a_command_counts_once(between: float, times: int) -> None:
    code = (
        "import os, signal, sys, time\nfrom ffn_export.cli import interruption\n"
        "signal.signal(getattr(signal, sys.argv[1]), signal.SIG_DFL)  # nohup ignores it\n"
        "interruption.end_as_by_ctrl_c()\n"
        "heard = 0\n"
        f"for wait in (0, {between}):\n"
        "    try:\n        time.sleep(wait)\n        os.kill(os.getpid(), getattr(signal, sys.argv[1]))\n"
        "        time.sleep(0.01)\n"
        "    except KeyboardInterrupt:\n        heard += 1\n"
        "print(heard)"
    )
    for name in supervised.ENDING:
        heard = subprocess.run([sys.executable, "-c", code, name], check=True, capture_output=True, text=True)
        assert heard.stdout == f"{times}\n"


def test_a_command_whose_processes_are_all_told_to_end_was_interrupted() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _ENDED], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "ready\n"
    os.killpg(process.pid, signal.SIGTERM)
    told = process.stderr.read()
    assert process.wait(30) == 130
    assert told == "ffn-export: interrupted; what was there before is unchanged\n"


def test_the_process_that_works_does_not_outlive_the_command() -> None:
    process = supervising("print(os.getpid(), flush=True); time.sleep(60)")
    assert process.stdout is not None
    worker = int(process.stdout.readline())
    process.kill()
    process.communicate()
    for _ in range(100):
        state = Path(f"/proc/{worker}/stat")
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.05)
    os.kill(worker, signal.SIGKILL)
    pytest.fail("it still runs")


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "ffn_export", *map(str, arguments)]
    return subprocess.run(words, check=False, capture_output=True, text=True, timeout=300)


@pytest.mark.integration
def test_a_file_that_takes_too_long_is_given_up_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(chain(3000, ["Relu", "Neg"]).SerializeToString())
    done = command("fuse", path, "-o", tmp_path / "fused.onnx", "--max-cpu", "0.2", "--quiet")
    line = "ffn-export: it took more CPU time than a file of its size may: allow it more with --max-cpu SECONDS\n"
    assert (done.returncode, done.stderr) == (2, line)
    assert not (tmp_path / "fused.onnx").exists()


@pytest.mark.integration
def test_memory_that_a_file_asks_for_is_refused_and_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(RECIPES["growing_concat"]().SerializeToString())
    done = command("fuse", path, "-o", tmp_path / "fused.onnx")
    assert done.returncode == 0
    told = " ".join(done.stderr.split())
    assert "not checked (the model itself does not run on drawn inputs" in told
    assert "Failed to allocate memory" in told or "bad_alloc" in told
