package eval

import (
	"bufio"
	_ "embed"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"vsetrain/internal/files/regular"
)

// Published is a public checkpoint, or several whose scores are averaged, with the recalls that its authors report.
type Published struct {
	Name    string   // chosen by this project
	Files   []string // as published, or the archive that holds them
	Network string   // vsetrain's name of the network, empty if vsetrain does not have it
	Data    string   // f30k, coco, …
	Where   string   // the page that links to it
	SHA256  []string // of the files, in hexadecimal; nil if unknown
	Note    string   // for users; may be empty
	Recalls []PublishedRecalls
}

// PublishedRecalls are the recalls that a source reports for one protocol.
type PublishedRecalls struct {
	Protocol Protocol
	// Values are R@1, R@5 and R@10 of image to text, then of text to image, in percent; NaN if not reported.
	Values [6]float64
	Quirks []string // rows of docs/fidelity.md that apply to the source's evaluation, and to vsetrain's on request
	Source string
}

// RecallNames name the values of PublishedRecalls.
var RecallNames = [6]string{"i2t R@1", "i2t R@5", "i2t R@10", "t2i R@1", "t2i R@5", "t2i R@10"}

//go:embed published.tsv
var publishedTable string

// PublishedCheckpoints returns the checkpoints of the embedded table (eval/published.tsv), in its order.
func PublishedCheckpoints() []Published {
	list, err := ReadPublished(strings.NewReader(publishedTable), "published.tsv")
	if err != nil {
		panic(err) // the table is embedded and tested
	}
	return list
}

// publishedColumns are the columns of a table of published checkpoints. A checkpoint has a row for each protocol. These
// rows follow each other, and differ only in the columns of the protocol. An empty cell means unknown. Several files,
// hashes or quirks are separated by commas.
var publishedColumns = []string{"name", "files", "network", "data", "protocol", "i2t_r1", "i2t_r5", "i2t_r10", "t2i_r1",
	"t2i_r5", "t2i_r10", "quirks", "sha256", "where", "source", "note"}

var quirkName = regexp.MustCompile(`^Q[1-9][0-9]?$`)

// ReadPublished reads a tab-separated table of published checkpoints with a header line. Errors give the name of the
// file and the line.
func ReadPublished(r io.Reader, name string) ([]Published, error) {
	var list []Published
	lines := bufio.NewScanner(regular.TextReader(r))
	for number := 1; lines.Scan(); number++ {
		cells := strings.Split(lines.Text(), "\t")
		if number == 1 {
			if !slices.Equal(cells, publishedColumns) {
				return nil, fmt.Errorf("%s:1: columns %q, expected %q with tabs between them", name, cells,
					publishedColumns)
			}
			continue
		}
		if err := addPublished(&list, cells); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, number, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: expected a header line and rows of checkpoints, found none", name)
	}
	return list, nil
}

// addPublished adds a row to a list: a new checkpoint, or a protocol of the last checkpoint.
func addPublished(list *[]Published, cells []string) error {
	if len(cells) != len(publishedColumns) {
		return fmt.Errorf("%d cells, expected %d", len(cells), len(publishedColumns))
	}
	several := func(cell string) []string {
		if cell == "" {
			return nil
		}
		return strings.Split(cell, ",")
	}
	p := Published{Name: cells[0], Files: several(cells[1]), Network: cells[2], Data: cells[3],
		SHA256: several(cells[12]), Where: cells[13], Note: cells[15]}
	n := PublishedRecalls{Quirks: several(cells[11]), Source: cells[14]}
	var err error
	if n.Protocol, err = ParseProtocol(cells[4]); err != nil {
		return err
	}
	some := false
	for i, cell := range cells[5:11] {
		n.Values[i] = math.NaN()
		if cell == "" {
			continue
		}
		if n.Values[i], err = strconv.ParseFloat(cell, 64); err != nil || !(n.Values[i] >= 0 && n.Values[i] <= 100) {
			return fmt.Errorf("%s is %q, expected percent", RecallNames[i], cell)
		}
		some = true
	}
	switch {
	case p.Name == "" || strings.ContainsAny(p.Name, " /") || len(p.Files) == 0 || p.Data == "" || p.Where == "":
		return fmt.Errorf("expected a name without blanks, a file, a data set and where it is, found %q, %q, %q and %q",
			p.Name, cells[1], p.Data, p.Where)
	case n.Protocol == Auto:
		return fmt.Errorf("no protocol, expected 1k, 5k, 5x1k or whole")
	case some && n.Source == "":
		return fmt.Errorf("recalls without a source")
	case p.SHA256 != nil && len(p.SHA256) != len(p.Files):
		return fmt.Errorf("%d hashes of %d files", len(p.SHA256), len(p.Files))
	}
	for _, h := range p.SHA256 {
		if b, err := hex.DecodeString(h); err != nil || len(b) != 32 {
			return fmt.Errorf("SHA-256 %q, expected 64 hexadecimal digits", h)
		}
	}
	for _, q := range n.Quirks {
		if !quirkName.MatchString(q) {
			return fmt.Errorf("quirk %q, expected the number of a row of docs/fidelity.md, such as Q10", q)
		}
	}
	return p.join(list, n)
}

// join adds a checkpoint to a list, or its recalls to the last checkpoint if that has the same name.
func (p Published) join(list *[]Published, n PublishedRecalls) error {
	p.Recalls = []PublishedRecalls{n}
	i := slices.IndexFunc(*list, func(o Published) bool { return o.Name == p.Name })
	if i < 0 {
		*list = append(*list, p)
		return nil
	}
	o := &(*list)[i]
	switch {
	case i != len(*list)-1:
		return fmt.Errorf("the name %s again; rows of one name must follow each other", p.Name)
	case !slices.Equal(o.Files, p.Files) || o.Network != p.Network || o.Data != p.Data || o.Where != p.Where ||
		o.Note != p.Note || !slices.Equal(o.SHA256, p.SHA256):
		return fmt.Errorf("the rows of %s differ in more than protocol, recalls, quirks and source", p.Name)
	case slices.ContainsFunc(o.Recalls, func(r PublishedRecalls) bool { return r.Protocol == n.Protocol }):
		return fmt.Errorf("the protocol %s of %s again", n.Protocol, p.Name)
	}
	o.Recalls = append(o.Recalls, n)
	return nil
}

// Values returns the six recalls in the order of RecallNames.
func (m Metrics) Values() [6]float64 {
	return [6]float64{m.I2T.R1, m.I2T.R5, m.I2T.R10, m.T2I.R1, m.T2I.R5, m.T2I.R10}
}

// Off returns measured minus published recalls, in the order of RecallNames; NaN if not reported. Published recalls are
// rounded to a tenth, so a difference of up to 0.05 is returned as 0.
func (p *PublishedRecalls) Off(m Metrics) (off [6]float64) {
	const rounding = 0.05 + 1e-9
	for i, v := range m.Values() {
		if off[i] = v - p.Values[i]; math.Abs(off[i]) <= rounding {
			off[i] = 0
		}
	}
	return off
}

// Known returns the number of recalls that the source reports.
func (p *PublishedRecalls) Known() (n int) {
	for _, v := range p.Values {
		if !math.IsNaN(v) {
			n++
		}
	}
	return n
}

// Largest returns the index of the largest difference, and whether any recall differs.
func Largest(off [6]float64) (at int, any bool) {
	for i, d := range off {
		if !math.IsNaN(d) && math.Abs(d) > 0 && (!any || math.Abs(d) > math.Abs(off[at])) {
			at, any = i, true
		}
	}
	return at, any
}
