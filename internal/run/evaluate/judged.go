package evaluate

import (
	"errors"
	"os"
	"path/filepath"

	"vsetrain/data"
	"vsetrain/eval"
	"vsetrain/internal/compute/par"
)

// judges are human judgements of a split: judgements with several positives, and ratings of pairs.
type judges struct {
	judgements []*eval.Judgements
	ratings    []*eval.Ratings
}

// openJudges reads the judgements that a request names, for the split of the report.
func (r *Request) openJudges(rep *Report) (*judges, error) {
	if len(r.Judgements) == 0 {
		return nil, nil
	}
	if rep.Data == "" {
		return nil, errors.New("judgements call images and captions by ids, which stored scores do not have: name " +
			"their data set with --data")
	}
	s, err := data.Open(rep.Data, r.Split, data.OpenOptions{CaptionsPerImage: rep.Own.Each()})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return readJudges(r.Judgements, s)
}

// readJudges reads judgements and ratings of a split.
func readJudges(paths []string, s *data.Split) (*judges, error) {
	j := &judges{}
	for _, path := range paths {
		folder := path
		if st, err := os.Stat(path); err == nil && !st.IsDir() {
			folder = filepath.Dir(path)
		}
		ids, err := eval.NewIDs(s, folder)
		if err != nil {
			return nil, err
		}
		if eval.IsRatings(path) {
			r, err := eval.ReadRatings(path, ids)
			if err != nil {
				return nil, err
			}
			j.ratings = append(j.ratings, r)
			continue
		}
		sets, err := eval.FindJudgements(path)
		if err != nil {
			return nil, err
		}
		for _, files := range sets {
			set, err := eval.ReadJudgements(files, ids)
			if err != nil {
				return nil, err
			}
			j.judgements = append(j.judgements, set)
		}
	}
	return j, nil
}

// measure adds the agreement of scores with the judgements to a report.
func (j *judges) measure(pool *par.Pool, s eval.Scores, rep *Report) error {
	if j == nil {
		return nil
	}
	for _, set := range j.judgements {
		m, o, err := eval.Judge(pool, s, set)
		if err != nil {
			return err
		}
		rep.Judged, rep.Outcomes = append(rep.Judged, m), append(rep.Outcomes, o)
	}
	for _, r := range j.ratings {
		h, err := eval.Agree(s, rep.Own, r)
		if err != nil {
			return err
		}
		rep.People = append(rep.People, h)
	}
	return nil
}
