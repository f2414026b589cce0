// Package cluster writes what batch systems read: scripts of Slurm and manifests of Kubernetes (docs/distributed.md,
// docs/sweeps.md).
package cluster
