// Package stats says how sure a measured difference is: bootstrap intervals, permutation tests, Student's t for runs
// with several seeds, and rank correlations. It knows nothing of retrieval; docs/evaluation.md tells what is computed
// of which numbers.
package stats
