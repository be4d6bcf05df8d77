"""The contestants, one module each; nothing of them is imported before it is asked for."""

from benchmarks.peers.base import PEERS, Peer, PeerMissingError, Run, open_peers

__all__ = ("PEERS", "Peer", "PeerMissingError", "Run", "open_peers")
