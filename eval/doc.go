// Package eval measures image-caption retrieval: the ranks of true matches in a score matrix, recalls and
// M-Recall, the 1K, 5K and 5x1K protocols, and ensembles.
//
// The score matrix S is [N, M]: rows are images, columns are captions, and caption c belongs to image
// c / k, where k is the number of captions per image (5 on Flickr and COCO, 1 on IAPR TC-12). Nothing here
// knows a network: a network hands over either embeddings (Embeddings) or finished scores (Dense).
//
// Source: the i2t and t2i functions of the VSE++, VSRN, SGRAF and VSE-infinity repositories (evaluation.py).
package eval
