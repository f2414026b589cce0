#!/bin/sh
# Times vsetrain and the PyTorch peer alternately on this machine and prints one table with their ratios.
#
#   PYTHON=python3 scripts/compare-torch.sh --network vsepp --loss lseh --threads 2 --rounds 3
#
# PYTHON is any interpreter with torch and numpy; VSETRAIN the binary (default: bin/vsetrain, else the one in PATH).
# Options: scripts/compare-torch.sh --help
exec "${PYTHON:-python3}" "$(dirname "$0")/compare_torch.py" "$@"
