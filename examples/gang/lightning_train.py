"""Trains with PyTorch Lightning, one process for each rank. Needs `pip install lightning` on every worker.

    muster run --gang 4 --launch per-rank --slurm-env -- python3 examples/gang/lightning_train.py
    muster run --gang 4 --tasks-per-worker 2 --gpus 1 --launch per-rank --slurm-env -- python3 examples/gang/lightning_train.py

With the variables of Slurm, Lightning takes the number of processes and its own place from them, and starts none of its
own. `devices` and `num_nodes` must agree with what the gang was given, so they are taken from there too.

Lightning writes its checkpoints in one rank and reads them in all, so they lie in a directory that all workers share: by
default runs/GANG in the working directory, or --env CHECKPOINTS=/shared/run-1. The gang keeps its id over all rounds.
"""

import os

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint


class Line(LightningModule):
    def __init__(self):
        super().__init__()
        self.line = torch.nn.Linear(1, 1)

    def training_step(self, batch):
        return torch.nn.functional.mse_loss(self.line(batch), 3 * batch + 1)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def main():
    directory = os.environ.get("CHECKPOINTS", os.path.join("runs", os.environ["GANG_ID"]))
    newest = os.path.join(directory, "last.ckpt")
    cuda = torch.cuda.is_available()
    trainer = Trainer(
        accelerator="gpu" if cuda else "cpu",
        devices=int(os.environ["LOCAL_WORLD_SIZE"]),
        num_nodes=int(os.environ["NNODES"]),
        strategy="ddp",
        max_epochs=int(os.environ.get("EPOCHS", "5")),
        callbacks=[ModelCheckpoint(dirpath=directory, save_last=True)],
        enable_progress_bar=False,
        logger=False,
    )
    data = torch.utils.data.DataLoader(torch.rand(640, 1), batch_size=64)
    trainer.fit(Line(), data, ckpt_path=newest if os.path.exists(newest) else None)
    trainer.print(f"done at epoch {trainer.current_epoch} on {trainer.world_size} processes")


if __name__ == "__main__":
    main()
