package consul

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/internal/redact"
)

// errMalformed is the error of an answer that cannot be read. The errors of the libraries quote it.
var errMalformed = errors.New("the answer is malformed, incomplete or not of Consul: check the address of the consul block")

// Redact returns an error of a request without the URL and the text of Consul's answer. It adds the cause of known answers,
// and what to do about known errors of the connection. Its text has one line of printable characters. A redacted error stays
// as it is.
func Redact(err error) error {
	var status api.StatusError
	switch {
	case err == nil:
		return nil
	case as[*explained](err):
		return err
	case errors.As(err, &status):
		return fmt.Errorf("unexpected status %d%s", status.Code, cause(status))
	case errors.Is(err, context.DeadlineExceeded):
		return context.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case errors.Is(err, errTooLarge):
		return errTooLarge
	case redact.Malformed(err):
		return errMalformed
	}
	what := remedy(err)
	var request *url.Error
	if errors.As(err, &request) {
		err = request.Err
	}
	if err = redact.Printable(err); what != "" {
		return &explained{err, what}
	}
	return err
}
