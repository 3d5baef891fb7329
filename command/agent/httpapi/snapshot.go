package httpapi

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net/http"

	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// chunk is the number of bytes of an archive that are sent at a time.
const chunk = 64 << 10

func (s *Server) snapshotRoutes() []web.Route {
	return []web.Route{
		{Methods: "GET", Path: "/v1/operator/snapshot", Handle: s.snapshotSave},
		{Methods: "PUT POST", Path: "/v1/operator/snapshot", Call: web.Call{Method: "Operator.SnapshotRestore", Handle: snapshotRestore},
			Unbounded: true},
	}
}

// snapshotSave streams the archive from the servers to the client. The Digest header precedes the
// archive, so that the client can verify it.
func (s *Server) snapshotSave(r *web.Request) (any, error) {
	req := &message.SnapshotSaveRequest{}
	if err := r.ReadOptions(&req.QueryOptions); err != nil {
		return nil, err
	}
	stream, err := r.RPC().Stream(r.Context(), "Operator.SnapshotSave")
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	defer closeWhenGone(r, stream)()
	var reply message.SnapshotSaveResponse
	if err := errors.Join(stream.Encode(req), stream.Decode(&reply)); err != nil {
		return nil, err
	}
	if reply.ErrorMsg != "" {
		return nil, replyError(reply.ErrorCode, reply.ErrorMsg)
	}
	h := r.Reply.Header()
	r.SetIndex(&reply)
	h.Set("Digest", reply.SnapshotChecksum)
	h.Set("Content-Type", "application/x-gzip")
	sum := sha256.New()
	_, err = io.Copy(r.Reply, io.TeeReader(stream, sum))
	if got := "sha-256=" + base64.StdEncoding.EncodeToString(sum.Sum(nil)); err != nil || got != reply.SnapshotChecksum {
		s.cfg.Log.Warn("snapshot incomplete: the server or the caller disconnected", "err", err)
		panic(http.ErrAbortHandler) // aborts the body, so that the client detects the truncation
	}
	return nil, web.ErrDone
}

// snapshotRestore streams the body to the servers. The body can be as large as the state of the
// cluster, so the limit of other bodies does not apply.
func snapshotRestore(r *web.Request) (any, error) {
	req := &message.SnapshotRestoreRequest{}
	r.WriteOptions(&req.WriteRequest)
	stream, err := r.RPC().Stream(r.Context(), "Operator.SnapshotRestore")
	if err != nil {
		return nil, err
	}
	defer closeWhenGone(r, stream)()
	if err := stream.Encode(req); err != nil {
		stream.Close()
		return nil, err
	}
	sent := make(chan error, 1)
	go func() { sent <- upload(stream, r.Body) }()
	var reply message.SnapshotRestoreResponse
	err = stream.Decode(&reply)
	stream.Close() // ends the upload if it is still running
	if err != nil || reply.ErrorMsg != "" {
		r.Reply.Header().Set("Connection", "close") // the rest of the body is not read
		r.DropBody()                                // without read deadlines, the end of the body is awaited
	}
	switch truncated := <-sent; {
	case errors.Is(truncated, web.ErrSlowBody):
		return nil, web.ErrSlowBody
	case err != nil:
		return nil, err
	case reply.ErrorMsg != "":
		return nil, replyError(reply.ErrorCode, reply.ErrorMsg)
	}
	r.SetIndex(&reply)
	return nil, nil
}

// upload sends body in chunks and returns the read error of body.
func upload(to *rpc.Stream, body io.Reader) error {
	buf := make([]byte, chunk)
	for {
		n, err := body.Read(buf)
		if n > 0 && to.Encode(&message.StreamErrWrapper{Payload: buf[:n]}) != nil {
			return nil // the reply contains the cause
		}
		if err == nil {
			continue
		}
		end := err.Error()
		if err != io.EOF {
			end = "upload incomplete: " + end
		}
		to.Encode(&message.StreamErrWrapper{Error: &message.RpcError{Message: end}}) // the reply reports whether this arrived
		return err
	}
}

func replyError(code int, text string) error {
	if code < 400 || code > 599 {
		code = http.StatusInternalServerError
	}
	return apierror.Errorf(code, "%s", text)
}
