package servertest

import (
	"errors"
	"io"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// StreamError opens a stream and returns the error that it receives.
func StreamError(open func() (*rpc.Stream, error), req any) error {
	st, err := open()
	if err != nil {
		return err
	}
	defer st.Close()
	if err := st.Encode(req); err != nil {
		return err
	}
	if _, uploads := req.(*message.SnapshotRestoreRequest); uploads {
		st.Encode(&message.StreamErrWrapper{Error: &message.RpcError{Message: "EOF"}}) // a refusal closes the stream first
	}
	var first struct {
		Error    *message.RpcError
		ErrorMsg string
	}
	if err := st.Decode(&first); err != nil {
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
	switch {
	case first.Error != nil:
		return apierror.FromText(first.Error.Message)
	case first.ErrorMsg != "":
		return apierror.FromText(first.ErrorMsg)
	}
	return nil
}

// SetToken sets the token of a request. The server answers it at once: waits and indexes are reset.
func SetToken(req rpc.Request, token string) {
	switch r := req.(type) {
	case interface{ Query() *message.QueryOptions }:
		*r.Query() = message.QueryOptions{Region: "global", Namespace: r.Query().Namespace, AuthToken: token, Filter: r.Query().Filter,
			PerPage: r.Query().PerPage}
	case interface{ Write() *message.WriteRequest }:
		*r.Write() = message.WriteRequest{Region: "global", Namespace: r.Write().Namespace, AuthToken: token}
	case interface{ Caller() *message.NodeCall }:
		*r.Caller() = message.NodeCall{Region: "global", AuthToken: token}
	}
}
