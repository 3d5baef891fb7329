package wire

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/open-nomad/open-nomad/plugins/drivers"
	"github.com/open-nomad/open-nomad/plugins/proto"
)

// EncodeError returns the gRPC error of a driver's error. A recoverable one has a detail.
func EncodeError(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, drivers.ErrTaskNotFound) { // clients compare the text
		return status.Error(codes.Unknown, drivers.ErrTaskNotFound.Error())
	}
	if errors.Is(err, context.Canceled) {
		return status.Error(codes.Canceled, err.Error())
	}
	if _, ok := errors.AsType[*drivers.RecoverableError](err); ok {
		with, derr := status.New(codes.FailedPrecondition, err.Error()).WithDetails(&proto.RecoverableError{Recoverable: true})
		if derr == nil {
			return with.Err()
		}
	}
	return status.Error(codes.Unknown, err.Error())
}

// DecodeError returns the driver's error of a gRPC error: drivers.ErrTaskNotFound, drivers.ErrNotRunning,
// a drivers.RecoverableError, the error of a context, or the text.
func DecodeError(err error) error {
	if err == nil {
		return nil
	}
	st, ok := status.FromError(err)
	if !ok {
		return err
	}
	switch text := Clip(st.Message()); st.Code() {
	case codes.Unavailable:
		return fmt.Errorf("%w: %s", drivers.ErrNotRunning, text)
	case codes.Canceled:
		return fmt.Errorf("%w: %s", context.Canceled, text)
	case codes.DeadlineExceeded:
		return fmt.Errorf("the plugin did not answer in time: %w", context.DeadlineExceeded)
	case codes.FailedPrecondition:
		if recoverable(st) {
			return &drivers.RecoverableError{Err: errors.New(text)}
		}
		return errors.New(text)
	default:
		if strings.Contains(text, drivers.ErrTaskNotFound.Error()) {
			return drivers.ErrTaskNotFound
		}
		return errors.New(text)
	}
}

// IsUnimplemented reports whether a gRPC error means that the plugin does not have the method.
func IsUnimplemented(err error) bool { return status.Code(err) == codes.Unimplemented }

func recoverable(st *status.Status) bool {
	for _, d := range st.Details() {
		if r, ok := d.(*proto.RecoverableError); ok {
			return r.GetRecoverable()
		}
	}
	return false
}
