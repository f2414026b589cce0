package view

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"vsetrain/internal/files/regular"
)

// trialNote is the content of the sweep's files in the folder of a trial: target, the present epochs to train to
// (successive halving raises it rung by rung), result-N.json for the results after N epochs, and failed.json.
type trialNote struct {
	Target int    // 0 without
	Rungs  []int  // epochs it was measured after, ascending
	Failed string // "" without
}

// maxNote bounds what is read of these files.
const maxNote = 1 << 16

func readTrial(dir string) (n trialNote) {
	if b, err := regular.ReadFile(filepath.Join(dir, "target"), maxNote, "a note of a sweep"); err == nil {
		n.Target, _ = strconv.Atoi(string(bytes.TrimSpace(b)))
	}
	if b, err := regular.ReadFile(filepath.Join(dir, "failed.json"), maxNote, "a note of a sweep"); err == nil {
		var f struct {
			Error string `json:"error"`
		}
		if n.Failed = "failed"; json.Unmarshal(b, &f) == nil && f.Error != "" {
			n.Failed = f.Error
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return n
	}
	for _, e := range entries {
		text, ok := strings.CutPrefix(strings.TrimSuffix(e.Name(), ".json"), "result-")
		if epochs, err := strconv.Atoi(text); ok && err == nil && epochs > 0 {
			n.Rungs = append(n.Rungs, epochs)
		}
	}
	slices.Sort(n.Rungs)
	return n
}

// Rung returns the epochs of the last result, or 0.
func (n trialNote) Rung() int {
	if len(n.Rungs) == 0 {
		return 0
	}
	return n.Rungs[len(n.Rungs)-1]
}

// waiting counts the folders of trials without a run, and lists those that failed before they had one.
func waiting(sweep string, trials []*Run) (none int, failed []string) {
	begun := map[string]bool{}
	for _, t := range trials {
		begun[t.TrialName()] = true
	}
	entries, err := os.ReadDir(filepath.Join(sweep, "trials"))
	if err != nil {
		return 0, nil
	}
	for _, e := range entries {
		if !e.IsDir() || begun[e.Name()] {
			continue
		}
		if n := readTrial(filepath.Join(sweep, "trials", e.Name())); n.Failed != "" {
			failed = append(failed, e.Name()+": "+n.Failed)
			continue
		}
		none++
	}
	return none, failed
}
