// Package eval measures image-caption retrieval: the ranks of matches in a score matrix, recalls and M-Recall, the 1K,
// 5K and 5x1K protocols, and ensembles.
//
// The score matrix S is [N, M]: rows are images, columns are captions. The captions of an image are consecutive
// columns: usually k for every image (5 on Flickr and COCO, 1 on IAPR TC-12), otherwise as in data.Groups. Ranking does
// not depend on the network: a network provides either embeddings (Embeddings) or finished scores (Dense).
//
// Source: the i2t and t2i functions of the VSE++, VSRN, SGRAF and VSE-infinity repositories (evaluation.py).
package eval
