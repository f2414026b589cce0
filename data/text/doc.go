// Package text turns captions into word ids: NLTK-conformant word tokenisation, vocabularies, caption labels and
// the size augmentation of words and regions.
package text
