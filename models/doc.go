// Package models holds the visual-semantic embedding networks, each written once as a graph of coarse operations.
//
// An Embedder maps images and captions into one space, where the similarity of all pairs is one product. A PairScorer
// looks at every image and caption together (pairs.go). Losses and evaluation see scores only, so any loss works with
// any network.
package models
