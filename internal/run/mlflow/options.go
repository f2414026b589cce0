package mlflow

import (
	"fmt"
	"net/url"

	"vsetrain/internal/system/options"
)

// Off as the address turns tracking off, even if the environment names a server.
const Off = "off"

// Options configure experiment tracking.
type Options struct {
	MLflow     string `yaml:"mlflow" arg:"URL" doc:"address of an MLflow tracking server, such as http://127.0.0.1:5000; empty takes MLFLOW_TRACKING_URI, off sends nothing"`
	Experiment string `yaml:"experiment" arg:"NAME" doc:"name of the MLflow experiment; empty is MLFLOW_EXPERIMENT_NAME, or vsetrain"`
}

// Validate returns an *options.Error for the first invalid option.
func (o *Options) Validate() error {
	if o.MLflow == "" || o.MLflow == Off {
		return nil
	}
	if _, err := parse(o.MLflow); err != nil {
		return &options.Error{Key: "mlflow", Found: fmt.Sprintf("%q", o.MLflow),
			Expected: "the address of a server, http://HOST:PORT, or off", Remedy: err.Error()}
	}
	return nil
}

// parse reads the address of a server. It must not contain a password, because addresses are stored with the run.
func parse(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("a tracking server is reached over http or https")
	case u.User != nil:
		return nil, fmt.Errorf("name user and password with MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, " +
			"or a token with MLFLOW_TRACKING_TOKEN")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("leave out what follows ? or #")
	}
	return u, nil
}
