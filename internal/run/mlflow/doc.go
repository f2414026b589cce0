// Package mlflow is a client of MLflow's tracking server: experiments, runs, metrics, settings and files over its REST
// API.
//
// Source: https://mlflow.org/docs/latest/rest-api.html (version 2.0, which servers of MLflow 1 to 3 answer), and
// mlflow/protos/mlflow_artifacts.proto for files. MLflow has no library for Go.
package mlflow
