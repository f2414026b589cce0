// Package text turns captions into word ids: NLTK-conformant word tokenisation, vocabularies, caption labels and
// the size augmentation of words and regions.
//
// Ids have to be the same as in the reference implementations, so every step follows NLTK or BERT to the letter and is
// tested against them. Why not a library: jdkato/prose, the Go port of the Treebank tokeniser, is archived;
// neurosnap/sentences implements Punkt, but nobody has shown that it splits as NLTK does; sugarme/tokenizer brings much
// more than WordPiece, of which its equality with Hugging Face's would have to be shown too.
package text
