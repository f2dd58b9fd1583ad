#!/bin/sh
# Trains over several nodes with PyTorch. Needs `pip install torch` on every worker, and this directory there.
#
#     muster run --gang 2 -- examples/gang/torchrun.sh                  # two nodes, a process on each, no GPU
#     muster run --gang 2 --gpus 8 -- examples/gang/torchrun.sh         # sixteen processes, one for each GPU
#
# torchrun takes no flags: Muster has set PET_NNODES, PET_NPROC_PER_NODE, PET_NODE_RANK, PET_MASTER_ADDR and
# PET_MASTER_PORT, which are its defaults.
exec torchrun "$(dirname "$0")/train.py" "$@"
