// Package serve answers queries against encoded splits as JSON over HTTP (docs/serve.md).
//
// Requests pass, in this order: the access log and its counters, the check of host and token, the limit of requests in
// progress, the limit of the body, the handler. Queries that arrive together are answered together (batcher.go): their
// captions are encoded in one run of the network and compared with all images in one product. The table of routes
// (routes.go) makes both the handlers and the OpenAPI description, whose schemas are generated from the Go types.
package serve
