// Package search retrieves with a trained network: it encodes a split once and then answers queries against it,
// exactly.
//
//	text  → image    s_i = S(image i, query)      over all images of the split
//	image → text     s_c = S(image q, caption c)  over all captions of the split
//
// S is the score of the network as evaluation computes it: the dot product of embeddings in float64 (VSE++, VSRN,
// VSE-infinity), the order violation, or the score of a pair, where the network looks at both; of several checkpoints
// it is the mean of their scores. Results are the k candidates of the highest score, ties in the order of evaluation:
// the larger index first.
//
// A split of images alone answers text queries, one of captions alone pictures.
//
// A network that scores pairs looks at every candidate. With Options.Shortlist an embedder picks the best candidates
// first and the pair scorer orders those alone.
package search
