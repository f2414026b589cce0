// Package synth generates a synthetic data set to train on, because no real data can be shipped. It has scenes of
// objects with attributes, actions, relations and positions. Region features are like the features of
// bottom-up-attention (R regions of D channels: non-negative, three quarters zero, correlated, mean 0.45), with boxes
// and picture sizes. Each picture has several captions from a grammar with synonyms, paraphrases and dependency trees.
//
// Word frequencies follow Zipf's law. Many pictures have near twins that show the same objects with other attributes or
// relations, so there are hard negatives: a model that knows only categories is far better than chance, but only models
// that bind attributes and relations to their objects reach high recalls.
//
// Every picture is a pure function of (seed, split, index). Pictures are generated in parallel blocks and streamed to
// disk, so memory does not grow with their number, and the bytes do not depend on the number of threads.
package synth
