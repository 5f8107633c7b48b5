"""Training: resumes to the last bit, refuses another corpus, keeps the best weights."""

import hashlib
import math
from pathlib import Path

import pytest
import torch

from nanogpt import ModelConfig, encode, load_model
from nanogpt.checkpoints import train as training
from nanogpt.checkpoints.train import TrainConfig, Trainer, split, validation_loss

SIZES = ModelConfig(num_layers=1, num_heads=2, num_channels=8, max_model_len=8)
CONFIG = TrainConfig(steps=6, batch_size=2, warmup_steps=2, evaluate_every=2)
TEXT = "To be, or not to be: that is the question.\n" * 30


def new_trainer(config: TrainConfig = CONFIG) -> Trainer:
    return Trainer(torch.tensor(encode(TEXT)), SIZES, config, "cpu")


def weights_of(trainer: Trainer) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in trainer.model.parameters()]


def test_a_resumed_run_ends_with_the_same_bits_as_an_uninterrupted_one(tmp_path: Path):
    whole, first, second = new_trainer(), new_trainer(), new_trainer()
    losses = [whole.train_step() for _ in range(6)]
    resumed = [first.train_step() for _ in range(2)]
    first.save(tmp_path / "run.state")
    torch.manual_seed(999)  # whatever else happened in between
    second.resume(tmp_path / "run.state")
    assert second.step == 2
    assert resumed + [second.train_step() for _ in range(4)] == losses
    assert all(map(torch.equal, weights_of(whole), weights_of(second)))
    second.save(tmp_path / "run.state")
    assert [path.name for path in tmp_path.iterdir()] == ["run.state"], "it is replaced whole"


def test_a_state_of_other_settings_or_a_broken_one_is_refused(tmp_path: Path):
    path = tmp_path / "run.state"
    new_trainer().save(path)
    other = new_trainer(TrainConfig(steps=6, batch_size=3, warmup_steps=2, evaluate_every=2))
    before = weights_of(other)
    with pytest.raises(ValueError, match=r"run\.state was trained with .*'batch_size': 2"):
        other.resume(path)
    for keep in (2000, 0):
        path.write_bytes(path.read_bytes()[:keep])
        with pytest.raises(ValueError, match=r"run\.state is not a readable training state"):
            other.resume(path)
    assert other.step == 0
    assert all(map(torch.equal, before, weights_of(other)))


@pytest.mark.nightly
def test_training_changes_every_matrix_and_lowers_the_loss():
    trainer = new_trainer(TrainConfig(steps=60, batch_size=4, warmup_steps=5, peak_rate=0.05))
    before, first = weights_of(trainer), validation_loss(trainer.model, trainer.val_tokens)
    for _ in range(60):
        trainer.train_step()
    assert first == pytest.approx(math.log(65), abs=0.1)
    assert validation_loss(trainer.model, trainer.val_tokens) < 2.5
    assert not any(map(torch.equal, before, weights_of(trainer)))


def test_validation_is_the_mean_over_full_consecutive_windows_of_the_last_tenth():
    assert [part.tolist() for part in split(torch.arange(20))] == [list(range(18)), [18, 19]]
    trainer = new_trainer()
    tokens = trainer.train_tokens[: 20 * 8 + 6]  # 20 windows, and a rest that is left out
    losses: list[float] = []
    for start in range(0, 160, 8):
        window = tokens[None, start : start + 9]
        losses.append(trainer.model(window[:, :-1], window[:, 1:])[1].item())
    assert validation_loss(trainer.model, tokens) == pytest.approx(sum(losses) / 20, rel=1e-5)


def test_the_rate_warms_up_and_then_falls_along_half_a_cosine():
    config = TrainConfig(steps=110, warmup_steps=10, peak_rate=1.0, final_rate=0.1)
    rates = [config.rate(step) for step in (0, 9, 10, 60, 110)]
    assert rates == pytest.approx([0.1, 1.0, 1.0, 0.55, 0.1])


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The command line of a small run: tiny sizes and a made-up corpus with the right hash."""
    (tmp_path / "input.txt").write_text(TEXT)
    digest = hashlib.sha256(TEXT.encode()).hexdigest()
    monkeypatch.setattr(training, "CORPUS_SHA256", digest)
    monkeypatch.setattr(training, "SHAKESPEARE", SIZES)
    arguments = [
        "train", "--corpus", str(tmp_path / "input.txt"), "--out", str(tmp_path / "w.safetensors"),
        "--steps", "2", "--device", "cpu",
    ]  # fmt: skip
    monkeypatch.setattr("sys.argv", arguments)
    return arguments


def test_the_command_trains_and_the_same_command_again_has_nothing_left_to_do(command, capsys):
    training.main()
    said = capsys.readouterr().out
    assert said.startswith("step 2: train")
    weights = Path(command[4]).read_bytes()
    held_out = split(torch.tensor(encode(TEXT)))[1]
    loss = validation_loss(load_model(command[4]), held_out)
    assert loss == pytest.approx(float(said.split("val ")[1].split(",")[0]), abs=1e-3)
    training.main()
    assert capsys.readouterr().out == ""
    assert Path(command[4]).read_bytes() == weights


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--device", "gpu"], "--device is 'gpu'; torch finds no such device here"),
        (["--out", "not/there/w.safetensors"], "there is no folder not/there"),
        (["--corpus", "gone.txt"], "cannot read the corpus from gone.txt"),
    ],
)
def test_a_bad_argument_is_refused_with_a_sentence(arguments, words, command, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", [*command, *arguments])
    with pytest.raises(SystemExit):
        training.main()
    assert words in capsys.readouterr().err


def test_the_command_refuses_another_corpus_with_both_hashes(command, capsys):
    Path(command[2]).write_text(TEXT + "!")
    with pytest.raises(SystemExit) as ended:
        training.main()
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert hashlib.sha256((TEXT + "!").encode()).hexdigest() in said
    assert training.CORPUS_SHA256 in said
    assert not Path(command[4]).exists()
