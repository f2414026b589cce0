package config

import (
	"os"
	"strings"
	"testing"

	"vsetrain/lab/try"
	"vsetrain/loss"
	"vsetrain/models"
)

// networkNames and lossNames are what messages say of the keys whose values the files of networks and losses add.
var (
	networkNames = "one of " + strings.Join(models.NamesWhere(func(models.Traits) bool { return true }), ", ")
	lossNames    = "one of " + strings.Join(loss.Names(), ", ")
)

// What the program has today is among them.
func TestNamesOfNetworksAndLosses(t *testing.T) {
	for list, first := range map[string]string{networkNames: "one of vsepp, vsrn, saf, sgr, vseinf, gsmn, scan, chan",
		lossNames: "one of lsh, lmh, luwm, lseh"} {
		if !strings.HasPrefix(list, first) {
			t.Errorf("%s, expected it to begin with %s", list, first)
		}
	}
}

// badFiles are the configurations of testdata/bad.txt by name, each with its mistakes, and what Load says of it.
func badFiles(t testing.TB) (texts, messages map[string]string) {
	texts, messages = map[string]string{}, map[string]string{}
	names := strings.NewReplacer("one of NETWORKS", networkNames, "one of LOSSES", lossNames)
	for _, c := range strings.Split("\n"+string(try.Get(os.ReadFile("testdata/bad.txt"))(t)), "\n-- ")[1:] {
		name, text, _ := strings.Cut(c, " --\n")
		text, message, _ := strings.Cut(text, "\n=> ")
		texts[name+".yaml"] = text + "\n"
		messages[name+".yaml"] = names.Replace(strings.ReplaceAll(strings.TrimSpace(message), "\n=> ", "\n"))
	}
	return texts, messages
}

func TestBadFiles(t *testing.T) {
	texts, messages := badFiles(t)
	if t.Chdir(try.Files(t, texts)); len(texts) < 46 {
		t.Errorf("%d configurations, expected 46 or more", len(texts))
	}
	for name, want := range messages {
		if _, err := Load(Request{File: name}); err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", name, err, want)
		}
	}
}
