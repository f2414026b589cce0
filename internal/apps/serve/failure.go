package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"vsetrain/data"
	"vsetrain/internal/apps/search"
)

// failure is an answer with a status of 400 or above.
type failure struct {
	status  int
	code    string
	message string
	cause   error // for the log; nil where the message says all
}

// Error implements error.
func (f *failure) Error() string { return f.message }

func badRequest(format string, args ...any) *failure {
	return &failure{status: http.StatusBadRequest, code: "bad_request", message: fmt.Sprintf(format, args...)}
}

// statusGone is what the log has for a request whose client went away (nginx's number).
const statusGone = 499

// failureOf says what an error is for the client.
func failureOf(err error) *failure {
	var f *failure
	var none *search.NoEmbeddingError
	var big *http.MaxBytesError
	var change *data.ChangeError
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &big):
		return &failure{status: http.StatusRequestEntityTooLarge, code: "too_large",
			message: fmt.Sprintf("the request has more than %d bytes", big.Limit)}
	case errors.As(err, &none):
		return &failure{status: http.StatusUnprocessableEntity, code: "no_embedding", message: err.Error()}
	case errors.Is(err, data.ErrImageExists):
		return &failure{status: http.StatusConflict, code: "exists", message: err.Error()}
	case errors.Is(err, data.ErrNoImage):
		return &failure{status: http.StatusNotFound, code: "no_image", message: err.Error()}
	case errors.As(err, &change):
		return &failure{status: http.StatusUnprocessableEntity, code: "unprocessable", message: err.Error()}
	case search.Refused(err):
		return &failure{status: http.StatusUnprocessableEntity, code: "unprocessable", message: err.Error()}
	case errors.Is(err, context.DeadlineExceeded):
		return &failure{status: http.StatusGatewayTimeout, code: "timeout", message: "the answer took too long"}
	case errors.Is(err, context.Canceled):
		return &failure{status: statusGone, code: "gone", message: "the client went away"}
	}
	return &failure{status: http.StatusInternalServerError, code: "internal",
		message: "internal error; the log of the server tells more", cause: err}
}
