package models

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"vsetrain/internal/system/options"
)

// Options chooses the network and its sizes. The sizes of the input (regions, features, vocabulary) come from the data.
// A network with options has a field here; its file holds everything else.
type Options struct {
	Network     string `yaml:"network"`
	EmbedDim    int    `yaml:"embed_dim" min:"1" max:"65536" doc:"size of the joint embedding; 1024, vsrn 2048"`
	WordDim     int    `yaml:"word_dim" min:"1" max:"65536" doc:"size of a word vector (gru, bigru)"`
	TextEncoder string `yaml:"text_encoder" enum:"gru|bigru|bert"`

	// WordInit is read when a run begins, as Bert.Dir is.
	WordInit   string `yaml:"word_init" json:"-" doc:"file of pretrained word vectors (gru, bigru): GloVe, word2vec or fastText text, or NAME.npy with NAME.words.txt; empty draws them"`
	WordFrozen bool   `yaml:"word_frozen" json:",omitempty" doc:"keep the initial word vectors (gru, bigru)"`

	Bert   BertOptions   `yaml:"bert" doc:"used when text_encoder is bert"`
	VSEPP  VSEPPOptions  `yaml:"vsepp"`
	VSRN   VSRNOptions   `yaml:"vsrn"`
	SGRAF  SGRAFOptions  `yaml:"sgraf"`
	VSEInf VSEInfOptions `yaml:"vseinf"`
	GSMN   GSMNOptions   `yaml:"gsmn"`
	SCAN   SCANOptions   `yaml:"scan"`
	CHAN   CHANOptions   `yaml:"chan"`
}

// MoreTags implements options.Tagged with the traits of the networks.
func (Options) MoreTags(key string) reflect.StructTag {
	all := NamesWhere(func(Traits) bool { return true })
	switch key {
	case "network":
		titles := make([]string, len(all))
		for i, name := range all {
			titles[i] = name + " (" + published(name).Title + ")"
		}
		return options.Tag("enum", strings.Join(all, "|")) + " " + options.Tag("doc", strings.Join(titles, ", "))
	case "text_encoder":
		return options.Tag("doc", encoderDoc(all))
	}
	if of := NamesWhere(func(t Traits) bool { return t.Section == key }); len(of) > 0 {
		return options.Tag("doc", "used when network is "+strings.Join(of, " or "))
	}
	return ""
}

// encoderDoc documents text_encoder: the text encoders of the networks.
func encoderDoc(networks []string) string {
	var kinds []string
	of := map[string][]string{}
	for _, name := range networks {
		kind := strings.Join(published(name).TextEncoders, " or ")
		if of[kind] == nil {
			kinds = append(kinds, kind)
		}
		of[kind] = append(of[kind], name)
	}
	for i, kind := range kinds {
		kinds[i] += " for " + strings.Join(of[kind], ", ")
	}
	return strings.Join(kinds, "; ")
}

// BertOptions are the sizes of a BERT encoder and its initial weights.
type BertOptions struct {
	// Dir is read when a run begins; a checkpoint does not store it.
	Dir  string `yaml:"dir" json:"-" doc:"folder of the pretrained encoder, as Hugging Face's bert-base-uncased: vocab.txt and model.safetensors or pytorch_model.bin"`
	Init string `yaml:"init" json:"-" enum:"pretrained|random" doc:"initial weights of the encoder: from dir, or random (dir then needs only vocab.txt)"`

	Layers       int     `yaml:"layers" min:"1" max:"1000" doc:"layers"`
	Hidden       int     `yaml:"hidden" min:"1" max:"65536" doc:"size of a hidden state"`
	Heads        int     `yaml:"heads" min:"1" max:"65536" doc:"attention heads; must divide hidden" reference:"+num_attention_heads"`
	Intermediate int     `yaml:"intermediate" min:"1" max:"1000000" doc:"size of the inner layer"`
	Positions    int     `yaml:"positions" min:"3" max:"65536" doc:"longest caption in word pieces, [CLS] and [SEP] included; longer ones are cut"`
	Dropout      float64 `yaml:"dropout" min:"0" below:"1" doc:"dropout of embeddings, attention and both branches in training; 0 turns it off"`
}

// Values of BertOptions.Init.
const (
	BertPretrained = "pretrained"
	BertRandom     = "random"
)

// TextBert is the text encoder BERT.
const TextBert = "bert"

// DefaultOptions returns VSE++ with the published sizes, and the published settings of the other networks.
func DefaultOptions() Options {
	o := Options{
		Network:     VSEPP,
		EmbedDim:    1024,
		WordDim:     300,
		TextEncoder: "gru",
		Bert: BertOptions{Init: BertPretrained, Layers: 12, Hidden: 768, Heads: 12, Intermediate: 3072,
			Positions: 512, Dropout: 0.1},
	}
	for _, e := range registry {
		if e.defaults != nil {
			e.defaults(&o)
		}
	}
	return o
}

// encoderTitle returns the text encoder of a network that has two, as papers write it.
func encoderTitle(o *Options) string {
	if o.TextEncoder == TextBert {
		return "BERT"
	}
	return "BiGRU"
}

// Validate returns an *options.Error for the first option that cannot be used.
func (o *Options) Validate() error {
	if err := options.Check(o); err != nil {
		return err
	}
	if ok := o.Traits().TextEncoders; !slices.Contains(ok, o.TextEncoder) {
		return &options.Error{Key: "text_encoder", Found: strconv.Quote(o.TextEncoder),
			Expected: strings.Join(ok, " or ") + " for network " + o.Network}
	}
	if err := o.checkWords(); err != nil {
		return err
	}
	if err := divisor("bert.heads", o.Bert.Heads, "bert.hidden", o.Bert.Hidden); err != nil {
		return err
	}
	if e := registry[o.Network]; e.check != nil {
		if err := e.check(o); err != nil {
			return err
		}
	}
	return nil
}

// checkWords returns the first option of word vectors that cannot be used.
func (o *Options) checkWords() *options.Error {
	const expected = "none with text_encoder bert, whose word pieces bring their own vectors (bert.dir)"
	switch {
	case o.TextEncoder != TextBert:
		return nil
	case o.WordInit != "":
		return &options.Error{Key: "word_init", Found: o.WordInit, Expected: expected}
	case o.WordFrozen:
		return &options.Error{Key: "word_frozen", Found: "true", Expected: "false" + expected[len("none"):]}
	}
	return nil
}

// divisor returns an error unless the value of a key, n, divides the value of another, of.
func divisor(key string, n int, other string, of int) *options.Error {
	if of%n == 0 {
		return nil
	}
	return &options.Error{Key: key, Found: strconv.Itoa(n), Expected: fmt.Sprintf("a divisor of %s = %d", other, of)}
}
