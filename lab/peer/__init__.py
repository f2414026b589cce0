"""Parts of torch_peer.py: the networks in PyTorch, their losses, their data, and what is timed."""
