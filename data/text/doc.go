// Package text turns captions into word ids: NLTK-conformant word tokenisation, vocabularies, caption labels and
// the size augmentation of words and regions.
//
// Ids must be the same as in the reference implementations, so every step follows NLTK or BERT exactly and is tested
// against them. No library does this: jdkato/prose, the Go port of the Treebank tokeniser, is archived;
// neurosnap/sentences implements Punkt, but is not tested against NLTK; sugarme/tokenizer is much larger than
// WordPiece.
package text
