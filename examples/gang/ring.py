#!/usr/bin/env python3
"""A gang without any library: ranks form a ring, add numbers step by step, and survive the loss of a rank.

    muster run --gang 4 -- python3 examples/gang/ring.py

A token goes round the ring. Each rank adds the next whole number to the sum that it carries; when the token is back
at the first rank, the step is complete and goes round once more to be saved by all. After STEPS steps the sum must be
that of all numbers up to the last one. When a rank dies, the others notice and end; Muster starts the gang again on
fresh ports, each rank finds what it saved last, and the ring goes on from the newest of these.

Variables that it understands: STEPS (10), STEP_SECONDS (0, how long each rank works in a step).
"""

import json
import os
import signal
import socket
import sys
import time

PATIENCE = 60.0  # seconds to wait for the others
STEPS = int(os.environ.get("STEPS", "10"))
STEP_SECONDS = float(os.environ.get("STEP_SECONDS", "0"))


def say(text):
    print(f"rank {RANK} of {len(PEERS)}: {text}", flush=True)


def members():
    """The addresses of the ranks that start in this round, and which one is ours.

    A task that does not take part in a round (done already, or more than the gang starts with) has no address.
    """
    entries = os.environ["GANG_PEERS"].split(",")
    own = int(os.environ["GANG_INDEX"])
    present = [index for index, entry in enumerate(entries) if entry]
    return [address(entries[index]) for index in present], present.index(own)


def address(entry):
    host, _, port = entry.rpartition(":")
    return host.strip("[]"), int(port)


class Ring:
    """Talks to the rank before this one and to the rank after it, in lines of JSON."""

    def __init__(self):
        # Whoever greets with another name is left over from another round.
        greeting = [os.environ["GANG_ID"], os.environ.get("MUSTER_GANG_ROUND", "1")]
        listener = socket.create_server(("", PEERS[RANK][1]))
        listener.settimeout(PATIENCE)
        self.after = connect(PEERS[(RANK + 1) % len(PEERS)])
        self.send(greeting)
        while True:
            connection, _ = listener.accept()
            connection.settimeout(PATIENCE)
            self.before = connection.makefile("r")
            if self.receive() == greeting:
                break
        listener.close()

    def send(self, message):
        self.after.sendall(json.dumps(message).encode() + b"\n")

    def receive(self):
        line = self.before.readline()
        if not line.endswith("\n"):
            raise ConnectionError("the rank before this one is gone")
        return json.loads(line)

    def round_trip(self, token, visit):
        """Sends a token round: each rank changes it in turn. All return it as it is after the last one."""
        if RANK == 0:
            self.send(visit(token))
            token = self.receive()
        else:
            self.send(visit(self.receive()))
        # Once more, so that everybody knows how it ended; the last rank has nobody left to tell.
        if RANK > 0:
            token = self.receive()
        if RANK < len(PEERS) - 1:
            self.send(token)
        return token


def connect(peer):
    """The others may start a little later than this rank."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return socket.create_connection(peer, timeout=PATIENCE)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def load():
    """What this rank saved in an earlier attempt: the first time there is no such file."""
    try:
        with open(os.environ["MUSTER_CHECKPOINT_FILE"]) as file:
            return json.load(file)
    except (KeyError, OSError, ValueError):
        return {"step": 0, "last": 0, "sum": 0}


def save(state):
    """Leaves a checkpoint where the worker picks it up when this process ends, however it ends.

    `muster checkpoint save FILE` would hand it to the scheduler at once, so that it also survives the machine.
    """
    path = os.environ.get("MUSTER_CHECKPOINT_OUT")
    if path:
        # Written aside and moved: a kill in the middle leaves the one before.
        with open(path + ".new", "w") as file:
            json.dump(state, file)
        os.replace(path + ".new", path)


def add(state):
    time.sleep(STEP_SECONDS)
    number = state["last"] + 1
    return {"step": state["step"], "last": number, "sum": state["sum"] + number}


def main():
    # Everything is saved after each step, so that there is nothing to do when Muster asks us to leave.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    ring = Ring()
    found = load()
    newest = lambda other: max(found, other, key=lambda state: state["step"])
    state = ring.round_trip(found, newest)
    say(f"starts at step {state['step']} with {state['sum']}, had step {found['step']}")
    while state["step"] < STEPS:
        state = ring.round_trip(state, add)
        state["step"] += 1
        save(state)
        say(f"step {state['step']}: {state['sum']}")
    expected = state["last"] * (state["last"] + 1) // 2
    if state["sum"] != expected:
        sys.exit(f"the sum is {state['sum']} and should be {expected}")
    say(f"done: the sum of the numbers up to {state['last']} is {state['sum']}")


if __name__ == "__main__":
    PEERS, RANK = members()
    try:
        main()
    except OSError as error:
        sys.exit(f"rank {RANK} of {len(PEERS)}: the ring is broken: {error}")
