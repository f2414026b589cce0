package text

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"vsetrain/internal/files/jsontext"
	"vsetrain/internal/files/regular"
)

// Files of Hugging Face's tokenisers that say how a BERT normalises letters.
const (
	TokenizerConfig = "tokenizer_config.json" // kept in a run
	tokenizerFile   = "tokenizer.json"
)

// letters are the entries of tokenizer_config.json, and of the normaliser in tokenizer.json, about letters.
type letters struct {
	Lower   *bool `json:"do_lower_case"`
	Strip   *bool `json:"strip_accents"` // null: as Lower
	Chinese *bool `json:"tokenize_chinese_chars"`
	Basic   *bool `json:"do_basic_tokenize,omitempty"`

	Class string   `json:"tokenizer_class"`
	Never []string `json:"never_split,omitempty"`
}

// wordPieceClasses are the tokenisers that split words as BERT's does, without "Fast".
var wordPieceClasses = []string{"BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer", "MobileBertTokenizer",
	"ConvBertTokenizer", "SqueezeBertTokenizer", "LxmertTokenizer", "LayoutLMTokenizer"}

// readNormalizer reads the normalizer from the folder of a vocab.txt: from tokenizer_config.json, then the normaliser
// of tokenizer.json, then the defaults of BERT. If no file says whether letters become lower case, they do. Then a
// vocabulary with a piece that no lower-case text has is an error.
func (v *BertTokenizer) readNormalizer(dir string) (n Normalizer, err error) {
	var says letters
	whole, err := readJSON(filepath.Join(dir, TokenizerConfig), &says)
	if err != nil {
		return n, err
	}
	class := strings.TrimSuffix(says.Class, "Fast")
	generic := class == "PreTrainedTokenizer" // which reads tokenizer.json
	switch {
	case class != "" && !generic && !slices.Contains(wordPieceClasses, class):
		return n, fmt.Errorf("%s names the tokeniser %s, which splits words in another way; expected one of %s",
			TokenizerConfig, says.Class, strings.Join(wordPieceClasses, ", "))
	case says.Basic != nil && !*says.Basic:
		return n, fmt.Errorf("%s: do_basic_tokenize is false; expected true: words come from BERT's basic tokeniser",
			TokenizerConfig)
	case len(says.Never) > 0:
		return n, fmt.Errorf("%s: never_split is %q; expected none", TokenizerConfig, says.Never)
	}
	if says.Lower == nil || says.Chinese == nil || generic {
		if err := says.complete(filepath.Join(dir, tokenizerFile), generic); err != nil {
			return n, err
		}
	}
	if says.Lower == nil && v.foreign != "" {
		where := "there is no " + TokenizerConfig
		if whole {
			where = TokenizerConfig + " says nothing of do_lower_case"
		}
		return n, fmt.Errorf("its piece %q has capitals or accents, so it is not from an uncased BERT, and %s; get "+
			"that file from the source of the vocabulary, or write one with {\"do_lower_case\": false}, or true if "+
			"the model was trained in lower case", v.foreign, where)
	}
	n.Lowercase = says.Lower == nil || *says.Lower
	n.StripAccents = n.Lowercase
	if says.Strip != nil {
		n.StripAccents = *says.Strip
	}
	n.Chinese = says.Chinese == nil || *says.Chinese
	return n, nil
}

// complete adds missing entries from tokenizer.json, if it exists. A file that is needed must be from a BERT.
func (says *letters) complete(path string, needed bool) error {
	type normalizer struct {
		Type    string       `json:"type"`
		Lower   *bool        `json:"lowercase"`
		Strip   *bool        `json:"strip_accents"`
		Chinese *bool        `json:"handle_chinese_chars"`
		List    []normalizer `json:"normalizers"`
	}
	var f struct {
		Model struct {
			Type string `json:"type"`
		} `json:"model"`
		Normalizer *normalizer `json:"normalizer"`
	}
	there, err := readJSON(path, &f)
	if err != nil || !there && !needed {
		return err
	}
	found := normalizer{Type: "none"}
	if f.Normalizer != nil {
		found = *f.Normalizer
	}
	for _, one := range found.List {
		if one.Type == "BertNormalizer" {
			found = one
		}
	}
	switch {
	case !there || f.Model.Type != "WordPiece":
		return fmt.Errorf("%s: model type %q; expected WordPiece, as a BERT has", path, f.Model.Type)
	case found.Type != "BertNormalizer":
		return fmt.Errorf("%s: normaliser %q; expected BertNormalizer; set do_lower_case, strip_accents and "+
			"tokenize_chinese_chars in a %s", path, found.Type, TokenizerConfig)
	}
	if says.Lower == nil {
		says.Lower, says.Strip = found.Lower, cmp.Or(says.Strip, found.Strip)
	}
	says.Chinese = cmp.Or(says.Chinese, found.Chinese)
	return nil
}

// readJSON reads a file of JSON into v, and reports whether there is one.
func readJSON(path string, v any) (bool, error) {
	b, err := regular.ReadFile(path, maxPieceFile, filepath.Base(path))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = jsontext.Unmarshal(b, v)
	}
	if err != nil {
		return false, regular.Explain(fmt.Errorf("%s: %w", path, err), path, regular.JSON)
	}
	return true, nil
}

// isForeign reports whether a piece has letters that bert-base-uncased removes from texts.
func isForeign(piece string) bool {
	plain := strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) {
			return -1
		}
		return unicode.ToLower(r)
	}, norm.NFD.String(piece))
	return plain != "" && plain != piece
}

// writeNormalizer writes a tokenizer_config.json.
func (v *BertTokenizer) writeNormalizer(w io.Writer) error {
	n := v.Normalizer
	return json.NewEncoder(w).Encode(letters{Lower: &n.Lowercase, Strip: &n.StripAccents, Chinese: &n.Chinese,
		Class: wordPieceClasses[0]})
}
