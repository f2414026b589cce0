// Package tracking sends the records of a run to an MLflow server, while it trains or afterwards.
package tracking
