// Package serve answers queries against encoded splits as JSON over HTTP (docs/serve.md).
//
// A request passes the access log and its counters, the checks of host and token, the limits of body and requests in
// progress, and its handler, in this order. Queries that arrive together are answered together (batcher.go): the
// network encodes their captions in one run, and one product compares them with all images. The table of routes
// (routes.go) defines both the handlers and the OpenAPI description, whose schemas are generated from the Go types.
package serve
