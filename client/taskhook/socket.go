package taskhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/internal/connlimit"
	"github.com/open-nomad/open-nomad/internal/safefs"
)

// socketName is the Task API socket in the task's secrets directory.
const socketName = "api.sock"

// socketHook serves the agent's HTTP API to the task on a socket that only the task's user can
// open. The API rejects and audits requests without a token. If the socket can't be created,
// the task runs without it.
type socketHook struct {
	api *API
	key string // of the task, in the limit of connections
	log *slog.Logger
}

// API is the HTTP API of the agent for the tasks of this node.
type API struct {
	Handler http.Handler
	Limit   *connlimit.Limit // shared by the sockets of all tasks
	// Refused is called for each connection over the limit. It may be nil.
	Refused func(net.Conn)
}

// Limits of a task's socket. Responses have no limit, since blocking queries and streams take
// minutes.
const (
	// SocketConns is the limit of open connections of one task.
	SocketConns   = 32
	headerTimeout = 5 * time.Second // from the accept, or the first byte of a later request
	idleTimeout   = 30 * time.Second
	maxHeader     = 64 << 10
)

// tooMany is the response to a connection over the limit.
const tooMany = "HTTP/1.1 429 Too Many Requests\r\nContent-Type: text/plain\r\nConnection: close\r\n" +
	"Content-Length: 47\r\n\r\nThe task has too many connections to its socket"

func newSocketHook(c Config) hook.Hook {
	return &socketHook{api: c.API, key: c.Alloc.ID + "/" + c.Task.Name, log: c.Log}
}

func (*socketHook) Name() string { return "api_socket" }

func (h *socketHook) Prestart(ctx context.Context, req *TaskPrestartRequest, resp *TaskPrestartResponse) error {
	if h.api == nil {
		return nil
	}
	if req.Dir == nil {
		return errNoDir
	}
	l, err := listen(ctx, req.Dir.Secrets(), socketName, req.Owner)
	if err != nil {
		h.log.Warn("create task API socket", "err", err)
		return nil
	}
	resp.Background = func(ctx context.Context) {
		h.serve(ctx, l)
		if err := req.Dir.Secrets().Remove(socketName); err != nil {
			h.log.Warn("remove task API socket", "err", err)
		}
	}
	return nil
}

// listen creates the socket through the descriptor of its directory. The mode is set before the
// socket has a name, so that no other user can connect.
func listen(ctx context.Context, dir *safefs.Dir, name string, owner Owner) (net.Listener, error) {
	if err := dir.Remove(name); err != nil {
		return nil, err
	}
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var chmod error
		err := c.Control(func(fd uintptr) { chmod = unix.Fchmod(int(fd), 0o600) })
		return errors.Join(err, chmod)
	}}
	path := fmt.Sprintf("/proc/self/fd/%d/%s", dir.FD(), name)
	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // the path is a different file by then
	if owner.UID >= 0 {
		err = unix.Fchownat(dir.FD(), name, owner.UID, owner.GID, unix.AT_SYMLINK_NOFOLLOW)
	}
	if err != nil {
		l.Close() // no connection was accepted
		return nil, fmt.Errorf("change the owner of %s: %w", name, err)
	}
	return l, nil
}

// serve serves requests until ctx ends.
func (h *socketHook) serve(ctx context.Context, l net.Listener) {
	var only http.Protocols
	only.SetHTTP1(true) // the configuration of HTTP/2, which needs TLS, would be made for every task
	srv := &http.Server{
		Handler:           h.api.Handler,
		Protocols:         &only,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          slog.NewLogLogger(h.log.Handler(), slog.LevelDebug),
	}
	stop := context.AfterFunc(ctx, func() { srv.Close() }) // Serve returns its error
	defer stop()
	limited := &connlimit.Listener{Listener: l, Limit: h.api.Limit, Key: func(net.Conn) string { return h.key }, Refuse: h.refuse}
	if err := srv.Serve(limited); err != nil && !errors.Is(err, http.ErrServerClosed) {
		h.log.Warn("task API socket ended", "err", err)
	}
}

// refuse sends a response to a connection over the limit.
func (h *socketHook) refuse(c net.Conn) {
	h.log.Debug("task API socket: too many connections", "limit", SocketConns)
	c.SetDeadline(time.Now().Add(time.Second)) //nolint:errcheck // the send buffer of a new connection is empty
	_, _ = io.WriteString(c, tooMany)          // it is closed in any case
	c.Close()
	if h.api.Refused != nil {
		h.api.Refused(c)
	}
}
