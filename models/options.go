package models

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"vsetrain/internal/options"
)

// Names of the networks.
const (
	VSEPP  = "vsepp"  // VSE++ on flattened regions
	VSRN   = "vsrn"   // visual semantic reasoning
	SAF    = "saf"    // SGRAF, similarity attention filtration
	SGR    = "sgr"    // SGRAF, similarity graph reasoning
	VSEInf = "vseinf" // VSE-infinity, generalised pooling
	GSMN   = "gsmn"   // graph structured matching
	SCAN   = "scan"   // stacked cross attention
	CHAN   = "chan"   // cross-modal hard aligning
)

// Options chooses the network and its sizes. Sizes of the input (regions, feature dimension, vocabulary) come from the
// data.
type Options struct {
	Network     string `yaml:"network" enum:"vsepp|vsrn|saf|sgr|vseinf|gsmn|scan|chan" doc:"vsepp, vsrn, saf and sgr (SGRAF), vseinf, gsmn, scan, chan"`
	EmbedDim    int    `yaml:"embed_dim" min:"1" max:"65536" doc:"size of the joint embedding; 1024, vsrn 2048"`
	WordDim     int    `yaml:"word_dim" min:"1" max:"65536" doc:"size of a word vector (gru, bigru)"`
	TextEncoder string `yaml:"text_encoder" enum:"gru|bigru|bert" doc:"gru for vsepp and vsrn, bigru for saf, sgr and gsmn, bigru or gru for scan, bigru or bert for vseinf and chan"`

	Bert   BertOptions   `yaml:"bert" doc:"used when text_encoder is bert"`
	VSEPP  VSEPPOptions  `yaml:"vsepp" doc:"used when network is vsepp"`
	VSRN   VSRNOptions   `yaml:"vsrn" doc:"used when network is vsrn"`
	SGRAF  SGRAFOptions  `yaml:"sgraf" doc:"used when network is saf or sgr"`
	VSEInf VSEInfOptions `yaml:"vseinf" doc:"used when network is vseinf"`
	GSMN   GSMNOptions   `yaml:"gsmn" doc:"used when network is gsmn"`
	SCAN   SCANOptions   `yaml:"scan" doc:"used when network is scan"`
	CHAN   CHANOptions   `yaml:"chan" doc:"used when network is chan"`
}

// BertOptions are the sizes of a BERT encoder and where it starts from.
type BertOptions struct {
	// Dir is read by whoever begins a run; a checkpoint does not keep it.
	Dir  string `yaml:"dir" json:"-" doc:"folder of the pretrained encoder, as Hugging Face's bert-base-uncased: vocab.txt and model.safetensors or pytorch_model.bin"`
	Init string `yaml:"init" json:"-" enum:"pretrained|random" doc:"first weights of the encoder: those in dir, or random (dir then needs vocab.txt only)"`

	Layers       int     `yaml:"layers" min:"1" max:"1000" doc:"layers"`
	Hidden       int     `yaml:"hidden" min:"1" max:"65536" doc:"size of a hidden state"`
	Heads        int     `yaml:"heads" min:"1" max:"65536" doc:"attention heads; hidden is a multiple"`
	Intermediate int     `yaml:"intermediate" min:"1" max:"1000000" doc:"size of the inner layer"`
	Positions    int     `yaml:"positions" min:"3" max:"65536" doc:"longest caption in word pieces, [CLS] and [SEP] included; longer ones are cut"`
	Dropout      float64 `yaml:"dropout" min:"0" below:"1" doc:"dropout of embeddings, attention and both branches in training; 0 turns it off"`
}

// First weights of a BERT encoder.
const (
	BertPretrained = "pretrained"
	BertRandom     = "random"
)

// TextBert is the text encoder BERT.
const TextBert = "bert"

// VSEPPOptions are the switches of the VSE++ reference.
type VSEPPOptions struct {
	Measure   string `yaml:"measure" enum:"cosine|order" doc:"similarity: cosine, or order embeddings -|max(0, c - i)|"`
	UseAbs    bool   `yaml:"use_abs" doc:"take the absolute value of both embeddings"`
	NoImgNorm bool   `yaml:"no_imgnorm" doc:"leave the image embedding without L2 normalisation"`
}

// VSRNOptions are the quirks of the VSRN reference that can be chosen.
type VSRNOptions struct {
	Mode            string `yaml:"mode" enum:"f30k|coco" doc:"f30k ends in a batch norm (Flickr30K, Flickr8K, IAPR TC-12); coco normalises the regions first instead"`
	L2Axis          string `yaml:"l2_axis" enum:"region|feature" doc:"axis of the L2 normalisation of region vectors; region as published"`
	DuplicateParams bool   `yaml:"duplicate_params" doc:"count the captioning parameters twice in clipping and Adam, as the reference does"`
	Caption         bool   `yaml:"caption" doc:"train the captioning branch beside retrieval"`
	// Dropout is input_dropout_p of the reference: of the encoder's inputs, and of the words and contexts of the
	// decoder.
	Dropout float64 `yaml:"dropout" min:"0" below:"1" doc:"dropout of the captioning branch in training; 0 turns it off"`
}

// SGRAFOptions are the sizes of the similarity networks SAF and SGR.
type SGRAFOptions struct {
	SimDim int `yaml:"sim_dim" min:"1" max:"65536" doc:"size of a similarity vector"`
	Steps  int `yaml:"steps" min:"1" max:"64" doc:"graph reasoning steps (sgr)"`
	// Dropout is that of the word vectors and of the branches that make the global vectors; the reference has no option
	// for it.
	Dropout float64 `yaml:"dropout" min:"0" below:"1" doc:"dropout of word vectors and global vectors in training; 0 turns it off"`
}

// VSEInfOptions are the choices of VSE-infinity in region mode.
type VSEInfOptions struct {
	BNIgnorePadding bool `yaml:"bn_ignore_padding" doc:"keep zero padding rows out of batch norm statistics; false as published"`
	SizeAugment     bool `yaml:"size_augment" doc:"drop 20 % of regions and mask or drop 20 % of words in training"`
}

// GSMNOptions are the choices of GSMN.
type GSMNOptions struct {
	Mode      string  `yaml:"mode" enum:"sparse|dense" doc:"text graph: dependency edges or all pairs"`
	Lambda    float64 `yaml:"lambda" above:"0" max:"80" doc:"inverse temperature of cross attention; 20 for Flickr30K, 10 for COCO"`
	BoxDecay  bool    `yaml:"compat_box_decay" doc:"divide boxes again at every use of an image in training, as the released code does; not recommended"`
	Neighbors string  `yaml:"neighbors" enum:"self|true" doc:"graph convolution over the node's own vector (self, as published) or its neighbours' (true, as in the paper)"`
}

// DefaultOptions returns VSE++ with the published sizes, and the published settings of the other networks.
func DefaultOptions() Options {
	return Options{
		Network:     VSEPP,
		EmbedDim:    1024,
		WordDim:     300,
		TextEncoder: "gru",
		Bert: BertOptions{Init: BertPretrained, Layers: 12, Hidden: 768, Heads: 12, Intermediate: 3072,
			Positions: 512, Dropout: 0.1},
		VSEPP:  VSEPPOptions{Measure: "cosine"},
		VSRN:   VSRNOptions{Mode: "f30k", L2Axis: "region", Caption: true, Dropout: 0.2},
		SGRAF:  SGRAFOptions{SimDim: 256, Steps: 3, Dropout: 0.4},
		VSEInf: VSEInfOptions{SizeAugment: true},
		GSMN:   GSMNOptions{Mode: "sparse", Lambda: 20, Neighbors: "self"},
		SCAN:   SCANOptions{Attention: "t2i", Aggregate: "lse", Norm: "clipped_l2norm", Lambda: 9, LambdaLSE: 6},
		CHAN: CHANOptions{ImageEncoder: "selfattention", Axis: "regions", Heads: 8, Coding: "vha", Pooling: "lse",
			Alpha: 0.1,
			Beta:  0.1, SizeAugment: true},
	}
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

// divisor returns an error unless the value of a key, n, divides that of another, of.
func divisor(key string, n int, other string, of int) *options.Error {
	if of%n == 0 {
		return nil
	}
	return &options.Error{Key: key, Found: strconv.Itoa(n), Expected: fmt.Sprintf("a divisor of %s = %d", other, of)}
}
