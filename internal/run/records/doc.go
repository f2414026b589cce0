// Package records writes and reads the lines of metrics.jsonl, one for each logged step and each validation, and the
// same as events of TensorBoard.
package records
