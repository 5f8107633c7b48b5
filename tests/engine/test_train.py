"""Training: resumes to the last bit, refuses another corpus, keeps the best weights."""

import hashlib
import math
from pathlib import Path

import pytest
import torch

from nanogpt.checkpoints import train as training
from nanogpt.checkpoints.tokenizer import encode
from nanogpt.checkpoints.train import (
    TrainConfig,
    Trainer,
    read_corpus,
    split,
    train,
    validation_loss,
)
from nanogpt.checkpoints.weights import load_model
from nanogpt.config import ModelConfig

SIZES = ModelConfig(num_layers=1, num_heads=2, num_channels=8, context_len=8)
CONFIG = TrainConfig(steps=6, batch_size=2, warmup_steps=2, evaluate_every=2)
TEXT = "To be, or not to be: that is the question.\n" * 30


def new_trainer(config: TrainConfig = CONFIG) -> Trainer:
    return Trainer(torch.tensor(encode(TEXT)), SIZES, config, "cpu")


def weights_of(trainer: Trainer) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in trainer.model.parameters()]


@pytest.mark.parametrize("stop", [1, 2, 5])
def test_a_resumed_run_ends_with_the_same_bits_as_an_uninterrupted_one(tmp_path: Path, stop: int):
    whole = new_trainer()
    losses = [whole.train_step() for _ in range(6)]
    first = new_trainer()
    resumed_losses = [first.train_step() for _ in range(stop)]
    first.save(tmp_path / "run.state")
    torch.manual_seed(999)  # whatever else happened in between
    second = new_trainer()
    second.resume(tmp_path / "run.state")
    assert second.step == stop
    resumed_losses += [second.train_step() for _ in range(6 - stop)]
    assert resumed_losses == losses
    assert all(map(torch.equal, weights_of(whole), weights_of(second)))


def test_training_changes_every_matrix_and_lowers_the_loss():
    trainer = new_trainer(TrainConfig(steps=60, batch_size=4, warmup_steps=5, peak_rate=0.05))
    before, first = weights_of(trainer), validation_loss(trainer.model, trainer.val_tokens)
    for _ in range(60):
        trainer.train_step()
    assert first == pytest.approx(math.log(65), abs=0.1)
    assert validation_loss(trainer.model, trainer.val_tokens) < 2.5
    assert not any(map(torch.equal, before, weights_of(trainer)))


def test_the_state_file_is_replaced_whole(tmp_path: Path):
    trainer = new_trainer()
    trainer.save(tmp_path / "run.state")
    trainer.train_step()
    trainer.save(tmp_path / "run.state")
    assert [path.name for path in tmp_path.iterdir()] == ["run.state"]


def test_a_state_of_other_settings_is_refused(tmp_path: Path):
    new_trainer().save(tmp_path / "run.state")
    other = new_trainer(TrainConfig(steps=6, batch_size=3, warmup_steps=2, evaluate_every=2))
    before = weights_of(other)
    with pytest.raises(ValueError, match=r"run\.state was trained with .*'batch_size': 2"):
        other.resume(tmp_path / "run.state")
    assert other.step == 0
    assert all(map(torch.equal, before, weights_of(other)))


@pytest.mark.parametrize("keep", [0, 100, 2000])
def test_a_broken_state_file_is_refused_in_words(tmp_path: Path, keep: int):
    path = tmp_path / "run.state"
    new_trainer().save(path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ValueError, match=r"run\.state"):
        new_trainer().resume(path)


def test_the_best_weights_are_kept_and_every_evaluation_is_said(tmp_path: Path):
    said: list[str] = []
    trainer = new_trainer()
    train(trainer, tmp_path / "run.state", tmp_path / "out.safetensors", said.append)
    assert [line.split(":")[0] for line in said] == ["step 2", "step 4", "step 6"]
    best = min(float(line.split("val ")[1].split(",")[0]) for line in said)
    assert trainer.best_loss == pytest.approx(best, abs=1e-4)
    kept = load_model(tmp_path / "out.safetensors")
    assert validation_loss(kept, trainer.val_tokens) == pytest.approx(trainer.best_loss, abs=1e-3)


def test_validation_is_the_mean_over_full_consecutive_windows():
    trainer = new_trainer()
    tokens = trainer.train_tokens[: 20 * 8 + 6]  # 20 windows, and a rest that is left out
    losses: list[float] = []
    for start in range(0, 160, 8):
        window = tokens[None, start : start + 9]
        losses.append(trainer.model(window[:, :-1], window[:, 1:])[1].item())
    assert validation_loss(trainer.model, tokens) == pytest.approx(sum(losses) / 20, rel=1e-5)


def test_the_last_tenth_is_held_out():
    training_part, held_out = split(torch.arange(100))
    assert training_part.tolist() == list(range(90))
    assert held_out.tolist() == list(range(90, 100))


def test_the_rate_warms_up_and_then_falls_along_half_a_cosine():
    config = TrainConfig(steps=110, warmup_steps=10, peak_rate=1.0, final_rate=0.1)
    assert config.rate(0) == pytest.approx(0.1)
    assert config.rate(9) == pytest.approx(1.0)
    assert config.rate(10) == pytest.approx(1.0)
    assert config.rate(60) == pytest.approx(0.55)
    assert config.rate(110) == pytest.approx(0.1)


def test_another_text_is_refused_with_both_hashes(tmp_path: Path):
    path = tmp_path / "input.txt"
    path.write_text(TEXT)
    found, wanted = hashlib.sha256(TEXT.encode()).hexdigest(), training.CORPUS_SHA256
    with pytest.raises(ValueError, match=rf"input\.txt has sha256 {found}.*{wanted}"):
        read_corpus(path)


def test_a_corpus_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(ValueError, match=r"cannot read the corpus from .*gone\.txt"):
        read_corpus(tmp_path / "gone.txt")


def test_the_expected_corpus_is_tiny_shakespeare():
    expected = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"
    assert expected == training.CORPUS_SHA256


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The command line of a small run: tiny sizes and a made-up corpus with the right hash."""
    (tmp_path / "input.txt").write_text(TEXT)
    digest = hashlib.sha256(TEXT.encode()).hexdigest()
    monkeypatch.setattr(training, "CORPUS_SHA256", digest)
    monkeypatch.setattr(training, "SHAKESPEARE", SIZES)
    return [
        "train", "--corpus", str(tmp_path / "input.txt"), "--out", str(tmp_path / "w.safetensors"),
        "--steps", "3", "--device", "cpu",
    ]  # fmt: skip


def test_the_command_trains_and_the_same_command_again_has_nothing_left_to_do(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("sys.argv", command)
    training.main()
    assert "step 3: train" in capsys.readouterr().out
    weights = Path(command[4]).read_bytes()
    training.main()
    assert capsys.readouterr().out == ""
    assert Path(command[4]).read_bytes() == weights


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--steps", "0"], "'0' is not a whole number from 1 to 1000000"),
        (["--seed", "-1"], "'-1' is not a whole number from 0"),
        (["--device", "gpu"], "--device is 'gpu'; torch finds no such device here"),
        (["--out", "not/there/w.safetensors"], "there is no folder not/there"),
        (["--step", "3"], "unrecognized arguments: --step 3"),
    ],
)
def test_a_bad_argument_is_refused_before_the_corpus_is_read(
    arguments: list[str],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setattr("sys.argv", ["train", *arguments])
    monkeypatch.setattr(training, "read_corpus", None)
    with pytest.raises(SystemExit):
        training.main()
    assert words in capsys.readouterr().err


def test_the_command_refuses_another_corpus_with_a_sentence_and_a_status(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    Path(command[2]).write_text(TEXT + "!")
    monkeypatch.setattr("sys.argv", command)
    with pytest.raises(SystemExit) as ended:
        training.main()
    assert ended.value.code == 2
    assert "has sha256" in capsys.readouterr().err
    assert not Path(command[4]).exists()
