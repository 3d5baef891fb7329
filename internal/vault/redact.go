package vault

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/hashicorp/vault/api"

	"github.com/open-nomad/open-nomad/internal/redact"
)

var (
	errMalformed = errors.New("the answer is malformed, incomplete or not of Vault: check the address of the vault block")
	errTooLarge  = fmt.Errorf("the answer is larger than %d MiB", MaxAnswer>>20)
	errRedirect  = errors.New("the answer is a redirect, which is not followed: set the address of Vault itself")
)

// Redact returns an error of a request without the URL and the text of Vault's answer. Its text has one line of printable
// characters.
func Redact(err error) error {
	var (
		status  *api.ResponseError
		size    *http.MaxBytesError
		request *url.Error
	)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &status):
		return fmt.Errorf("unexpected status %d", status.StatusCode)
	case errors.Is(err, context.DeadlineExceeded):
		return context.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case errors.Is(err, errRedirect):
		return errRedirect
	case errors.As(err, &size):
		return errTooLarge
	case redact.Malformed(err):
		return errMalformed
	}
	if errors.As(err, &request) {
		return redact.Printable(request.Err)
	}
	return errMalformed // of the library, which quotes the answer
}

// Answered reports whether an error of a request is about an answer: an error status, or what is not an answer of Vault.
// Otherwise Vault did not answer.
func Answered(err error) bool {
	var (
		status  *api.ResponseError
		size    *http.MaxBytesError
		request *url.Error
	)
	switch {
	case err == nil, errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return false
	case errors.As(err, &status), errors.Is(err, errRedirect), errors.As(err, &size), redact.Malformed(err):
		return true
	}
	return !errors.As(err, &request)
}
