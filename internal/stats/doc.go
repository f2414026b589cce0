// Package stats computes how certain a measured difference is: bootstrap intervals, permutation tests, Student's t for
// runs with several seeds, and rank correlations. It does not depend on retrieval; docs/evaluation.md says which
// statistics are computed from which measures.
package stats
