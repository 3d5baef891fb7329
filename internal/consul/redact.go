package consul

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/internal/untrusted"
)

// maxError limits the text of an error, in bytes.
const maxError = 256

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
	case malformed(err):
		return errMalformed
	}
	what := remedy(err)
	var request *url.Error
	if errors.As(err, &request) {
		err = request.Err
	}
	if err = printable(err); what != "" {
		return &explained{err, what}
	}
	return err
}

// malformed reports whether an error is about what Consul has answered, not about the connection.
func malformed(err error) bool {
	var (
		syntax  *json.SyntaxError
		value   *json.UnmarshalTypeError
		instant *time.ParseError
		header  textproto.ProtocolError
		request *url.Error
	)
	switch {
	case errors.As(err, &syntax), errors.As(err, &value), errors.As(err, &instant), errors.As(err, &header),
		errors.Is(err, io.ErrUnexpectedEOF):
		return true
	}
	// The errors of net/http about an answer have no type, and those of connections have one.
	return errors.As(err, &request) && !ofConnection(err) && !strings.HasPrefix(request.Err.Error(), "tls: ")
}

func ofConnection(err error) bool {
	var (
		network     *net.OpError
		errno       syscall.Errno
		record      tls.RecordHeaderError
		certificate *tls.CertificateVerificationError
		timeout     interface{ Timeout() bool }
	)
	return errors.As(err, &network) || errors.As(err, &errno) || errors.As(err, &record) || errors.As(err, &certificate) ||
		errors.Is(err, io.EOF) || errors.Is(err, http.ErrSchemeMismatch) || errors.As(err, &timeout) && timeout.Timeout()
}

// printable returns an error whose text has a limited length and no control characters: a certificate can have any.
func printable(err error) error {
	text := err.Error()
	if short := untrusted.Line(text, maxError); short != text {
		return errors.New(short)
	}
	return err
}
