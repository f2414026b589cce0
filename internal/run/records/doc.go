// Package records writes and reads metrics.jsonl, which has one line for each logged step and each validation. It
// writes the same values as TensorBoard events.
package records
