package search

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vsetrain/data/synth"
	"vsetrain/lab/try"
	"vsetrain/models"
)

// Queries that are answered together have the hits that search gives each alone, in order and bit for bit: captions of
// a synthetic world, in batches whose captions begin alike, end alike or are equal, with a bidirectional GRU whose
// products are large enough for the fast kernels. Of eight images four are equal, two differ in the last bit of one
// value, and two by less than operands of 16 bits tell, so that no answer is without ties and near ties.
func TestManyQueriesAreSearch(t *testing.T) {
	const most = 500 // queries
	r := rand.New(rand.NewPCG(5, 6))
	world := filepath.Join(t.TempDir(), "world")
	o := synth.Default()
	o.Train, o.Dev, o.Test, o.TestAll, o.Regions, o.Dim = 40, 12, 400, most/5, 1, 16
	try.Do(t, synth.Generate(world, o, nil))
	text := try.Get(os.ReadFile(filepath.Join(world, "testall_caps.txt")))(t)
	captions := strings.Split(strings.TrimSpace(string(text)), "\n")
	run := trainRun(t, world, func(m *models.Options) {
		m.Network, m.TextEncoder, m.EmbedDim, m.WordDim = models.VSEInf, "bigru", 256, 200
	})
	x := open(t, Options{Checkpoints: []string{run}})
	m := x.members[0].(*embedder)
	rows := try.Get(m.imageRows(t.Context()))(t)
	for i := range len(rows) / m.dim {
		row := rows[i*m.dim : (i+1)*m.dim]
		copy(row, rows[i/8*8*m.dim:])
		switch i % 8 {
		case 4, 5:
			v := &row[r.IntN(m.dim)]
			*v = math.Nextafter32(*v, 2*r.Float32()-1)
		case 6, 7:
			for c := range row {
				row[c] *= 1 + 1e-3*(2*r.Float32()-1)
			}
		}
	}
	ties := 0
	for asked := 0; asked < most; {
		var queries []Query
		for range min(1+r.IntN(40), most-asked) {
			queries = append(queries, Query{Text: captions[r.IntN(len(captions))], K: 10})
		}
		asked += len(queries)
		for i, got := range x.Batch(t.Context(), queries) {
			want, err := x.Text(t.Context(), queries[i].Text, 10)
			if err != nil || got.Err != nil {
				t.Fatal(err, got.Err)
			}
			if !slices.Equal(got.Hits, want.Hits) {
				t.Fatalf("query %d of %d, %q: %v, alone %v", i, len(queries), queries[i].Text, got.Hits, want.Hits)
			}
			for j, h := range want.Hits[1:] {
				if h.Score == want.Hits[j].Score {
					ties++
					break
				}
			}
		}
	}
	if ties < most*9/10 {
		t.Errorf("%d of %d answers have ties", ties, most)
	}
}
