package mlflow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Target is an experiment on a server, with a token, or user and password, or neither.
type Target struct {
	URL, Experiment       string
	Token, User, Password string
}

// Limits of one request: the limits of the server, and the number of bytes read from an answer.
const (
	maxMetrics = 1000
	maxParams  = 100
	maxTags    = 100
	maxAnswer  = 1 << 20
)

// Client is a client of one server. It is safe for concurrent use.
type Client struct {
	target Target
	base   *url.URL
	http   http.Client
}

// New returns a client without sending anything. A request takes at most timeout; 0 means no limit.
func New(t Target, timeout time.Duration) (*Client, error) {
	u, err := parse(t.URL)
	if err != nil {
		return nil, fmt.Errorf("MLflow server %q: %w", t.URL, err)
	}
	return &Client{target: t, base: u, http: http.Client{Timeout: timeout}}, nil
}

// Error is an error response of the server.
type Error struct {
	Status  int    // HTTP status code
	Code    string `json:"error_code"` // of MLflow, such as RESOURCE_DOES_NOT_EXIST; may be empty
	Message string `json:"message"`
}

// Error implements error.
func (e *Error) Error() string {
	switch {
	case e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden:
		return fmt.Sprintf("the server refuses access (status %d); set MLFLOW_TRACKING_TOKEN, or "+
			"MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD", e.Status)
	case e.Message != "":
		return fmt.Sprintf("the server answers %d: %.300s", e.Status, e.Message)
	}
	return fmt.Sprintf("the server answers %d %s", e.Status, http.StatusText(e.Status))
}

// is reports whether err is an answer with this code.
func is(err error, code string) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}

// send sends a request and decodes the answer into out, unless that is nil.
func (c *Client) send(ctx context.Context, method string, u *url.URL, body io.Reader, kind string, out any) error {
	r, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", kind)
	switch {
	case c.target.Token != "":
		r.Header.Set("Authorization", "Bearer "+c.target.Token)
	case c.target.User != "":
		r.SetBasicAuth(c.target.User, c.target.Password)
	}
	a, err := c.http.Do(r)
	if err != nil {
		var ue *url.Error
		switch {
		case !errors.As(err, &ue):
		case ue.Timeout() && c.http.Timeout > 0:
			err = fmt.Errorf("no answer for %v", c.http.Timeout)
		default: // without the URL and its query
			err = ue.Err
		}
		return err
	}
	defer a.Body.Close()
	b, err := io.ReadAll(io.LimitReader(a.Body, maxAnswer+1))
	if err != nil {
		return err
	}
	if len(b) > maxAnswer {
		return fmt.Errorf("the server answers with more than %d bytes", maxAnswer)
	}
	if a.StatusCode/100 != 2 {
		e := &Error{}
		if json.Unmarshal(b, e) != nil { // such as an HTML page of a proxy
			e = &Error{}
		}
		e.Status = a.StatusCode
		return e
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(b, out); err != nil {
		return fmt.Errorf("%s is not an MLflow server: it answers %.60q", c.base, b)
	}
	return nil
}

func (c *Client) get(ctx context.Context, path string, q url.Values, out any) error {
	u := c.base.JoinPath("api/2.0/mlflow", path)
	u.RawQuery = q.Encode()
	return c.send(ctx, http.MethodGet, u, nil, "application/json", out)
}

func (c *Client) post(ctx context.Context, path string, in, out any) error {
	b, err := json.Marshal(in)
	if err != nil {
		return err
	}
	return c.send(ctx, http.MethodPost, c.base.JoinPath("api/2.0/mlflow", path), bytes.NewReader(b), "application/json",
		out)
}

// Experiment returns the id of the experiment of the target. It creates the experiment if there is none.
func (c *Client) Experiment(ctx context.Context) (string, error) {
	name := c.target.Experiment
	var found struct {
		Experiment struct {
			ID    string `json:"experiment_id"`
			Name  string `json:"name"`
			Stage string `json:"lifecycle_stage"`
		} `json:"experiment"`
	}
	get := func() error {
		return c.get(ctx, "experiments/get-by-name", url.Values{"experiment_name": {name}}, &found)
	}
	err := get()
	if is(err, "RESOURCE_DOES_NOT_EXIST") {
		var made struct {
			ID string `json:"experiment_id"`
		}
		err = c.post(ctx, "experiments/create", map[string]string{"name": name}, &made)
		if err == nil && made.ID != "" {
			return made.ID, nil
		}
		if is(err, "RESOURCE_ALREADY_EXISTS") { // another run made it meanwhile
			err = get()
		}
	}
	switch {
	case err != nil:
		return "", err
	case found.Experiment.ID == "":
		return "", fmt.Errorf("%s is not an MLflow server: it has no experiments", c.base)
	case found.Experiment.Name != "" && found.Experiment.Name != name:
		return "", fmt.Errorf("%s is not an MLflow server: asked for the experiment %q, it answers with %.60q", c.base,
			name, found.Experiment.Name)
	case found.Experiment.Stage == "deleted":
		return "", fmt.Errorf("the experiment %q was deleted there; restore it, or name another one (track.experiment)",
			name)
	}
	return found.Experiment.ID, nil
}

// RunInfo is a run on the server.
type RunInfo struct {
	ID          string `json:"run_id"`
	ArtifactURI string `json:"artifact_uri"`
	Stage       string `json:"lifecycle_stage"`
}

type runAnswer struct {
	Run struct {
		Info RunInfo `json:"info"`
	} `json:"run"`
}

// CreateRun starts a run.
func (c *Client) CreateRun(ctx context.Context, experiment, name string, start time.Time) (RunInfo, error) {
	var a runAnswer
	err := c.post(ctx, "runs/create", map[string]any{"experiment_id": experiment, "run_name": name,
		"start_time": start.UnixMilli()}, &a)
	if err == nil && a.Run.Info.ID == "" {
		err = fmt.Errorf("%s is not an MLflow server: a new run has no id", c.base)
	}
	return a.Run.Info, err
}

// FindRun returns a run; ok is false if it was deleted.
func (c *Client) FindRun(ctx context.Context, id string) (r RunInfo, ok bool, err error) {
	var a runAnswer
	err = c.get(ctx, "runs/get", url.Values{"run_id": {id}}, &a)
	if is(err, "RESOURCE_DOES_NOT_EXIST") {
		return r, false, nil
	}
	if err == nil && a.Run.Info.ID != id {
		err = fmt.Errorf("%s is not an MLflow server: asked for the run %s, it answers with %.60q", c.base, id,
			a.Run.Info.ID)
	}
	return a.Run.Info, err == nil && a.Run.Info.Stage != "deleted", err
}

// Status is the status of a run.
type Status string

// The statuses that vsetrain sets.
const (
	Running  Status = "RUNNING"
	Finished Status = "FINISHED"
	Failed   Status = "FAILED"
	Killed   Status = "KILLED" // also interrupted
)

// SetStatus changes the status of a run; end is its end time, zero while it runs.
func (c *Client) SetStatus(ctx context.Context, id string, s Status, end time.Time) error {
	in := map[string]any{"run_id": id, "status": s}
	if !end.IsZero() {
		in["end_time"] = end.UnixMilli()
	}
	return c.post(ctx, "runs/update", in, nil)
}

// Metric is a value at a step.
type Metric struct {
	Key       string  `json:"key"`
	Value     float64 `json:"value"`
	Timestamp int64   `json:"timestamp"` // milliseconds since 1970
	Step      int64   `json:"step"`
}

// Entry is a setting or a tag.
type Entry struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// LogMetrics sends metrics, split into requests of the size that the server accepts. The server stores a metric with
// the same time and value only once.
func (c *Client) LogMetrics(ctx context.Context, id string, m []Metric) error {
	return logBatches(ctx, c, id, "metrics", m, maxMetrics)
}

// LogParams sends settings. The server returns an error if the run has another value for one of them.
func (c *Client) LogParams(ctx context.Context, id string, p []Entry) error {
	return logBatches(ctx, c, id, "params", p, maxParams)
}

// LogTags sends tags, which replace earlier ones of the same name.
func (c *Client) LogTags(ctx context.Context, id string, t []Entry) error {
	return logBatches(ctx, c, id, "tags", t, maxTags)
}

func logBatches[T any](ctx context.Context, c *Client, id, what string, all []T, most int) error {
	for part := range slices.Chunk(all, most) {
		if err := c.post(ctx, "runs/log-batch", map[string]any{"run_id": id, what: part}, nil); err != nil {
			return err
		}
	}
	return nil
}

// NoProxyError is the error for an artifact store that only MLflow's own library can write to.
type NoProxyError struct{ URI string }

// Error implements error.
func (e *NoProxyError) Error() string {
	return fmt.Sprintf("files were not sent: the server keeps them in %s and does not proxy them; start it with "+
		"--serve-artifacts and use a new experiment", e.URI)
}

// PutFile stores a file of a run through the artifact proxy of the server. The error is a *NoProxyError if the server
// has none.
func (c *Client) PutFile(ctx context.Context, r RunInfo, name string, content io.Reader) error {
	u, err := url.Parse(r.ArtifactURI)
	if err != nil || u.Scheme != "mlflow-artifacts" {
		return &NoProxyError{r.ArtifactURI}
	}
	to := c.base.JoinPath("api/2.0/mlflow-artifacts/artifacts", strings.TrimPrefix(u.Path, "/"), name)
	return c.send(ctx, http.MethodPut, to, content, "application/octet-stream", nil)
}
