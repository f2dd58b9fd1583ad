"""Fits a line with DistributedDataParallel; started by torchrun on every node (see torchrun.sh). Needs PyTorch.

After every epoch one process of each node leaves a checkpoint, so that the next round goes on where this one ended.
Nodes may end at different moments; all start from the newest checkpoint that any of them has.
"""

import os
import signal

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

EPOCHS = int(os.environ.get("EPOCHS", "5"))
stopping = False


def main():
    # torchrun passes SIGTERM on to all its processes: Muster wants the machine back.
    signal.signal(signal.SIGTERM, ask_to_stop)
    cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if cuda else "gloo")
    local_rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local_rank) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)

    torch.manual_seed(0)
    model = torch.nn.Linear(1, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    first = resume(model, optimizer, device)
    model = DistributedDataParallel(model, device_ids=[local_rank] if cuda else None)

    generator = torch.Generator().manual_seed(dist.get_rank())
    loss = torch.tensor(0.0)
    for epoch in range(first, EPOCHS):
        for _ in range(100):
            x = torch.rand(64, 1, generator=generator).to(device)
            loss = torch.nn.functional.mse_loss(model(x), 3 * x + 1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if local_rank == 0:
            save(model.module, optimizer, epoch + 1)
        if dist.get_rank() == 0:
            print(f"epoch {epoch + 1} of {EPOCHS}: loss {loss.item():.6f}", flush=True)
        if anybody_stopping(device):
            break
    else:
        if dist.get_rank() == 0:
            print(f"done: weight {model.module.weight.item():.3f}, bias {model.module.bias.item():.3f}", flush=True)
    dist.destroy_process_group()


def resume(model, optimizer, device):
    """Loads the newest checkpoint that any node has. Returns the epoch to go on with."""
    path = os.environ.get("MUSTER_CHECKPOINT_FILE")
    state = torch.load(path, map_location=device) if path else {"epoch": 0}
    epochs = [None] * dist.get_world_size()
    dist.all_gather_object(epochs, state["epoch"])
    newest = max(epochs)
    if newest == 0:
        return 0
    states = [state]
    dist.broadcast_object_list(states, src=epochs.index(newest))
    model.load_state_dict(states[0]["model"])
    optimizer.load_state_dict(states[0]["optimizer"])
    return newest


def save(model, optimizer, epoch):
    """Leaves a checkpoint where the worker picks it up when torchrun has ended."""
    path = os.environ.get("MUSTER_CHECKPOINT_OUT")
    if path:
        state = {"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(state, path + ".new")
        os.replace(path + ".new", path)


def ask_to_stop(*_):
    global stopping
    stopping = True


def anybody_stopping(device):
    """All processes must leave at the same step, or some would wait for others for ever."""
    flag = torch.tensor(float(stopping), device=device)
    dist.all_reduce(flag, op=dist.ReduceOp.MAX)
    return flag.item() > 0


if __name__ == "__main__":
    main()
