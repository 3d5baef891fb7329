// Package redact removes what a server has written from the errors of requests to it, because it may repeat a token. It
// starts no goroutine.
package redact

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/open-nomad/open-nomad/internal/untrusted"
)

// maxError limits the text of an error, in bytes.
const maxError = 256

// Malformed reports whether the error of an HTTP request is about what the server has answered, not about the connection.
// The errors of the libraries quote the answer.
func Malformed(err error) bool {
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

// Printable returns an error whose text has a limited length and no control characters: a certificate can have any.
func Printable(err error) error {
	text := err.Error()
	if short := untrusted.Line(text, maxError); short != text {
		return errors.New(short)
	}
	return err
}
