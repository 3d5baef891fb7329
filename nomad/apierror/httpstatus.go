package apierror

import (
	"errors"
	"net/http"
)

// HTTPStatus returns the HTTP status for an error, as Nomad 2.0 does.
func HTTPStatus(err error) int {
	var coded *Coded
	switch {
	case errors.As(err, &coded):
		return coded.Code
	case errors.Is(err, ErrPermissionDenied), errors.Is(err, ErrTokenNotFound),
		errors.Is(err, ErrTokenExpired), errors.Is(err, ErrRegistrationClosed):
		return http.StatusForbidden
	case errors.Is(err, ErrACLDisabled):
		return http.StatusBadRequest
	case errors.Is(err, ErrNoMethod), errors.Is(err, ErrUnknownMethod): // of another agent
		return http.StatusNotImplemented
	case errors.Is(err, ErrNoNodeConn), errors.Is(err, ErrNodeNotFound):
		return http.StatusNotFound
	default:
		return http.StatusInternalServerError
	}
}
